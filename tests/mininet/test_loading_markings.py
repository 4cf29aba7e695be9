"""Markings and queues of an experiment: what they mean at a port. Wrong ones are refused."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from tiercast_controller.network.marking import (
    DropTail,
    PortPolicy,
    PortQueue,
    PriorityMarking,
    PriorityQueues,
    Red,
    ThresholdMarking,
)
from tiercast_controller.network.routing import static_entries
from tiercast_controller.p4runtime.entities import TableEntry
from tiercast_lab.base.errors import InputError
from tiercast_lab.run.controller_input import Reach, described_topology
from tiercast_lab.run.mininet.commands import switch_options
from tiercast_lab.run.ns3.scenario import scenario

from .conftest import SMALL


def test_markings_and_the_policies_that_follow(load) -> None:
    def policy(text: str, link: str = "0-1") -> PortPolicy | None:
        loaded = load(textwrap.dedent(SMALL) + f"marking: {{{text}}}\n")
        rate = loaded.topology.links[link].parameters.rate
        return loaded.experiment.marking_of(link).at(rate, 1000, idle_us=7)

    assert policy("threshold: auto", "1-3") == PriorityMarking().at(1_000_000, 1000, 7)
    threshold = ThresholdMarking(threshold=20)
    assert policy("kind: threshold, threshold: 20") == threshold.at(6_000_000, 1000, 7)
    drop_tail = DropTail(limit=30)
    assert policy("kind: drop_tail, limit: 30") == drop_tail.at(6_000_000, 1000, 7)
    assert policy("kind: none") is None
    red = Red(min_th=4, ecn=True, limit=60)
    assert policy("kind: red, ecn: true, min_th: 4, limit: 60") == red.at(6_000_000, 1000, 7)


def test_red_on_arrival_is_told_to_the_queues_of_both_runtimes(load) -> None:
    own = "1-3: {marking: {kind: red, where: arrival, min_th: 4, ecn: true}}"
    loaded = load(SMALL.replace("1-3: {rate: 1Mbit/s}", own))
    ports = [port for one in scenario(loaded, seed=1).switches for port in one.ports]
    (simulated,) = [port for port in ports if port.HasField("red")]
    assert simulated.link == "1>3"
    red = simulated.red
    assert (red.min_th, red.max_th, red.max_p, red.weight) == (4, 15, 0.1, 0.002)
    assert (red.ecn, red.wait, red.gentle, red.mean_packet_bytes) == (True, True, False, 500)
    described = described_topology(loaded, lambda one: Reach(one.name, one.device_id))
    port = loaded.topology.switches["s1"].port_to("h3")
    assert described.queues("s1") == {
        port: PortQueue(red=loaded.experiment.marking_of("1-3").queue_red())
    }
    assert described.markings("s1")[port].entry(port).action == "no_marking"
    with pytest.raises(InputError, match=r"marking\.limit: link 1-3: limit is 9; valid"):
        load(SMALL.replace("1-3: {rate: 1Mbit/s}", own.replace("ecn: true", "limit: 9")))


def test_two_queues_are_told_to_both_runtimes(load) -> None:
    own = "1-3: {rate: 1Mbit/s, marking: {kind: dualpi2, classic_share: 0.2}}"
    loaded = load(SMALL.replace("1-3: {rate: 1Mbit/s}", own))
    ports = [port for one in scenario(loaded, seed=1).switches for port in one.ports]
    (simulated,) = [port for port in ports if port.HasField("priority_queues")]
    assert simulated.link == "1>3"
    assert (simulated.priority_queues.queues, simulated.priority_queues.low_share) == (2, 0.2)
    described = described_topology(loaded, lambda one: Reach(one.name, one.device_id))
    port = loaded.topology.switches["s1"].port_to("h3")
    assert described.queues("s1") == {port: PortQueue(priority=PriorityQueues(0.2))}
    classes = {name: _classes(entries) for name, entries in static_entries(described).items()}
    assert classes == {"s0": [], "s1": [1, 3], "s2": []}
    fair = own.replace("{rate", "{scheduling: fair, rate")
    said = r"marking: link 1-3 has a queue for each flow, and dualpi2 two of its own; valid: sched"
    with pytest.raises(InputError, match=said):
        load(SMALL.replace("1-3: {rate: 1Mbit/s}", fair))


def _classes(entries: list[TableEntry]) -> list[int]:
    """The ECN fields whose packets have a priority."""
    return [item.exact("ecn") for item in entries if item.table == "queue_class"]


def test_a_link_may_have_its_own_marking(load) -> None:
    own = "1-3: {marking: {kind: drop_tail, limit: 9}}"
    experiment = load(SMALL.replace("1-3: {rate: 1Mbit/s}", own)).experiment
    assert experiment.marking_of("1-3") == DropTail(limit=9)
    assert experiment.marking_of("0-1") == experiment.marking_of("h0") == PriorityMarking()


def test_a_level_that_a_switch_cannot_hold_is_named_where_it_stands(load) -> None:
    level = "levels: {L2: {marking: {kind: red, max_th: 70000}}}\n      links:"
    said = r"experiment.yaml:6: topology\.levels\.L2\.marking\.max_th: link 1-3: max_th is 70000"
    with pytest.raises(InputError, match=said):
        load(SMALL.replace("links:", level))


def test_a_link_counts_in_packets_of_what_crosses_it(load) -> None:
    """The largest data packets of sessions and flows in either direction. 1-3 carries only one of
    two sessions, 1-4 also the TCP flow, and 2-6 nothing."""
    first = "- {scheme: sim, sender: 0, receivers: [5], packet_size: 500B, "
    own = "session: 2, receivers: [3, 4], packet_size: 800B, layers: 2"
    second = f"- {{scheme: sim, sender: 0, {own}}}"
    loaded = load(
        textwrap.dedent(SMALL).replace("- {scheme: sim, sender: 0,", f"{second}\n  {first}")
        + "traffic: [{kind: tcp, from: 4, to: 0, packet_size: 1400B}]\n"
    )
    sizes = {name: loaded.packet_size_of(name) for name in loaded.topology.links}
    expected = {"0-1": 1400, "0-2": 500, "1-3": 800, "1-4": 1400, "2-5": 500, "2-6": 1000}
    assert {name: size for name, size in sizes.items() if "-" in name} == expected
    # 20 ms of 1 Mbit/s: 2500 bytes.
    switch, port = "s1", loaded.topology.switches["s1"].port_to("h3")
    described = described_topology(loaded, lambda one: Reach(one.name, one.device_id))
    entry = described.markings(switch)[port].entry(port)
    assert dict(entry.params)["threshold"] == 2500 / 800 * 256


@pytest.mark.parametrize(
    ("marking", "said"),
    [
        ("{kind: RED}", "marking.kind: 'RED'; .*did you mean 'red'"),
        ("{kind: redd}", "marking.kind: .*'priority', .*did you mean 'red'"),
        ("{kind: red, minth: 5}", "marking.minth: unknown key; .*did you mean 'min_th'"),
        ("{kind: drop_tail, threshold: 5}", "marking.threshold: unknown key; valid: kind, limit"),
        ("{kind: drop_tail}", "marking.limit: this key is missing"),
        ("{kind: threshold}", "marking.threshold: this key is missing"),
        ("{kind: threshold, threshold: 2.5}", "marking.threshold: 2.5; valid: a whole number"),
        ("{threshold: 0}", "'threshold' is 0; valid: auto, or above 0"),
        ("{kind: red, min_th: 20}", "marking.min_th: link 0-1: min_th 20 and max_th 15: valid is"),
        ("{kind: red, max_th: 70000}", r"marking.max_th: .*max_th is 70000; valid: 0\.\.65535"),
    ],
)
def test_markings_are_checked(load, marking: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        load(textwrap.dedent(SMALL) + f"marking: {marking}\n")
    with pytest.raises(
        InputError,
        match=f"experiment.yaml:7: .*{said.removeprefix('marking: ').replace('0-1', '1-3')}",
    ):
        load(SMALL.replace("1-3: {rate: 1Mbit/s}", f"1-3: {{rate: 1Mbit/s, marking: {marking}}}"))


@pytest.mark.parametrize("scheduling", ["fair", "layered"])
def test_a_link_may_have_a_queue_for_each_flow(load, scheduling: str) -> None:
    loaded = load(SMALL.replace("1-3: {rate: 1Mbit/s}", f"1-3: {{scheduling: {scheduling}}}"))
    assert loaded.topology.links["1-3"].parameters.scheduling == scheduling
    assert loaded.topology.links["0-1"].parameters.scheduling == "fifo"
    ports = {
        port.link: (port.fair_queueing, port.layered)
        for switch in scenario(loaded, seed=1).switches
        for port in switch.ports
    }
    assert ports["1>3"] == (True, scheduling == "layered")
    assert ports["0>1"] == (False, False)
    switch = loaded.topology.switches["s1"]
    command = switch_options(switch, loaded.topology, ["e1", "e2", "e3"], Path("/s"), 1)
    assert len([part for part in command if f"scheduling={scheduling}" in part]) == 1
    with pytest.raises(InputError, match="scheduling"):
        load(SMALL.replace("1-3: {rate: 1Mbit/s}", "1-3: {scheduling: random}"))
