"""What a switch holds, or should hold, whoever its members are: as data, and the writes that lead
from one to the other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from tiercast_controller.base.errors import UnsupportedError
from tiercast_controller.p4runtime.client import P4RuntimeClient, WriteError
from tiercast_controller.p4runtime.entities import (
    CloneSession,
    MeterCell,
    Op,
    RegisterCell,
    TableEntry,
    Update,
    entry_changes,
)

Cell = tuple[str, int]  # an array's name, and an index


@dataclass(frozen=True)
class StaticState:
    """By the program's names."""

    entries: tuple[TableEntry, ...] = ()
    # Ports by clone session, None where it has other replicas than one.
    clones: Mapping[int, int | None] | None = field(default_factory=dict)
    meters: Mapping[Cell, MeterCell] = field(default_factory=dict)
    cells: Mapping[Cell, RegisterCell] | None = field(default_factory=dict)  # of registers
    # Of clones and cells None: it is not known what a switch holds, since not every one says that.


def updates_to(
    held: StaticState, wanted: StaticState, led_to: Collection[str] = ()
) -> list[list[Update]]:
    """Batches that turn one state into another; each must be done before the next begins. What is
    right is left alone. `led_to` are the tables to whose entries others lead.

    No packet is lost on the way: what others name is there before they name it, a route is there
    before the one that it replaces goes, and goes itself before what it names.
    """
    assert wanted.clones is not None and wanted.cells is not None  # that is, known
    changes = entry_changes(held.entries, wanted.entries)
    removed = [update for update in changes if update.op is Op.DELETE]
    added = [update for update in changes if update.op is not Op.DELETE]

    def is_led_to(update: Update) -> bool:
        return isinstance(update.entity, TableEntry) and update.entity.table in led_to

    first: list[Update] = []
    last = [update for update in removed if is_led_to(update)]
    if held.clones is not None:
        first += [
            Update(Op.MODIFY if number in held.clones else Op.INSERT, CloneSession(number, port))
            for number, port in wanted.clones.items()
            if held.clones.get(number) != port
        ]
        last += [
            Update(Op.DELETE, CloneSession(number, port))
            for number, port in held.clones.items()
            if number not in wanted.clones
        ]
    first += [update for update in added if is_led_to(update)]
    held_cells = held.cells or {}
    first += [
        Update(Op.MODIFY, cell)
        for place, cell in wanted.cells.items()
        if held_cells.get(place) != cell
    ]
    # A change fills a meter's bucket again, so what is right must be left alone.
    first += [
        Update(Op.MODIFY, cell)
        for place, cell in wanted.meters.items()
        if not _limits_alike(held.meters.get(place), cell)
    ]
    second = [update for update in added if not is_led_to(update)]
    third = [update for update in removed if not is_led_to(update)]
    return [batch for batch in (first, second, third, last) if batch]


def _limits_alike(held: MeterCell | None, wanted: MeterCell) -> bool:
    if held is None or held.rate == 0 or wanted.rate == 0:
        return (held.rate if held is not None else 0) == wanted.rate
    return held == wanted


async def read_clones(
    client: P4RuntimeClient, ours: Collection[int]
) -> dict[int, int | None] | None:
    """The ports of those clone sessions that are `ours`; None if the switch does not say."""
    try:
        found = await client.read_clone_sessions()
    except UnsupportedError:
        return None
    return {number: port for number, port in found.items() if number in ours}


async def read_cells(
    client: P4RuntimeClient, places: Iterable[Cell]
) -> dict[Cell, RegisterCell] | None:
    """Cells of registers; None if the switch does not say."""
    indices: dict[str, list[int]] = {}
    for register, index in places:
        indices.setdefault(register, []).append(index)
    found = {}
    try:
        for register, its in indices.items():
            for index, value in (await client.read_register_cells(register, its)).items():
                found[register, index] = RegisterCell(register, index, value)
    except UnsupportedError:
        return None
    return found


async def write_unread_clones(client: P4RuntimeClient, wanted: Mapping[int, int | None]) -> None:
    """Sets clone sessions of a switch that does not say which it has. Raises WriteError."""
    sessions = [CloneSession(number, port) for number, port in wanted.items()]
    try:
        await client.write([Update(Op.INSERT, session) for session in sessions])
    except WriteError as error:
        if any(failed.code != "ALREADY_EXISTS" for failed in error.failed):
            raise
        await client.write([Update(Op.MODIFY, failed.update.entity) for failed in error.failed])
