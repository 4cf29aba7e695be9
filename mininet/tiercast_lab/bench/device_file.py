"""The YAML that describes the device under test, and the tester's ports that are cabled to it
(docs/bench.md)."""

from __future__ import annotations

from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from tiercast_controller.base import bounded_yaml
from tiercast_controller.base.strict import Strict
from tiercast_controller.base.units import parse_rate

from tiercast_lab.base.errors import InputError

Embedded = Literal["tiercast-switch", "tiercast-switch-dpdk", "bmv2"]
Rate = Annotated[int, BeforeValidator(parse_rate), Field(gt=0)]  # bit/s
MAX_GROUPS = 8 * 32768  # addresses of sessions' layers


class _Part(Strict):
    model_config = ConfigDict(strict=False)  # addresses and paths are text in a file


class PortPart(_Part):
    device: str  # of DPDK: an argument of --vdev, or a PCI address
    address: IPv4Address
    # Where frames for the next port's address are sent, as MAC address; None: that port's own.
    next_hop: str | None = Field(default=None, pattern=r"^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$")


class GroupsPart(_Part):
    """Group addresses (RFC 3918 section 3.1.2): `count` of them from `first` on."""

    first: IPv4Address = IPv4Address("239.192.0.0")
    count: int = Field(default=64, ge=1, le=MAX_GROUPS)
    igmp: Literal[2, 3] = 3

    @model_validator(mode="after")
    def _are_groups(self) -> GroupsPart:
        if not (self.first.is_multicast and (self.first + (self.count - 1)).is_multicast):
            raise ValueError(f"{self.first} and {self.count - 1} more are not all groups")
        return self


class DeviceFile(_Part):
    name: str = ""
    embedded: Embedded | None = None
    # Of an embedded device: its ports' rate (tiercast-switch alone), and how many receive.
    port_rate: Rate | None = None
    queue: str | None = Field(default=None, pattern=r"^\d+p$")
    receivers: int = Field(default=2, ge=1, le=14)
    # Of another device: the first port sends.
    ports: list[PortPart] = Field(default_factory=list)
    eal: list[str] = Field(default_factory=list)
    poll: bool = False
    line_rate: Rate | None = None  # of the sending port; bounds the search
    groups: GroupsPart = GroupsPart()
    # A command of the shell that resets a device that is not embedded (RFC 6201), such as
    # "ssh switch reload". It may return before the device is back.
    reset: str | None = None
    multicast: bool = True  # whether the device forwards multicast
    unicast: bool = True  # whether it forwards unicast between the ports' addresses

    @model_validator(mode="after")
    def _one_device(self) -> DeviceFile:
        if (self.embedded is None) == (not self.ports):
            raise ValueError("give either `embedded` or `ports`")
        if self.ports and len(self.ports) < 2:
            raise ValueError("`ports` needs at least two: one that sends, and one that receives")
        if self.embedded and self.reset:
            raise ValueError("an embedded device has its own `reset`; leave it out")
        if self.ports and (self.port_rate or self.queue):
            raise ValueError("`port_rate` and `queue` are an embedded device's")
        if self.embedded == "bmv2" and (self.port_rate or self.queue):
            raise ValueError("bmv2 has no rates in bit/s; leave out `port_rate` and `queue`")
        if len({port.address for port in self.ports}) < len(self.ports):
            raise ValueError("two `ports` have the same address")
        return self


def read_device(path: Path) -> DeviceFile:
    """Raises InputError or ConfigurationError, which name the file and the place."""
    data = bounded_yaml.read(path).plain()
    if not isinstance(data, dict):
        raise InputError(f"{path}: not a mapping; docs/bench.md shows one")
    try:
        return DeviceFile.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(f"{path}: {place + ': ' if place else ''}{first['msg']}") from None
