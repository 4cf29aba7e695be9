"""What a link's wire does to packets besides delaying them: it is down, it loses, delays, reorders
or duplicates them (docs/switch.md, "Links that fail and lose")."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from tiercast_controller.base import units
from tiercast_controller.base.bounded_yaml import shown
from tiercast_controller.base.strict import Strict, require_known

from tiercast_lab.experiment.quantities import Delay


@dataclass(frozen=True)
class Loss:
    """Gilbert's and Elliott's model: a packet is lost with the probability of the state that it
    finds, good or bad; then the state may change. All are probabilities."""

    to_bad: float = 0.0  # p
    to_good: float = 0.0  # r
    in_bad: float = 0.0  # netem's 1-h
    in_good: float = 0.0  # netem's 1-k

    @property
    def mean(self) -> float:
        """The share of all packets that is lost in the long run."""
        changes = self.to_bad + self.to_good
        bad = self.to_bad / changes if changes else 0.0
        return bad * self.in_bad + (1 - bad) * self.in_good


def _share(value: object) -> float:
    share = units.parse_fraction(value)
    if share > 1:
        raise ValueError(f"{shown(value)} is above the whole; valid: 0% to 100%")
    return share


def _loss(value: Any) -> Loss:
    if not isinstance(value, dict):
        return Loss(in_good=_share(value))
    if "p" in value or "r" in value:
        require_known(value, ("p", "r", "in_bad", "in_good"))
        if not {"p", "r"} <= value.keys():
            raise ValueError("'p' and 'r' go together: from good to bad, and back")
        return Loss(
            _share(value["p"]),
            _share(value["r"]),
            _share(value.get("in_bad", 1)),
            _share(value.get("in_good", 0)),
        )
    require_known(value, ("mean", "burst", "p", "r", "in_bad", "in_good"))
    if value.keys() != {"mean", "burst"}:
        raise ValueError("a loss has 'mean' and 'burst', or 'p' and 'r', or is a share such as 1%")
    mean, burst = _share(value["mean"]), units.parse_packets(value["burst"])
    if burst < 1:
        raise ValueError(f"burst is {shown(value['burst'])}; valid: 1p or more")
    most = burst / (1 + burst)
    if mean > most:
        raise ValueError(
            f"mean is {shown(value['mean'])}; valid: up to {100 * most:g}% with bursts of {burst}p"
        )
    return Loss(to_bad=mean / (burst * (1 - mean)), to_good=1 / burst, in_bad=1.0)


Share = Annotated[float, BeforeValidator(_share)]
LossKey = Annotated[Loss, BeforeValidator(_loss)]


class Reorder(Strict):
    """This share of the packets is held for longer than the others, by `delay`, and is overtaken by
    them."""

    share: Share
    delay: Annotated[Delay, Field(ge=1)]


@dataclass(frozen=True)
class Wire:
    """Of one direction of a link, or a change of it. None: as it was, and at first up and doing
    nothing."""

    up: bool | None = None
    loss: Loss | None = None
    jitter: int | None = None  # ns: the delay is longer by up to this; packets stay in order
    reorder: Reorder | None = None
    duplicate: float | None = None  # share of the packets that arrive twice

    @property
    def changes(self) -> bool:
        return self != Wire()


WIRE_KEYS = tuple(one.name for one in fields(Wire))


class WireKeys(Strict):
    """The keys of a wire, of a link in a file."""

    up: bool | None = None
    loss: LossKey | None = None
    jitter: Delay | None = None
    reorder: Reorder | None = None
    duplicate: Share | None = None
