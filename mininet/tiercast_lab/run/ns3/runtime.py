"""A run in virtual time, over ns-3, with the same experiment, cores, P4 program and controller.

tiercast-ns3 simulates. This module sends it the scenario, answers its questions to the controller
and takes its rows. docs/ns3.md describes the lines that the two exchange.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from tiercast.v1.simulation_pb2 import ControllerAnswer, Scenario
from tiercast_controller.agents.records import RECEIVERS, SENDERS
from tiercast_controller.virtual import VirtualController

from tiercast_lab.base import binaries
from tiercast_lab.base.errors import RunFailed, among
from tiercast_lab.base.interrupt import Interrupt, die_with
from tiercast_lab.experiment.tcp_stack import OF_NS3
from tiercast_lab.run.controller_input import (
    Reach,
    described_sessions,
    described_topology,
    programs_for,
)
from tiercast_lab.run.ns3.scenario import CONTROL_DELAY_NS, delimited, scenario
from tiercast_lab.run.progress import RUNNING
from tiercast_lab.run.runtime import Run

# The kinds of rows besides those that the schemes' cores trace. Each becomes a table of the run.
KINDS = frozenset(
    {*SENDERS, *RECEIVERS, "port", "port.session", "tcp", "tcp.sender", "udp", "trace", "state"}
    | {"port.refused"}
)


def environment() -> dict[str, str]:
    """In which tiercast-ns3 is to be started. It visits switches in turn, each with memory of its
    own, so with pages of 4 kB address translations are missing all the time. glibc reads its
    tunables when a program starts; one that does not know this one ignores it."""
    return {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", **os.environ}


@dataclass(kw_only=True)
class Ns3Run(Run):
    threads: int = 1

    def check(self) -> None:
        binaries.require(*self.files)
        programs_for(self.loaded)
        if self.loaded.experiment.keys:
            raise self.loaded.error(
                ("keys",), "in virtual time nobody forges messages; valid: --runtime mininet"
            )
        if self.loaded.experiment.multicast:
            raise self.loaded.error(
                ("multicast",),
                "groups of programs on hosts, which virtual time has none of; valid: "
                "--runtime mininet",
            )
        for index, entry in enumerate(self.loaded.experiment.traffic):
            if entry.kind == "command":
                raise self.loaded.traffic_error(
                    index,
                    "kind",
                    "a command needs a host with a kernel; valid: --runtime mininet",
                )
            if entry.congestion_control not in OF_NS3:
                raise self.loaded.traffic_error(
                    index,
                    "congestion_control",
                    f"ns-3 has no {among(entry.congestion_control, OF_NS3)}",
                )

    @property
    def files(self) -> list[Path]:
        return [binaries.NS3, *self.programs_of_switches]

    def execute(self, interrupt: Interrupt) -> None:
        topology = self.loaded.topology
        self.view.say(
            f"{self.loaded.experiment.name}: {len(topology.switches)} switches, "
            f"{len(topology.hosts)} hosts, in virtual time"
        )
        controller = VirtualController(
            described_topology(self.loaded, lambda one: Reach("", one.device_id)),
            described_sessions(self.loaded),
            programs_for(self.loaded),
            self.loaded.experiment.leaves_after / 1e9,
        )
        began = time.monotonic()
        # In memory, as it may have to say that the disk is full.
        with open(os.memfd_create("tiercast-ns3.log"), "w+b") as errors:
            child = subprocess.Popen(
                [binaries.NS3, "--threads", str(self.threads)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment(),
                # With a session of its own the child gets no Ctrl-C from the terminal: this process
                # decides how to react.
                preexec_fn=partial(die_with, os.getpid()),
                start_new_session=True,
            )
            try:
                # With many thousands of receivers the child may take long to reach its next line.
                with interrupt.ending(child.kill):
                    self._talk(child, controller, interrupt, errors)
            finally:
                child.kill()
                child.wait()
                with contextlib.suppress(OSError):
                    (self.logs / "tiercast-ns3.log").write_bytes(_content(errors))
        self.view.say(
            f"{self.loaded.experiment.duration / 1e9:g} s of virtual time "
            f"in {time.monotonic() - began:.1f} s"
        )

    def _talk(
        self, child: subprocess.Popen[bytes], controller: VirtualController,
        interrupt: Interrupt, errors: BinaryIO,
    ) -> None:  # fmt: skip
        to_child, from_child = child.stdin, child.stdout
        assert to_child is not None and from_child is not None  # both are pipes

        def tell(message: Scenario | ControllerAnswer) -> None:
            to_child.write(delimited(message))
            to_child.flush()

        kinds = KINDS.union(*self.loaded.records.values())
        ended = False
        try:
            tell(scenario(self.loaded, self.seed, self.captures))
            tell(ControllerAnswer(updates=controller.first_updates()))
            self.enter(RUNNING)
            for line in from_child:
                if not line.endswith(b"\n"):
                    break  # tiercast-ns3 died while it wrote this line
                message = json.loads(line)
                if "kind" in message:
                    if message["kind"] not in kinds:
                        raise RunFailed(f"tiercast-ns3 wrote a row of kind {message['kind']!r}")
                    self.recorder.add_line(message["kind"], line)
                    self._show(message)
                elif "ask" in message:
                    tell(answer(controller, message, self.loaded.experiment.leaves_after))
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
            text = _content(errors).decode(errors="replace").strip()
            raise RunFailed(f"tiercast-ns3 ended with status {status}: {text or 'no message'}")

    def _show(self, row: dict[str, Any]) -> None:
        time_s = row["time_ns"] / 1e9
        self.progress.take(row["kind"], time_s, row["agent"], row)


def _content(file: BinaryIO) -> bytes:
    file.seek(0)
    return file.read()


# Times in seconds are rounded; a leave's latency is not over a rounding too late.
ROUNDING_S = 1e-9


def answer(
    controller: VirtualController, question: dict[str, Any], leave_latency_ns: int = 0
) -> ControllerAnswer:
    """To a question of tiercast-ns3 (docs/ns3.md)."""
    if question["ask"] == "port":
        updates = controller.port_changed(
            question["switch"], question["port"], question.get("up"), question.get("delay_ns")
        )
        return ControllerAnswer(updates=updates, delay_ns=CONTROL_DELAY_NS)
    session, now_s = question["session"], question["time_ns"] / 1e9
    if question["ask"] == "expire":
        updates = controller.expire(now_s + ROUNDING_S)
    else:
        joins = question["ask"] == "join"
        host, rank = question["host"], question["rank"]
        updates = controller.change(host, session, rank, joins, now_s)
    return ControllerAnswer(
        updates=updates,
        delay_ns=CONTROL_DELAY_NS,
        expire_ns=leave_latency_ns if question["ask"] == "leave" else 0,
        top_rank=controller.new_top_rank(session),
    )
