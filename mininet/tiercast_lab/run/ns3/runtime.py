"""A run in virtual time, over ns-3: the same experiment, cores, P4 program and controller.

tiercast-ns3 does the simulating; this side hands it the scenario, answers what it asks of the
controller, and takes its rows. docs/ns3.md has the lines that both exchange.
"""

from __future__ import annotations

import json
import random
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tiercast_controller as control
from tiercast_controller.records import RECEIVERS, SENDERS

from tiercast_lab.base import binaries
from tiercast_lab.base.errors import RunFailed
from tiercast_lab.base.interrupt import Interrupt, die_with_parent
from tiercast_lab.experiment.schema import (
    START_SPREAD_NS,
    Experiment,
    Flow,
    LinkEvent,
    LoadedExperiment,
    Period,
)
from tiercast_lab.experiment.topology import Topology
from tiercast_lab.run.controller_input import described_sessions, described_topology
from tiercast_lab.run.progress import RUNNING
from tiercast_lab.run.runtime import Run

OVERHEAD_BYTES = -14  # rates and queues count IP bytes, as in Mininet
# From the IGMP report's arrival at the switch to the changed tables. In Mininet the median is
# 5 to 15 ms.
CONTROL_DELAY_NS = 10_000_000
# Of rows, beside those that the schemes' cores trace; each is a table of the run.
KINDS = frozenset({*SENDERS, *RECEIVERS, "port", "port.session", "tcp", "tcp.sender", "udp"})


@dataclass(kw_only=True)
class Ns3Run(Run):
    def check(self) -> None:
        binaries.require(*self.files)

    @property
    def files(self) -> list[Path]:
        return [binaries.NS3, binaries.P4_JSON, binaries.P4_INFO]

    def execute(self, interrupt: Interrupt) -> None:
        topology = self.loaded.topology
        self.view.say(
            f"{self.loaded.experiment.name}: {len(topology.switches)} switches, "
            f"{len(topology.hosts)} hosts, in virtual time"
        )
        controller = control.VirtualController(
            described_topology(self.loaded, 0, lambda _: ""),
            described_sessions(self.loaded),
            control.Program.load(binaries.P4_JSON, binaries.P4_INFO),
        )
        log = self.logs / "tiercast-ns3.log"
        began = time.monotonic()
        with log.open("w") as errors:
            child = subprocess.Popen(
                [binaries.NS3],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                # A signal to the terminal's group is this side's to act on.
                preexec_fn=die_with_parent,
                start_new_session=True,
            )
            try:
                # A second of many thousand receivers takes long.
                with interrupt.ending(child.kill):
                    self._talk(child, controller, interrupt)
            finally:
                child.kill()
                child.wait()
        self.view.say(
            f"{self.loaded.experiment.duration / 1e9:g} s of virtual time "
            f"in {time.monotonic() - began:.1f} s"
        )

    def _talk(
        self, child: subprocess.Popen[bytes], controller: control.VirtualController,
        interrupt: Interrupt,
    ) -> None:  # fmt: skip
        def tell(message: dict[str, Any]) -> None:
            child.stdin.write(json.dumps(message).encode() + b"\n")
            child.stdin.flush()

        kinds = KINDS.union(*self.loaded.records.values())
        ended = False
        try:
            tell(scenario(self.loaded, self.seed))
            tell({"updates": controller.first_updates()})
            self.enter(RUNNING)
            for line in child.stdout:
                if not line.endswith(b"\n"):
                    break  # it died while it wrote
                message = json.loads(line)
                if "kind" in message:
                    if message["kind"] not in kinds:
                        raise RunFailed(f"tiercast-ns3 wrote a row of kind {message['kind']!r}")
                    self.recorder.add_line(message["kind"], line)
                    self._show(message)
                elif "ask" in message:
                    tell(answer(controller, message))
                elif "at_ns" in message:
                    interrupt.check()
                    self.recorder.check()
                    self.progress.now_s = message["at_ns"] / 1e9
                    self.view.update(self.progress)
                else:
                    ended = True
        except BrokenPipeError:
            pass
        interrupt.check()
        status = child.wait()
        if status != 0 or not ended:
            text = (self.logs / "tiercast-ns3.log").read_text().strip()
            raise RunFailed(f"tiercast-ns3 ended with status {status}: {text or 'no message'}")

    def _show(self, row: dict[str, Any]) -> None:
        time_s = row["time_ns"] / 1e9
        self.progress.take(row["kind"], time_s, row["agent"], row)


def answer(controller: control.VirtualController, question: dict[str, Any]) -> dict[str, Any]:
    session = question["session"]
    before = controller.top_rank(session)
    joins = question["ask"] == "join"
    updates = controller.change(question["host"], session, question["rank"], joins)
    answer = {"delay_ns": CONTROL_DELAY_NS, "updates": updates}
    if (after := controller.top_rank(session)) != before:
        answer |= {"session": session, "top_rank": after}
    return answer


def scenario(loaded: LoadedExperiment, seed: int) -> dict[str, Any]:
    """The first line that tiercast-ns3 reads (ns3/scenario.h)."""
    experiment, topology = loaded.experiment, loaded.topology
    flows = loaded.flows.items()
    return {
        "program": str(binaries.P4_JSON),
        "seed": seed,
        "duration_ns": experiment.duration,
        "record_every_ns": experiment.record_every or 0,
        "switches": _switches(loaded),
        "hosts": [
            {
                "name": host.name,
                "number": host.number,
                "address": host.address,
                "gateway": host.gateway,
                "mac": host.mac,
                "gateway_mac": host.gateway_mac,
                "switch": host.switch,
                "switch_port": topology.switches[host.switch].port_to(host.name),
            }
            for host in topology.hosts.values()
        ],
        "sessions": _sessions(loaded, seed),
        "tcp": [_tcp_flow(experiment, name, flow) for name, flow in flows if flow.kind == "tcp"],
        "udp": [
            _flow(experiment, name, flow) | {"rate_bps": experiment.traffic[flow.entry].rate}
            for name, flow in flows
            if flow.kind == "udp"
        ],
        "members": _member_changes(experiment),
        "events": [
            change for event in experiment.link_events for change in _changes(topology, event)
        ],
    }


def _member_changes(experiment: Experiment) -> list[dict[str, Any]]:
    first_joins = experiment.first_joins
    changes = [
        {"at_ns": change.at, "session": session, "host": f"h{node}", "joins": change.joins}
        for (session, node), mine in experiment.member_changes.items()
        for change in mine
        if change.at != first_joins.get((session, node))  # it starts then
    ]
    return sorted(changes, key=lambda change: change["at_ns"])


def _switches(loaded: LoadedExperiment) -> list[dict[str, Any]]:
    topology = loaded.topology
    # Hosts whose receivers have no rows, and so their ports.
    unrecorded = {f"h{node}" for nodes in loaded.receivers for node in nodes} - {
        f"h{node}" for nodes in loaded.recorded for node in nodes
    }
    return [
        {
            "name": switch.name,
            "ports": [
                _port(topology, switch.name, number) | {"recorded": neighbour not in unrecorded}
                for number, (neighbour, _) in enumerate(switch.ports, 1)
            ],
        }
        for switch in topology.switches.values()
    ]


def _sessions(loaded: LoadedExperiment, seed: int) -> list[dict[str, Any]]:
    experiment = loaded.experiment
    first_joins = experiment.first_joins
    random_numbers = random.Random(seed)
    return [
        {
            "scheme": session.scheme,
            "session": session.session,
            "layers": session.layers,
            "packet_size": session.packet_size,
            "seed": _session_seed(seed, session.session) if suffix else seed,
            "start_ns": session.start,
            "suffix": suffix,
            "sender": f"h{session.sender}",
            "receivers": [
                {
                    "host": f"h{node}",
                    "start_ns": max(session.start, first_joins.get((session.session, node), 0))
                    + random_numbers.randrange(START_SPREAD_NS),
                    "recorded": node in recorded,
                }
                for node in receivers
            ],
            "set": [f"{name}={value}" for name, value in session.parameters.items()],
        }
        for session, receivers, recorded, suffix in zip(
            experiment.sessions,
            loaded.receivers,
            map(set, loaded.recorded),
            _suffixes(experiment),
            strict=True,
        )
    ]


def _tcp_flow(experiment: Experiment, name: str, flow: Flow) -> dict[str, Any]:
    entry = experiment.traffic[flow.entry]
    return _flow(experiment, name, flow) | {
        "congestion": entry.congestion_control,
        "sack": True,  # as a kernel has it
        "ecn": entry.ecn,
        "delayed_acks": entry.delayed_acks,
        "overhead_ns": entry.overhead,
        "window_packets": entry.window or 0,
    }


def _flow(experiment: Experiment, name: str, flow: Flow) -> dict[str, Any]:
    entry = experiment.traffic[flow.entry]
    description = {
        "name": name,
        "from": f"t{flow.source}",
        "to": f"t{flow.destination}",
        "start_ns": round(flow.start_s * 1e9),
        "stop_ns": round(flow.stop_s * 1e9),
        "packet_size": entry.packet_size,
    }
    if entry.on is not None and entry.off is not None:
        description |= {"on": _period(entry.on), "off": _period(entry.off)}
    return description


def _period(period: Period) -> dict[str, Any]:
    shape = {} if period.shape is None else {"shape": period.shape}
    unit = "mean_packets" if period.in_packets else "mean_ns"
    return {"distribution": period.distribution, unit: period.mean} | shape


def _session_seed(seed: int, session: int) -> int:
    """Of each session but the first: agents of two sessions may be at one node, and an agent's
    random numbers follow from its session's seed and its node's number."""
    return random.Random(f"session {session} of {seed}").getrandbits(32)


def _suffixes(experiment: Experiment) -> list[str]:
    """What the agents' names end with in the rows of each session (experiment.member_name)."""
    return ["", *(f".s{session.session}" for session in experiment.sessions[1:])]


def _port(topology: Topology, switch: str, number: int) -> dict[str, Any]:
    neighbour, link = topology.switches[switch].ports[number - 1]
    parameters, to_host = link.sent_by(switch), neighbour in topology.hosts
    return {
        "port": number,
        "rate_bps": parameters.rate,
        "queue_packets": parameters.queue.packets,
        "queue_bytes": parameters.queue.bytes,
        "delay_ns": parameters.delay,
        # A host delays nothing itself: its link's upstream delay is added where it arrives.
        "rx_delay_ns": parameters.delay if to_host else 0,
        "overhead_bytes": OVERHEAD_BYTES,
        "fair_queueing": parameters.fair,
        "peer": neighbour,
        "peer_port": 0 if to_host else topology.switches[neighbour].port_to(switch),
        "link": topology.switches[switch].direction(number),
    }


def _changes(topology: Topology, event: LinkEvent) -> list[dict[str, Any]]:
    """An event at each end of its link that is a switch."""
    link = topology.links[event.link]
    changes = []
    for end, other in ((link.a, link.b), (link.b, link.a)):
        if end not in topology.switches:
            continue
        limited = end == link.a or not link.parameters.one_way
        queue = event.queue if limited else None
        change = {
            "at_ns": event.at,
            "switch": end,
            "port": topology.switches[end].port_to(other),
            "rate_bps": event.rate if limited else None,
            "queue_packets": queue and queue.packets,
            "queue_bytes": queue and queue.bytes,
            "delay_ns": event.delay,
            "rx_delay_ns": event.delay if other in topology.hosts else None,
        }
        changes.append({key: value for key, value in change.items() if value is not None})
    return changes
