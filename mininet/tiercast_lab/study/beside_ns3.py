"""The same trials through ns-3's queue disc of a law, where it has one, beside the P4 program's."""

from __future__ import annotations

from dataclasses import dataclass

from tiercast.v1.marking_pb2 import QueueDisc
from tiercast_controller.network.marking import Codel, Marking, Pie, Red

from tiercast_lab.base import binaries
from tiercast_lab.study.marking import Class, Link, Packets, Phase, run_trial, trial_of


@dataclass(frozen=True)
class Ns3Disc:
    """One of ns-3's queue discs on one link, as Judge."""

    disc: QueueDisc
    link: Link
    classes: list[Class]

    def carry(self, phases: list[Phase], seed: int = 1) -> Packets:
        """Raises RunFailed."""
        trial = trial_of(self.link, phases, self.classes, seed)
        trial.queue_disc.CopyFrom(self.disc)
        return run_trial([binaries.NS3, "--queue-disc"], trial)


def is_built() -> bool:
    return binaries.NS3.exists()


def discs_of(marking: Marking, link: Link) -> dict[str, QueueDisc]:
    """ns-3's laws of the same equation with the same parameters, by ns-3's names. A fair-queueing
    variant has the law in a queue for each flow; all packets of a trial are of one."""
    disc = disc_of(marking, link)
    if disc is None:
        return {}
    found = {disc.type.removeprefix("ns3::").removesuffix("QueueDisc"): disc}
    if isinstance(marking, Codel | Pie):
        name = f"Fq{next(iter(found))}"
        attributes = {key: value for key, value in disc.attributes.items() if key != "MeanPktSize"}
        found[name] = QueueDisc(type=f"ns3::{name}QueueDisc", attributes=attributes)
    return found


def disc_of(marking: Marking, link: Link) -> QueueDisc | None:
    """ns-3's law of the same name with the same parameters; None: it has none."""
    most = f"{link.queue}p"
    if isinstance(marking, Codel):
        attributes = {
            "Target": f"{marking.target}ns",
            "Interval": f"{marking.interval}ns",
            "UseEcn": _flag(marking.ecn),
        }
        return _disc("CoDel", most, attributes)
    if isinstance(marking, Pie):
        attributes = {
            "QueueDelayReference": f"{marking.target}ns",
            "Tupdate": "15ms",
            "A": str(marking.alpha),
            "B": str(marking.beta),
            "MaxBurstAllowance": f"{marking.burst}ns",
            "UseEcn": _flag(marking.ecn),
            "MarkEcnThreshold": str(marking.mark_below),
            "UseDerandomization": _flag(marking.spread),
            "MeanPktSize": str(link.packet_bytes),
        }
        return _disc("Pie", most, attributes)
    if isinstance(marking, Red):
        weight = 1 / 512 if marking.where == "departure" else marking.weight or 0.002
        attributes = {
            "MinTh": str(marking.min_th),
            "MaxTh": str(marking.max_th),
            "LInterm": repr(1 / marking.max_p),
            "QW": repr(weight),
            "Gentle": _flag(marking.gentle),
            "Wait": _flag(marking.wait),
            "UseEcn": _flag(marking.ecn),
            "UseHardDrop": _flag(not marking.mark_above_max),
            "Ns1Compat": "false",
            "MeanPktSize": str(marking.mean_packet_bytes),
            "LinkBandwidth": f"{link.rate}bps",
        }
        return _disc("Red", most, attributes)
    return None


def _disc(name: str, most: str, attributes: dict[str, str]) -> QueueDisc:
    return QueueDisc(type=f"ns3::{name}QueueDisc", attributes={"MaxSize": most, **attributes})


def _flag(value: bool) -> str:
    return "true" if value else "false"
