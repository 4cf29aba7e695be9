"""Attacks a network of its own and prints what came of it: `make attack`.

In virtual networks and on the loopback device always, in namespaces where this is root. Ends with 0
if all that was tried is as expected, with 1 otherwise. docs/security.md says what is checked where.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import textwrap
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [
    str(ROOT),
    str(ROOT / "build/python"),
    str(ROOT / "controller"),
    str(ROOT / "mininet"),
]

from tiercast_controller.p4runtime.program import Program  # noqa: E402

from tests.agent.network import HOST, SENDER, Link  # noqa: E402
from tests.attacks import control, in_namespaces, on_a_link, virtual  # noqa: E402
from tests.attacks.row import Row  # noqa: E402
from tests.controller.chain import BINARY, Network, running_network  # noqa: E402

COMPILED = ROOT / "p4src/compiled"
REAL: dict[str, Callable[[Network, Program], Coroutine[Any, Any, Row]]] = {
    "data injected into a session": in_namespaces.injected_data,
    "feedback in a member's name": in_namespaces.forged_feedback,
    "leaves in a member's name": in_namespaces.forged_leave,
    "a flood of IGMP": lambda network, program: in_namespaces.igmp_flood(network, program, True),
    "a flood of bad IGMP": lambda network, program: in_namespaces.igmp_flood(
        network, program, False
    ),
}
ON_A_LINK: dict[str, Callable[[Link], Row]] = {
    "feedback of hosts that are no members": on_a_link.forged_feedback,
    "forged ICMP": on_a_link.forged_icmp,
    "replayed feedback": on_a_link.replayed_feedback,
    "an object under attack": on_a_link.object_under_attack,
}
NOT_TRIED = {
    "an inflated subscription": "nothing bounds it; `tiercast sweep lies` shows what it does",
    "faults: stopped and killed processes, deleted links": "tests of the lab have some of them",
}
WIDTHS = (34, 11, 34, 40, 9)


def line(*cells: str) -> str:
    wrapped = [textwrap.wrap(cell, width) for cell, width in zip(cells, WIDTHS, strict=True)]
    height = max(map(len, wrapped))
    return "\n".join(
        "  ".join(
            (of_one[at] if at < len(of_one) else "").ljust(width)
            for of_one, width in zip(wrapped, WIDTHS, strict=True)
        ).rstrip()
        for at in range(height)
    )


def attacked(
    attack: Callable[[Network, Program], Coroutine[Any, Any, Row]], program: Program
) -> Row:
    with (
        tempfile.TemporaryDirectory() as scratch,
        running_network(Path(scratch)) as network,
    ):
        return asyncio.run(attack(network, program))


def main() -> int:
    for binary in (BINARY, *virtual.BINARIES, SENDER, HOST):
        if not binary.exists():
            print(f"attack: {binary} is missing: `make attack` builds it", file=sys.stderr)
            return 2
    print(line("attack", "where", "expected", "seen", "verdict"))
    print("  ".join("-" * width for width in WIDTHS))
    rows = []

    def show(row: Row) -> None:
        rows.append(row)
        where = {"namespaces": "namespaces", "virtual network": "virtual"}.get(row.where, row.where)
        print(line(row.attack, where, row.expected, row.seen, row.verdict), flush=True)
        print()

    for row in virtual.rows():
        show(row)
    program = Program.load(COMPILED / "tiercast.json", COMPILED / "tiercast.p4info.txtpb")
    for on_control in control.ATTACKS:
        with tempfile.TemporaryDirectory() as scratch:
            show(asyncio.run(on_control(Path(scratch), program)))
    for name, attack in REAL.items():
        if os.geteuid() != 0:
            show(Row(name, "namespaces", "", "only root makes namespaces", None))
            continue
        print(f"{name} ...", file=sys.stderr)
        show(attacked(attack, program))
    for name, attack_link in ON_A_LINK.items():
        if os.geteuid() != 0:
            show(Row(name, "namespaces", "", "only root makes namespaces", None))
            continue
        print(f"{name} ...", file=sys.stderr)
        show(on_a_link.attacked(attack_link))
    for name, why in NOT_TRIED.items():
        show(Row(name, "", "", why, None))
    missed = sum(row.met is False for row in rows)
    tried = sum(row.met is not None for row in rows)
    print(f"{tried} attacks: {tried - missed} as expected, {missed} not; "
          f"{len(rows) - tried} not tried")  # fmt: skip
    return 1 if missed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
