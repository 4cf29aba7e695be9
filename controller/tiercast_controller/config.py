"""Reads the YAML of a controller that runs on its own. `tiercast controller --help` shows an
example.

Errors name the file, the place in it, the value and what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path
from typing import Annotated

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from tiercast_controller.agents.records import RecordSink
from tiercast_controller.base import bounded_yaml
from tiercast_controller.base.errors import ConfigurationError
from tiercast_controller.base.limits import MAX_LAYERS, MAX_SESSION
from tiercast_controller.base.strict import Strict, require_known
from tiercast_controller.base.tls import Access, KeyRole, Tls, is_local
from tiercast_controller.controller import Controller, Event
from tiercast_controller.multicast.querier import Querier
from tiercast_controller.network.marking import AnyMarking, Marking, PortPolicy
from tiercast_controller.network.topology import (
    MAX_PORT,
    Aggregation,
    AnySourceGroup,
    Checks,
    EqualCosts,
    Host,
    Session,
    Switch,
    Topology,
)
from tiercast_controller.p4runtime.program import Program

EXAMPLE = """\
program: {json: p4src/compiled/tiercast.json, p4info: p4src/compiled/tiercast.p4info.txtpb}
lab: unix:/run/tiercast/lab.sock        # agents attach here; may be left out
records: records.jsonl                  # telemetry, which a later controller continues; if left
                                        # out, it goes to standard output
querier: {interval_s: 125, max_response_s: 10, version: 3}   # may be left out: no queries
# leave_latency_s: 1                    # without a querier: from a leave until the tree is pruned
mend_s: 60                              # how often switches are read back; 0: never
switches:
  - {name: s0, device_id: 1, grpc: "unix:/run/tiercast/s0.sock", mac: "02:00:00:01:00:00",
     ip: 10.1.0.1}                      # for aggregation: network
     # and, where a switch needs them: role: lab, tls: {ca: ca.pem, certificate: c.pem, key: k.pem}
     # or tls: FOLDER, of `tiercast keys`
hosts:
  - {name: h0, address: 10.0.0.2/24, mac: "02:00:00:00:00:00"}
  - {name: h1, address: 10.0.1.2/24, mac: "02:00:00:00:00:01"}
links:
  - {switch: s0, port: 1, to: h0}       # between switches: and to_port
  - {switch: s0, port: 2, to: h1, rate_bps: 2000000, idle_us: 50, marking: {kind: priority}}
equal_costs: one                        # or session-hash, flow-hash; may be left out
checks: {source: true, place: true, igmp: true}   # of where packets come from; may be left out
keys: false                             # seals between agents; or true, or a file that controllers
                                        # share; if left out, true where lab is host:port
sessions:
  - {number: 1, layers: 5, source: h0, scheme: sim, aggregation: network}   # or sender
groups:                                 # of other programs; may be left out
  - {address: 230.4.4.1, senders: [h0, h1]}
"""


_MAC = re.compile("[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}")


def _mac(value: object) -> object:
    """Converts "02:00:00:00:00:01" to its 48 bits."""
    if isinstance(value, str):
        if _MAC.fullmatch(value):
            return int(value.replace(":", ""), 16)
        raise ValueError("a MAC address is six pairs of hex digits, such as 02:00:00:00:00:01")
    return value


Mac = Annotated[int, BeforeValidator(_mac), Field(ge=0, lt=1 << 48)]
Port = Annotated[int, Field(ge=1, le=MAX_PORT)]


class _Part(Strict):
    model_config = ConfigDict(strict=False)  # addresses and paths are text in a file


class ProgramPart(_Part):
    json_file: Path = Field(alias="json")
    p4info: Path
    manifest: Path | None = None  # None: our own program's


def _keys_of_querier(value: object) -> object:
    if isinstance(value, dict):
        require_known(value, [field.name for field in fields(Querier)])
    return value


class TlsPart(_Part):
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    server_name: str = ""


class SwitchPart(_Part):
    name: str
    device_id: int = Field(ge=1, lt=1 << 64)
    grpc: str
    mac: Mac = 0
    ip: IPv4Address | None = None
    role: str = ""
    tls: TlsPart | Path | None = None  # a folder of `tiercast keys`


class HostPart(_Part):
    name: str
    address: IPv4Interface
    mac: Mac


class LinkPart(_Part):
    switch: str
    port: Port
    to: str
    to_port: Port | None = None
    # The properties that a marking depends on, for both directions (marking.PortTraffic).
    rate_bps: int = Field(default=0, ge=0)
    packet_bytes: int = Field(default=1000, ge=1)
    idle_us: int = Field(default=0, ge=0)
    marking: AnyMarking | None = None
    to_marking: AnyMarking | None = None
    delay_ns: int = Field(default=0, ge=0)  # one way; paths are shortest by delay

    @model_validator(mode="after")
    def _has_a_rate(self) -> LinkPart:
        if (self.marking or self.to_marking) and not self.rate_bps:
            raise ValueError("'marking' needs 'rate_bps', above 0")
        return self

    def policy(self, marking: Marking | None) -> PortPolicy | None:
        if marking is None:
            return None
        return marking.at(self.rate_bps, self.packet_bytes, self.idle_us)


class SessionPart(_Part):
    number: int = Field(ge=0, le=MAX_SESSION)
    layers: int = Field(ge=1, le=MAX_LAYERS)
    source: str
    scheme: str = "sim"
    aggregation: Aggregation = "sender"


class GroupPart(_Part):
    address: IPv4Address
    senders: list[str]

    @field_validator("address")
    @classmethod
    def _may_be_used(cls, address: IPv4Address) -> IPv4Address:
        try:
            AnySourceGroup.check_address(address)
        except ConfigurationError as error:
            raise ValueError(str(error)) from None
        return address


def _tls(switch: SwitchPart, keys: Path | None) -> Tls | None:
    if isinstance(switch.tls, TlsPart):
        return Tls(**switch.tls.model_dump())
    folder = switch.tls or (None if is_local(switch.grpc) else keys)
    return None if folder is None else Tls.of_folder(folder, KeyRole.CONTROLLER, KeyRole.AGENT)


class Config(_Part):
    program: ProgramPart
    lab: str | None = None
    records: Path | None = None
    querier: Annotated[Querier, BeforeValidator(_keys_of_querier)] | None = None
    switches: list[SwitchPart]
    hosts: list[HostPart]
    links: list[LinkPart]
    sessions: list[SessionPart]
    groups: list[GroupPart] = []
    equal_costs: EqualCosts = "one"
    checks: Checks = Checks()
    keys: bool | Path | None = None
    mend_s: float = Field(default=60, ge=0)
    leave_latency_s: float = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _has_agents(self) -> Config:
        if self.records is not None and self.lab is None:
            raise ValueError("'records' needs 'lab', where agents attach that have some")
        return self

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

    def topology(self, keys: Path | None = None) -> Topology:
        """`keys` is a folder of `tiercast keys`, for switches on TCP that name none."""
        topology = Topology(self.equal_costs, self.checks)
        for s in self.switches:
            tls = _tls(s, keys)
            topology.add_switch(Switch(s.name, s.device_id, s.grpc, s.mac, s.ip, s.role, tls))
        for h in self.hosts:
            topology.add_host(Host(h.name, h.address, h.mac))
        for link in self.links:
            topology.connect(
                link.switch,
                link.port,
                link.to,
                link.to_port,
                link.policy(link.marking),
                link.policy(link.to_marking),
                link.delay_ns,
            )
        return topology

    def controller(
        self,
        on_records: RecordSink | None = None,
        on_event: Callable[[Event], None] | None = None,
        access: Access = Access(),  # noqa: B008 (frozen)
    ) -> Controller:
        """`on_records` is for a file that names no `records`."""
        return Controller(
            self.topology(access.tls),
            [Session(s.number, s.layers, s.source, s.scheme, s.aggregation) for s in self.sessions],
            Program.load(self.program.json_file, self.program.p4info, self.program.manifest),
            groups=[AnySourceGroup(g.address, tuple(g.senders)) for g in self.groups],
            lab_address=self.lab,
            access=access,
            querier=self.querier,
            on_records=on_records if self.records is None else None,
            records=self.records,
            on_event=on_event,
            keys=self.keys,
            mend_s=self.mend_s or None,
            leave_latency_s=self.leave_latency_s,
        )
