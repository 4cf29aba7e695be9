"""A program that cannot write its result says so, and its status is not 0."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ..agent.network import EAL
from ..checkout import BUILD, ROOT
from ..patience import PATIENCE_S

JSON = ROOT / "p4src/compiled/tiercast.json"


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        ("dataplane/receiver/tiercast-recv", ["--vdev=net_null0,no-rx=1", *EAL, "--", "--any",
                                              "--duration=100ms"]),
        ("dataplane/sender/tiercast-send", ["--vdev=net_null0", *EAL, "--", "--address=10.0.0.2",
                                            "--duration=100ms"]),
        ("dataplane/tester/tiercast-tester", ["--vdev=net_ring0", *EAL, "--",
                                              "--port=net_ring0=10.0.0.2"]),
        ("hosts/tiercast-host", ["--help"]),
        ("dataplane/marking/tiercast-marking", ["--help"]),
        ("dataplane/native/tiercast-native-code", ["--key", str(JSON)]),
        ("dataplane/stf/tiercast-stf", ["--version"]),
        ("dataplane/delay_line/tiercast-delay-line", ["--help"]),
        ("dataplane/switch/tiercast-switch", ["--version"]),
        ("ns3/tiercast-ns3", ["--help"]),
        ("tools/norm/tiercast-norm", ["--help"]),
    ],
    ids=lambda value: value.rpartition("/")[2] if isinstance(value, str) else "",
)  # fmt: skip
def test_a_full_disk_is_named(program: str, arguments: list[str]) -> None:
    if program.endswith("-norm") and not (BUILD / program).exists():
        pytest.skip("tiercast-norm is built where libnorm-dev is installed")
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run([str(BUILD / program), *arguments], stdout=full,
                               stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S,
                               input='{"do": "ports"}\n' * 3, check=False)  # fmt: skip
    name = program.rpartition("/")[2]
    assert ended.returncode == 1, ended.stderr
    assert f"{name}: standard output: " in ended.stderr


def test_a_report_is_whole_where_the_summary_has_no_room(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run([str(BUILD / "dataplane/receiver/tiercast-recv"),
                                "--vdev=net_null0,no-rx=1", *EAL, "--", "--any",
                                "--duration=100ms", f"--json={report}"],
                               stdout=full, stderr=subprocess.PIPE, text=True,
                               timeout=PATIENCE_S, check=False)  # fmt: skip
    assert ended.returncode == 1
    assert report.read_text().endswith("}\n")
