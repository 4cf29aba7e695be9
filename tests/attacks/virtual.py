"""Attacks on the P4 program in virtual time, through the engine: the tests of
tests/p4src/source_test.cpp, which inject packets at a switch's ports."""

import json
import subprocess
import tempfile
from pathlib import Path

from ..controller.chain import ROOT
from .row import Row

WHERE = "virtual network"
BINARY = ROOT / "build/tests/p4src/p4src_test"
# The attack and what is expected, by the test that tries it.
TESTS = {
    "ASessionIsForwardedFromItsSourceThroughItsPort": (
        "data to a session's group: of another source, through another port, in a host's own name",
        "0 delivered, all counted",
    ),
    "WhatIsOnItsWayWhenAPathMovesIsForwarded": (
        "the same while a path moves",
        "only what is on its way on the old path is delivered",
    ),
    "AHostSendsItsOwnUnicastAddressAlone": (
        "unicast in another's name",
        "0 delivered, all counted",
    ),
    "ForgedFeedbackReachesNoAggregator": (
        "feedback in another's name to a switch that aggregates",
        "0 merged, all counted",
    ),
    "AHostReportsInItsOwnNameAlone": (
        "IGMP in another's name",
        "0 to the controller, all counted",
    ),
    "IgmpIsLimitedForEachPort": (
        "2000 reports/s of one port, limited to 200/s",
        "200/s and the burst to the controller; all reports of another port",
    ),
}


def rows() -> list[Row]:
    """Raises FileNotFoundError if the tests are not built."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "tests.json"
        subprocess.run(
            [BINARY, "--gtest_filter=SourceChecks.*", f"--gtest_output=json:{report}"],
            capture_output=True, check=False, timeout=600,
        )  # fmt: skip
        (suite,) = json.loads(report.read_text())["testsuites"]
    failures = {
        test["name"]: [one["failure"].splitlines()[0] for one in test.get("failures", [])]
        for test in suite["testsuite"]
    }
    return [
        Row(attack, WHERE, expected, "; ".join(failures[name]) or "as expected", not failures[name])
        for name, (attack, expected) in TESTS.items()
    ]
