"""The tester: a tiercast-tester process that owns the ports, told a line of JSON at a time
(dataplane/tester/README.md)."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tiercast_lab.base import binaries
from tiercast_lab.base.errors import RunFailed
from tiercast_lab.base.interrupt import Interrupt, die_with

# Taken as it is used. Fifteen ports with buffers for frames of 9,000 bytes need 600 MB.
MEMORY_MB = 768
END_S = 10.0


@dataclass(frozen=True)
class CabledPort:
    device: str  # of --vdev, without a number, or a PCI address: "net_af_packet,iface=p0"
    address: str
    next_hop: str | None = None


class Tester:
    def __init__(
        self,
        ports: Sequence[CabledPort],
        interrupt: Interrupt,
        *,
        prefix: Sequence[str] = (),
        eal: Sequence[str] = (),
        streams: int,
        packet_size: int,
        igmp: int,
        poll: bool,
    ) -> None:
        """`prefix` is what runs the program elsewhere, such as `ip netns exec NAME`."""
        binaries.require(binaries.TESTER)
        names, devices = [], []
        for number, port in enumerate(ports):
            driver, comma, arguments = port.device.partition(",")
            if driver.startswith("net_"):
                name = f"{driver.rstrip('0123456789')}{number}"
                devices.append(f"--vdev={name}{comma}{arguments}")
            else:
                name = driver
                devices += ["-a", port.device]
            names.append(f"--port={name}={port.address}")
        if not any(argument.startswith("-a") for argument in devices):
            devices.append("--no-pci")
        memory = [] if "--huge" in eal else ["--no-huge", "-m", str(MEMORY_MB)]
        command = [
            *prefix, str(binaries.TESTER), *devices, *memory, "--no-shconf", "--no-telemetry",
            *(argument for argument in eal if argument != "--huge"), "--", *names,
            f"--streams={streams}", f"--packet-size={packet_size}", f"--igmp={igmp}",
            *(["--poll"] if poll else []),
        ]  # fmt: skip
        self._interrupt = interrupt
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, start_new_session=True, preexec_fn=partial(die_with, os.getpid()),
        )  # fmt: skip
        self.ports: list[dict[str, Any]] = self.ask({"do": "ports"})["ports"]

    def ask(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Raises RunFailed if the command fails or the tester has ended."""
        self._interrupt.check()
        process = self._process
        assert process.stdin and process.stdout and process.stderr
        try:
            # A trial may take a minute; a signal ends it.
            with self._interrupt.ending(process.kill):
                process.stdin.write(json.dumps(command) + "\n")
                process.stdin.flush()
                line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        self._interrupt.check()
        if not line:
            process.kill()
            said = process.stderr.read().strip()
            raise RunFailed(f"the tester ended: {said[-2000:]}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RunFailed(f"the tester refused {command.get('do')}: {answer['error']}")
        return answer

    def close(self) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.close()
            self._process.wait(END_S)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
