"""Switches that the lab did not start: hardware, or software elsewhere, reached over P4Runtime.

A file says which switches of an experiment's network they are, and how they are cabled:

    switches:
      s0:
        address: p4runtime://192.0.2.7:9559   # or unix:/run/s0.sock; by default that of --switch
        device_id: 1                          # P4Runtime's
        role: lab                             # P4Runtime's; by default the one with all access
        tls: {ca: ca.pem, certificate: lab.pem, key: lab.key, server_name: s0.example}
        # or tls: FOLDER, of `tiercast keys`
        idle_us: 0                            # a wait up to this time counts as none
        ports:                                # by neighbour in the experiment
          h0: {port: 132, interface: enp3s0}  # the device's port, and what is cabled to it here
          s1: {port: 140, interface: enp4s0}
          s2: {port: 148}                     # cabled to another device

The lab moves an interface into the namespace of its neighbour, and gives it back at the end. A
session's sender may have a DPDK port instead: `dpdk` has the arguments of the EAL.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field
from tiercast_controller.base.errors import ConfigurationError
from tiercast_controller.base.strict import Strict
from tiercast_controller.base.tls import KeyRole, Tls
from tiercast_controller.network.topology import MAX_PORT

from tiercast_lab.base.errors import InputError, among, listed
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.experiment.model import validate
from tiercast_lab.experiment.topology import Switch
from tiercast_lab.experiment.yaml_source import Source, load_yaml

SCHEME = "p4runtime://"
ADDRESS = "p4runtime://HOST:PORT, or unix:/PATH"
_HOST_AND_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s/:\[\]]+):[0-9]{1,5}")


class _Port(Strict):
    port: Annotated[int, Field(ge=1, le=MAX_PORT)]
    interface: Annotated[str, Field(min_length=1, max_length=15)] | None = None
    dpdk: Annotated[str, Field(min_length=1, max_length=1000)] | None = None


class _Tls(Strict):
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    server_name: str = ""


class _Device(Strict):
    address: str | None = None
    device_id: Annotated[int, Field(ge=1, lt=1 << 64)] = 1
    role: str = ""
    tls: _Tls | str | None = None  # a folder of `tiercast keys`
    idle_us: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    ports: dict[str, _Port]


class _File(Strict):
    switches: Annotated[dict[str, _Device], Field(min_length=1)]


@dataclass(frozen=True)
class Device:
    address: str  # as gRPC has it
    device_id: int
    role: str
    tls: Tls | None
    idle_us: int
    ports: Mapping[int, int]  # the experiment's number of each port, and the device's
    # What is cabled to a port here, by the neighbour's name; of neighbours that are no devices.
    interfaces: Mapping[str, str]
    dpdk: Mapping[str, list[str]]  # the same: arguments of the EAL

    def port_here(self, port: int) -> int | None:
        """The experiment's number of a port of the device; None if it is not part of it."""
        return next((here for here, there in self.ports.items() if there == port), None)


@dataclass(frozen=True)
class DevicesFile:
    """A file as written, not yet compared with a network."""

    source: Source
    content: _File
    folder: Path
    address: str | None  # of switches that name none

    def devices(self, loaded: LoadedExperiment) -> dict[str, Device]:
        """By name. Raises InputError if file and experiment do not fit together."""
        topology = loaded.topology
        found: dict[str, Device] = {}
        for name, one in self.content.switches.items():
            path = ("switches", name)
            if name not in topology.switches:
                raise self.source.error(path, f"no switch {among(name, topology.switches)}")
            switch = topology.switches[name]
            found[name] = Device(
                self._address(path, one),
                one.device_id,
                one.role,
                self._tls(path, one),
                one.idle_us,
                self._ports(path, switch, one),
                self._interfaces(path, one),
                self._dpdk(path, one, loaded),
            )
        self._require_different(found)
        return found

    def _address(self, path: tuple[str, ...], one: _Device) -> str:
        if one.address is None:
            if self.address is None:
                raise self.source.error(
                    path, f"no address; valid: address: {ADDRESS}, or --switch {SCHEME}HOST:PORT"
                )
            return self.address
        try:
            return grpc_address(one.address)
        except ValueError as error:
            raise self.source.error((*path, "address"), str(error)) from None

    def _tls(self, path: tuple[str, ...], one: _Device) -> Tls | None:
        if one.tls is None:
            return None
        try:
            if isinstance(one.tls, str):
                folder = self.folder / one.tls
                return Tls.of_folder(folder, KeyRole.CONTROLLER, KeyRole.AGENT)
            files = {
                key: None if name is None else self.folder / name
                for key, name in one.tls.model_dump(exclude={"server_name"}).items()
            }
            tls = Tls(**files, server_name=one.tls.server_name)
            tls.credentials()
        except ConfigurationError as error:
            raise self.source.error((*path, "tls"), str(error).removeprefix("tls: ")) from None
        return tls

    def _ports(self, path: tuple[str, ...], switch: Switch, one: _Device) -> dict[int, int]:
        neighbours = [neighbour for neighbour, _ in switch.ports]
        for name in one.ports:
            if name not in neighbours:
                raise self.source.error(
                    (*path, "ports", name), f"no neighbour {among(name, neighbours)}"
                )
        if missing := [name for name in neighbours if name not in one.ports]:
            raise self.source.error(
                (*path, "ports"), f"no port to {', '.join(missing)}; valid: one to each neighbour"
            )
        ports: dict[int, int] = {}
        for number, name in enumerate(neighbours, 1):
            port = one.ports[name].port
            if port in ports.values():
                raise self.source.error((*path, "ports", name, "port"), f"{port} is another's, too")
            ports[number] = port
        return ports

    def _interfaces(self, path: tuple[str, ...], one: _Device) -> dict[str, str]:
        found: dict[str, str] = {}
        for neighbour, port in one.ports.items():
            at = (*path, "ports", neighbour)
            here = {"interface": port.interface, "dpdk": port.dpdk}
            given = [key for key, value in here.items() if value is not None]
            if neighbour in self.content.switches:
                for key in given:
                    raise self.source.error(
                        (*at, key),
                        f"{here[key]!r}, but {neighbour} is a device, too; valid: none, as "
                        "the two are cabled to each other",
                    )
            elif len(given) != 1:
                raise self.source.error(
                    at,
                    f"{' and '.join(given) or 'no interface'}; valid: the one here that is cabled "
                    f"to port {port.port}",
                )
            elif port.interface is not None:
                found[neighbour] = port.interface
        return found

    def _dpdk(
        self, path: tuple[str, ...], one: _Device, loaded: LoadedExperiment
    ) -> dict[str, list[str]]:
        sent = [f"h{session.sender}" for session in loaded.experiment.sessions]
        received = {f"h{node}" for nodes in loaded.receivers for node in nodes}
        valid = [name for name in sent if sent.count(name) == 1 and name not in received]
        found: dict[str, list[str]] = {}
        for neighbour, port in one.ports.items():
            if port.dpdk is None:
                continue
            at = (*path, "ports", neighbour, "dpdk")
            if neighbour not in valid:
                raise self.source.error(
                    at,
                    f"{neighbour} does not only send one session; valid: {listed(valid) or 'none'}",
                )
            try:
                found[neighbour] = shlex.split(port.dpdk)
            except ValueError as error:
                raise self.source.error(at, f"{port.dpdk!r}: {error}") from None
        return found

    def _require_different(self, devices: Mapping[str, Device]) -> None:
        reached: dict[tuple[str, int], str] = {}
        cabled: dict[str, str] = {}
        for name, device in devices.items():
            other = reached.setdefault((device.address, device.device_id), name)
            if other != name:
                raise self.source.error(
                    ("switches", name, "device_id"),
                    f"{device.device_id} at {device.address} is {other}, too",
                )
            for neighbour, interface in device.interfaces.items():
                place = cabled.setdefault(interface, f"{name}, {neighbour}")
                if place != f"{name}, {neighbour}":
                    raise self.source.error(
                        ("switches", name, "ports", neighbour, "interface"),
                        f"{interface!r} is that of {place}, too",
                    )


def load_devices(file: Path, address: str | None) -> DevicesFile:
    """Reads a file; `address` is that of switches that name none, as gRPC has it. Raises
    InputError."""
    source = load_yaml(file)
    return DevicesFile(source, validate(_File, source), file.resolve().parent, address)


def grpc_address(text: str) -> str:
    """The address of a P4Runtime server as gRPC has it. Raises ValueError."""
    if text.startswith("unix:/"):
        return text
    address = text.removeprefix(SCHEME)
    host_and_port = _HOST_AND_PORT.fullmatch(address) if text.startswith(SCHEME) else None
    if host_and_port is None or not 1 <= int(address.rpartition(":")[2]) <= 65535:
        raise ValueError(f"{text!r}; valid: {ADDRESS}")
    return address


def require_interfaces(devices: Mapping[str, Device]) -> None:
    """Raises InputError if an interface is missing here, or has an address and so another use."""
    there = dict(_interfaces_here())
    for name, device in devices.items():
        for neighbour, interface in device.interfaces.items():
            place = f"--ports: {name}, port to {neighbour}: interface {interface!r}"
            if interface not in there:
                raise InputError(f"{place} is not here; valid: {listed(there)}")
            if there[interface]:
                raise InputError(
                    f"{place} has the address {there[interface][0]}, so it has another use; valid: "
                    "one without addresses"
                )


def _interfaces_here() -> Iterator[tuple[str, list[str]]]:
    """The interfaces of this namespace, each with its addresses, link-local ones left out."""
    said = subprocess.run(
        ["ip", "-json", "address", "show"], capture_output=True, check=True, timeout=10
    )
    for one in json.loads(said.stdout):
        addresses = [a["local"] for a in one.get("addr_info", ()) if a["scope"] != "link"]
        if one["ifname"] != "lo":
            yield one["ifname"], addresses
