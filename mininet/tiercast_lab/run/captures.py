"""Captures of links during a run: which links and directions, and what became of each.

A direction is captured where its frames arrive: behind the queue, the delay and the losses of its
link, and for frames of a host, which the switch delays, before these. Each has a pcap file of its
own while the run goes on; at its end those of a link become captures/<link>.pcapng.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tiercast_lab.base import binaries
from tiercast_lab.base.errors import InputError, among, writing
from tiercast_lab.experiment.topology import Link, Topology
from tiercast_lab.results import pcap
from tiercast_lab.run.capture_options import CaptureOptions

FOLDER = "captures"


@dataclass
class Direction:
    """One direction of a captured link: from `sender` to `receiver`, such as s1 and h3."""

    name: str  # as in rows of ports: "1>3"
    sender: str
    receiver: str
    part: Path
    arrived: int | None = None  # frames that the kernel counted; None: not known
    cpu_s: float | None = None


@dataclass
class Capture:
    link: str
    directions: tuple[Direction, ...]


@dataclass
class Captures:
    """Of one run. `folder` is the run's."""

    folder: Path
    options: CaptureOptions = CaptureOptions()
    all: list[Capture] = field(default_factory=list)

    @classmethod
    def of(cls, topology: Topology, options: CaptureOptions, folder: Path) -> Captures:
        """Raises InputError for a link that the network does not have."""
        names = dict.fromkeys(_link_name(topology, name) for name in options.links)
        parts = folder / FOLDER
        captures = [
            Capture(
                name,
                tuple(
                    Direction(way, sender, receiver, parts / f"{way.replace('>', '-')}.pcap")
                    for way, sender, receiver in _directions(topology, name)
                ),
            )
            for name in names
        ]
        return cls(folder, options, captures)

    @property
    def directions(self) -> list[Direction]:
        return [direction for one in self.all for direction in one.directions]

    def make_folder(self) -> None:
        if self.all:
            with writing(self.folder):
                (self.folder / FOLDER).mkdir(exist_ok=True)

    def finish(self, comment: str) -> list[dict[str, Any]]:
        """Joins the files of each link into one. Returns what summary.json says about captures.
        May raise OSError; the parts then stay."""
        return [self._finish(one, comment) for one in self.all if one.directions[0].part.exists()]

    def _finish(self, one: Capture, comment: str) -> dict[str, Any]:
        parts = {way.name: way.part for way in one.directions if way.part.exists()}
        file = Path(FOLDER) / f"{one.link}.pcapng"
        full = {
            name for name, part in parts.items() if part.stat().st_size >= self.options.max_bytes
        }
        counts = pcap.join(parts, self.options.snap_bytes, comment, self.folder / file)
        for part in parts.values():
            part.unlink()
        missed = {
            way.name: None if way.arrived is None else max(0, way.arrived - counts[way.name])
            for way in one.directions
            if way.name in counts
        }
        spent = [way.cpu_s for way in one.directions if way.cpu_s is not None]
        return {
            "link": one.link,
            "file": str(file),
            "cpu_s": sum(spent) if spent else None,
            "directions": {
                name: {"frames": count, "missed": missed[name], "full": name in full}
                for name, count in counts.items()
            },
        }


def _link_name(topology: Topology, name: str) -> str:
    swapped = "-".join(reversed(name.split("-")))
    for known in (name, swapped):
        if known in topology.links:
            return known
    raise InputError(f"--capture: no link {among(name, topology.links)}")


def _directions(topology: Topology, link: str) -> list[tuple[str, str, str]]:
    """The directions of a link with their ends: ("1>3", "s1", "h3")."""
    return [
        (f"{_end(one, sender)}>{_end(one, receiver)}", sender, receiver)
        for one, sender, receiver in topology.sides(link)
    ]


def _end(link: Link, node: str) -> str:
    """An end as directions name it: a node's number, or the host that a link attaches."""
    return node if link.attaches and not node.startswith("s") else node[1:]


def sentences(summary: dict[str, Any], folder: Path) -> list[str]:
    """What a run captured, for the terminal: a line for each link."""
    lines = []
    for one in summary.get("captures", ()):
        text = f"capture of {one['link']}: {binaries.from_here(folder / one['file'])}: {ways(one)}"
        if one["cpu_s"] is not None:
            share = 100 * one["cpu_s"] / summary["duration_s"]
            text += f"; it took {one['cpu_s']:.2f} s of CPU, {share:.1f} % of a core"
        lines.append(text)
    return lines


def ways(capture: dict[str, Any]) -> str:
    """What was captured of each direction of a link."""
    return ", ".join(_words(name, way) for name, way in capture["directions"].items())


def _words(name: str, way: dict[str, Any]) -> str:
    text = f"{name} {way['frames']} frames"
    if way["full"]:
        return f"{text} until the file was full (--capture-bytes)"
    return f"{text}, {way['missed']} missed" if way["missed"] else text
