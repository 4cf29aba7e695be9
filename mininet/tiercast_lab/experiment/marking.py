"""What an experiment says about congestion at its links, and the policy of a port that follows."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import tiercast_controller as control
from pydantic import Field, model_validator

from tiercast_lab.experiment.model import Choice, Strict, require_known

_KEYS = {
    "priority": ("threshold",),
    "threshold": ("threshold",),
    "red": ("min_th", "max_th", "max_p", "ecn", "mark_above_max", "gentle", "wait", "limit"),
    "drop_tail": ("limit",),
    "none": (),
}
# Of a policy's parameters that have another name than their key.
KEY_OF = {"threshold_packets": "threshold", "limit_packets": "limit"}


class Marking(Strict):
    """`kind` and the keys of that kind (_KEYS); packets throughout.

    priority: SIM 3.4, packets of a session's top group are marked while the average queue is
    longer than `threshold`. threshold: packets that find more than `threshold` waiting are marked.
    red: docs/p4.md, with ns-2's names and its defaults of the time. drop_tail: packets that find
    `limit` waiting are dropped. none: the queue of the link alone.
    """

    kind: Choice[Literal["priority", "threshold", "red", "drop_tail", "none"]] = "priority"
    threshold: Choice[Literal["auto"]] | Annotated[float, Field(ge=0, le=10_000)] = "auto"
    # Ranges of RED's and drop tail's are those of the switch (control.PortPolicy.entry).
    min_th: float = 5
    max_th: float = 15
    max_p: float = 0.1
    ecn: bool = False
    mark_above_max: bool = False
    gentle: bool = False
    wait: bool = True
    limit: int = 0

    @model_validator(mode="before")
    @classmethod
    def _keys_of_kind(cls, data: Any) -> Any:
        kind = data.get("kind", "priority") if isinstance(data, dict) else None
        if isinstance(kind, str) and kind in _KEYS:
            require_known(data, ("kind", *_KEYS[kind]))
        return data

    @model_validator(mode="after")
    def _complete(self) -> Marking:
        if self.kind == "priority" and self.threshold == 0:
            raise ValueError("'threshold' is 0; valid: auto, or above 0")
        if self.kind == "threshold" and self.threshold == "auto":
            raise ValueError("kind 'threshold' needs 'threshold' in packets")
        if self.kind == "threshold" and self.threshold != int(self.threshold):
            raise ValueError(f"'threshold' is {self.threshold:g}; valid: whole packets")
        if self.kind == "drop_tail" and "limit" not in self.model_fields_set:
            raise ValueError("kind 'drop_tail' needs 'limit' in packets")
        return self

    def threshold_packets(self, rate: int, packet_size: int) -> float:
        """Packets; `auto`: 5, or 20 ms of the link's rate where that is less, but at least 2."""
        if self.threshold != "auto":
            return self.threshold
        if not rate:
            return 5.0
        return max(2.0, min(5.0, 0.020 * rate / (8 * packet_size)))

    def policy(self, rate: int, packet_size: int, idle_us: int) -> control.PortPolicy | None:
        """Of a port with a rate in bit/s and packets of so many bytes; idle_us: SwitchKind's. A
        port without a rate (0) has no queue, and needs none."""
        if not rate or self.kind == "none":
            return None
        if self.kind == "priority":
            return control.PriorityMarking(self.threshold_packets(rate, packet_size), idle_us)
        if self.kind == "threshold":
            return control.ThresholdMarking(int(self.threshold_packets(rate, packet_size)))
        if self.kind == "drop_tail":
            return control.DropTail(self.limit)
        return control.Red(
            min_th=self.min_th,
            max_th=self.max_th,
            max_p=self.max_p,
            rate_bps=rate,
            packet_bytes=packet_size,
            ecn=self.ecn,
            mark_above_max=self.mark_above_max,
            gentle=self.gentle,
            wait=self.wait,
            limit_packets=self.limit,
            idle_us=idle_us,
        )
