"""A row of the table that `make attack` prints."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    attack: str
    where: str  # "namespaces" or "virtual network"
    expected: str
    seen: str
    met: bool | None  # None: it was not tried, and `seen` says why

    @property
    def verdict(self) -> str:
        return "not tried" if self.met is None else "met" if self.met else "MISSED"
