"""The attacks of `make attack`: docs/security.md."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from tiercast_controller.p4runtime.program import Program

from ..controller.chain import Network, running_network
from ..controller.conftest import COMPILED
from . import control, in_namespaces, on_a_link, virtual
from .row import Row


@pytest.fixture(scope="module")
def program() -> Program:
    return Program.load(COMPILED / "tiercast.json", COMPILED / "tiercast.p4info.txtpb")


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    if os.geteuid() != 0:
        pytest.skip("needs root, for network namespaces")
    with running_network(tmp_path) as network:
        yield network


@pytest.mark.slow
@pytest.mark.parametrize("attack", ["injected_data", "forged_feedback", "forged_leave"])
def test_what_is_not_from_where_it_claims_to_be_is_refused(
    network: Network, program: Program, attack: str
) -> None:
    row: Row = asyncio.run(getattr(in_namespaces, attack)(network, program))
    assert row.met, row


@pytest.mark.slow
@pytest.mark.parametrize("is_right", [True, False])
def test_a_flood_of_igmp_is_limited_before_it_reaches_the_controller(
    network: Network, program: Program, is_right: bool
) -> None:
    """How soon others join, and what the controller takes, is `make attack`'s to judge: it depends
    on the machine."""
    row = asyncio.run(in_namespaces.igmp_flood(network, program, is_right, per_s=5000, seconds=1.5))
    assert row.met is not None
    policed = int(row.seen.split("; ")[-1].split()[0])
    # 7500 reports in 1.5 s or more; 200 at once, and 200 a second.
    assert policed >= 5000, row


def test_the_p4_program_and_senders_refuse_them_in_virtual_time() -> None:
    rows = virtual.rows()
    assert all(row.met for row in rows), rows


@pytest.mark.slow
@pytest.mark.parametrize(
    "attack", ["forged_feedback", "forged_icmp", "replayed_feedback", "object_under_attack"]
)
def test_what_no_switch_checks_is_found_at_the_ends(attack: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, for network namespaces")
    row = on_a_link.attacked(getattr(on_a_link, attack))
    assert row.met, row


@pytest.mark.parametrize("attack", control.ATTACKS)
def test_control_is_for_who_has_a_key_and_within_its_role(
    tmp_path: Path, program: Program, attack: Callable[[Path, Program], Coroutine[Any, Any, Row]]
) -> None:
    row = asyncio.run(attack(tmp_path, program))
    assert row.met, row
