"""What makes a run: virtual time, or Mininet with one of the two kinds of switch."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from tiercast_lab.base import binaries


@dataclass(frozen=True)
class Target:
    runtime: str = "ns3"  # as `tiercast run --runtime` has it: ns3 or mininet
    switch: str = "tiercast"  # as --switch has it: tiercast or bmv2

    @property
    def in_real_time(self) -> bool:
        return self.runtime == "mininet"

    @property
    def options(self) -> list[str]:
        """The options of `tiercast run` that choose it."""
        of_switch = [f"--switch={self.switch}"] if self.switch != "tiercast" else []
        return [f"--runtime={self.runtime}", *of_switch]

    @property
    def folder(self) -> str:
        """What the folders of its reports are called, beside those in virtual time."""
        return "".join(f"-{one}" for one in self._names)

    @property
    def programs(self) -> tuple[Path, ...]:
        """The programs on which a run's rows depend."""
        if not self.in_real_time:
            return (binaries.NS3,)
        if self.switch == "tiercast":
            return binaries.SENDER, binaries.HOST, binaries.SWITCH
        switch = Path(shutil.which(BMV2) or BMV2)
        return binaries.SENDER, binaries.HOST, binaries.DELAY_LINE, switch

    @property
    def _names(self) -> tuple[str, ...]:
        if not self.in_real_time:
            return ()
        return ("mininet",) if self.switch == "tiercast" else ("mininet", self.switch)

    def __str__(self) -> str:
        names = {(): "virtual time", ("mininet",): "Mininet"}
        return names.get(self._names, f"Mininet, {self.switch}")


BMV2 = "simple_switch_grpc"
VIRTUAL = Target()
MININET = Target("mininet")
MININET_BMV2 = Target("mininet", "bmv2")


def is_installed(target: Target) -> bool:
    return all(path.exists() for path in target.programs)
