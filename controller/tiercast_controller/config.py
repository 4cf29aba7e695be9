"""The YAML of a controller that runs on its own. `python -m tiercast_controller --help` shows one.

Errors name the file, the place in it, the value and what is wrong with it.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from . import bounded_yaml
from .controller import Controller, Querier
from .errors import ConfigurationError
from .port_policy import DropTail, PortPolicy, PriorityMarking, Red, ThresholdMarking
from .program import Program
from .topology import (
    MAX_LAYERS,
    MAX_PORT,
    MAX_SESSION,
    Aggregation,
    Host,
    Session,
    Switch,
    Topology,
)

EXAMPLE = """\
program: {json: p4src/compiled/tiercast.json, p4info: p4src/compiled/tiercast.p4info.txtpb}
lab: unix:/run/tiercast/lab.sock        # agents attach here; may be left out
querier: {interval_s: 125, max_response_s: 10, version: 3}   # may be left out: no queries
switches:
  - {name: s0, device_id: 1, grpc: "unix:/run/tiercast/s0.sock", mac: "02:00:00:01:00:00",
     ip: 10.1.0.1}                      # for aggregation: network
hosts:
  - {name: h0, address: 10.0.0.2/24, mac: "02:00:00:00:00:00"}
  - {name: h1, address: 10.0.1.2/24, mac: "02:00:00:00:00:01"}
links:
  - {switch: s0, port: 1, to: h0}       # between switches: and to_port
  - {switch: s0, port: 2, to: h1, marking: {kind: priority, threshold_packets: 5, idle_us: 50}}
sessions:
  - {number: 1, layers: 5, source: h0, scheme: sim, aggregation: network}   # or sender
"""


def _mac(value: object) -> object:
    """ "02:00:00:00:00:01" to its 48 bits."""
    if isinstance(value, str):
        parts = value.split(":")
        if len(parts) == 6 and all(len(p) == 2 for p in parts):
            return int("".join(parts), 16)
        raise ValueError("a MAC address is six pairs of hex digits, such as 02:00:00:00:00:01")
    return value


Mac = Annotated[int, BeforeValidator(_mac), Field(ge=0, lt=1 << 48)]
Port = Annotated[int, Field(ge=1, le=MAX_PORT)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ProgramPart(_Part):
    json_file: Path = Field(alias="json")
    p4info: Path


class QuerierPart(_Part):
    interval_s: float = Querier.interval_s
    max_response_s: float = Querier.max_response_s
    version: int = Querier.version
    address: IPv4Address = Querier.address


class SwitchPart(_Part):
    name: str
    device_id: int = Field(ge=1, lt=1 << 64)
    grpc: str
    mac: Mac = 0
    ip: IPv4Address | None = None


class HostPart(_Part):
    name: str
    address: IPv4Interface
    mac: Mac


class PriorityPart(_Part):
    kind: Literal["priority"]
    threshold_packets: float
    idle_us: int


class ThresholdPart(_Part):
    kind: Literal["threshold"]
    threshold_packets: int


class DropTailPart(_Part):
    kind: Literal["drop_tail"]
    limit_packets: int


class RedPart(_Part):
    kind: Literal["red"]
    min_th: float
    max_th: float
    max_p: float
    rate_bps: int
    packet_bytes: int
    ecn: bool = Red.ecn
    mark_above_max: bool = Red.mark_above_max
    gentle: bool = Red.gentle
    wait: bool = Red.wait
    limit_packets: int = Red.limit_packets
    idle_us: int = Red.idle_us
    mean_packet_bytes: int = Red.mean_packet_bytes


MarkingPart = Annotated[
    PriorityPart | ThresholdPart | DropTailPart | RedPart, Field(discriminator="kind")
]
_POLICIES: dict[str, type[PortPolicy]] = {
    "priority": PriorityMarking,
    "threshold": ThresholdMarking,
    "drop_tail": DropTail,
    "red": Red,
}


class LinkPart(_Part):
    switch: str
    port: Port
    to: str
    to_port: Port | None = None
    marking: MarkingPart | None = None
    to_marking: MarkingPart | None = None


class SessionPart(_Part):
    number: int = Field(ge=0, le=MAX_SESSION)
    layers: int = Field(ge=1, le=MAX_LAYERS)
    source: str
    scheme: str = "sim"
    aggregation: Aggregation = "sender"


class Config(_Part):
    program: ProgramPart
    lab: str | None = None
    querier: QuerierPart | None = None
    switches: list[SwitchPart]
    hosts: list[HostPart]
    links: list[LinkPart]
    sessions: list[SessionPart]

    @classmethod
    def load(cls, path: Path) -> Config:
        try:
            return cls.model_validate(bounded_yaml.read(path).plain())
        except ValidationError as error:
            lines = [
                f"{path}: {'.'.join(map(str, e['loc'])) or 'document'}: {e['msg']}, "
                f"not {e['input']!r:.80}"
                for e in error.errors()
            ]
            raise ConfigurationError("\n".join(lines)) from None

    def topology(self) -> Topology:
        topology = Topology()
        for s in self.switches:
            topology.add_switch(Switch(s.name, s.device_id, s.grpc, s.mac, s.ip))
        for h in self.hosts:
            topology.add_host(Host(h.name, h.address, h.mac))
        for link in self.links:
            topology.connect(
                link.switch,
                link.port,
                link.to,
                link.to_port,
                _marking(link.marking),
                _marking(link.to_marking),
            )
        return topology

    def controller(self, **sinks) -> Controller:
        """sinks: on_records and on_event of Controller."""
        return Controller(
            self.topology(),
            [Session(s.number, s.layers, s.source, s.scheme, s.aggregation) for s in self.sessions],
            Program.load(self.program.json_file, self.program.p4info),
            lab_address=self.lab,
            querier=Querier(**self.querier.model_dump()) if self.querier else None,
            **sinks,
        )


def _marking(part: MarkingPart | None) -> PortPolicy | None:
    if part is None:
        return None
    return _POLICIES[part.kind](**part.model_dump(exclude={"kind"}))
