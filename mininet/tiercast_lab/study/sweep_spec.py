"""Reads a sweep's file: axes of named settings over experiments, seeds and measures, and the
combinations to leave out (docs/sweeps.md).

A cell is one setting of each axis. A run is a cell with a seed.
"""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, model_validator
from tiercast_controller.base.bounded_yaml import shown
from tiercast_controller.base.strict import Strict, require_known

from tiercast_lab.base import binaries
from tiercast_lab.base.errors import InputError, among
from tiercast_lab.experiment.figure_schema import MAX_RUNS, Seeds, Settings, setting_text
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.experiment.loading import load_extending
from tiercast_lab.experiment.model import Line, validate
from tiercast_lab.experiment.schemes import SchemeInfo
from tiercast_lab.experiment.yaml_source import KeyPath, Source
from tiercast_lab.measures import find_spec
from tiercast_lab.study.runs import Task
from tiercast_lab.study.target import VIRTUAL, Target

NAME = r"^[a-z0-9][a-z0-9-]*$"


class Setting(Strict):
    """A point on an axis: what it sets, and the experiment in which it is set if it names one."""

    name: Line
    x: float | None = None  # if the axis is numeric
    experiment: Line | None = None
    set: Settings = {}


MAX_SETTINGS = 1000  # of an axis


def _numbered(text: object) -> list[int] | None:
    """Expands `1..200`; None for any other text."""
    found = re.fullmatch(r"([0-9]{1,9})\.\.([0-9]{1,9})", text) if isinstance(text, str) else None
    if found is None:
        return None
    first, last = int(found[1]), int(found[2])
    if not first <= last < first + MAX_SETTINGS:
        raise ValueError(f"{shown(text)} is not 1 to {MAX_SETTINGS} numbers; valid: such as 1..200")
    return list(range(first, last + 1))


def _settings_of(axis: Any) -> Any:
    """Expands `{key: topology.link.queue, values: [10p, 20p]}` into one setting per value."""
    if not isinstance(axis, dict):
        return axis
    require_known(axis, ("key", "values"))
    key, values = axis.get("key"), axis.get("values")
    values = _numbered(values) or values
    if not isinstance(key, str) or not isinstance(values, list) or not values:
        raise ValueError("valid: a list of settings, or {key: …, values: […]}, or values: 1..200")
    xs = _numbers(values)
    return [
        {"name": str(value), "set": {key: value}} | ({} if xs is None else {"x": x})
        for value, x in zip(values, xs or values, strict=True)
    ]


def _numbers(values: list[Any]) -> list[float] | None:
    """The numbers in values that differ in nothing else: 10p, 20p."""
    pattern = re.compile(r"(-?[0-9.]+(?:e-?[0-9]+)?)\s*(\D*)")
    found = [one for value in values if (one := pattern.fullmatch(str(value)))]
    if len(found) < len(values) or len({one[2] for one in found}) > 1:
        return None
    try:
        return [float(one[1]) for one in found]
    except ValueError:
        return None


Axis = Annotated[
    list[Setting], Field(min_length=1, max_length=MAX_SETTINGS), BeforeValidator(_settings_of)
]


def _names_of(chosen: Any) -> Any:
    """Expands one name, or several written as `1..200`, into a list."""
    numbers = _numbered(chosen)
    return [chosen] if numbers is None and isinstance(chosen, str) else (
        chosen if numbers is None else list(map(str, numbers))
    )  # fmt: skip


class Exclusion(Strict):
    """Cells that are not run: those that have all of these settings, by axis."""

    where: Annotated[
        dict[Line, Annotated[list[Line], BeforeValidator(_names_of)]], Field(min_length=1)
    ]
    why: Annotated[Line, Field(min_length=1)]

    def holds(self, cell: Mapping[str, str]) -> bool:
        return all(cell[axis] in names for axis, names in self.where.items())


class Sweep(Strict):
    read_before: ClassVar[tuple[str, ...]] = ("extends",)  # keys of a file (load_extending)

    name: Annotated[str, Field(pattern=NAME, max_length=64)]
    title: Line
    experiment: Line | None = None  # for cells whose settings name none
    set: Settings = {}  # for every cell, before the axes' settings
    axes: Annotated[dict[Line, Axis], Field(min_length=1, max_length=20)]
    # The axis whose settings are a population: the report shows how each measure is distributed
    # over it.
    distribution_over: Line | None = None
    seeds: Seeds = [1, 2, 3]
    # Of a machine, for one run in real time; None: what runs of its experiment took, or all.
    cores: Annotated[float, Field(gt=0, le=1024)] | None = None
    measures: Annotated[list[Line], Field(min_length=1)]
    exclude: Annotated[list[Exclusion], Field(max_length=100)] = []

    @model_validator(mode="after")
    def _over_an_axis(self) -> Sweep:
        if self.distribution_over not in (None, *self.axes):
            over = among(self.distribution_over, self.axes)
            raise ValueError(f"'distribution_over' is not an axis: {over}")
        runs = math.prod(map(len, self.axes.values())) * len(self.seeds)
        if runs > MAX_RUNS:
            raise ValueError(f"{runs} runs; valid: up to {MAX_RUNS}")
        return self


@dataclass(frozen=True)
class Cell:
    """One combination of settings. `names` holds their names by axis; `excluded` says why the cell
    is not run, and is empty if it is."""

    names: Mapping[str, str]
    file: Path
    settings: tuple[str, ...]
    places: Mapping[str, str]  # the file and line of each setting, by key
    excluded: str

    def __str__(self) -> str:
        return ", ".join(self.names.values())


@dataclass(frozen=True)
class CellRun:
    sweep: str
    cell: Cell
    seed: int

    @property
    def settings(self) -> tuple[str, ...]:
        return self.cell.settings

    @property
    def places(self) -> Mapping[str, str]:
        return self.cell.places

    @property
    def name(self) -> str:
        return f"{self.sweep}: {self.cell}, seed {self.seed}"


@dataclass(frozen=True)
class CellTask(Task[CellRun]):
    def load(self, schemes: dict[str, SchemeInfo]) -> LoadedExperiment:
        try:
            return super().load(schemes)
        except InputError as error:
            raise InputError(f"{error} (in the cell {self.run.cell})") from None


@dataclass(frozen=True)
class SweepSpec:
    path: Path
    sweep: Sweep
    cells: tuple[Cell, ...]
    chosen: tuple[str, ...] = ()  # the choices of `only`; empty: all cells

    def tasks(self, quick: bool, target: Target = VIRTUAL) -> list[CellTask]:
        seeds, cores = self.sweep.seeds[:1] if quick else self.sweep.seeds, self.sweep.cores
        return [
            CellTask(cell.file, CellRun(self.sweep.name, cell, seed), target, cores)
            for cell in self.cells
            if not cell.excluded
            for seed in seeds
        ]

    def only(self, choices: Sequence[str]) -> SweepSpec:
        """The sweep with only those settings that `choices` name as `axis=name`; several choices
        for one axis keep all of them."""
        wanted: dict[str, set[str]] = {}
        for choice in choices:
            axis, _, name = choice.partition("=")
            if axis not in self.sweep.axes:
                valid = ", ".join(self.sweep.axes)
                raise InputError(f"--only {choice}: no axis {axis!r}; valid: {valid}")
            names = [one.name for one in self.sweep.axes[axis]]
            if name not in names:
                valid = ", ".join(names)
                raise InputError(f"--only {choice}: no {axis} {name!r}; valid: {valid}")
            wanted.setdefault(axis, set()).add(name)
        axes = {
            axis: [one for one in settings if one.name in wanted.get(axis, {one.name})]
            for axis, settings in self.sweep.axes.items()
        }
        cells = [
            cell
            for cell in self.cells
            if all(cell.names[axis] in names for axis, names in wanted.items())
        ]
        sweep = self.sweep.model_copy(update={"axes": axes})
        return SweepSpec(self.path, sweep, tuple(cells), tuple(choices))


def find_sweep(name: str, schemes: dict[str, SchemeInfo]) -> SweepSpec:
    """Reads a sweep by its path, or by its name in experiments/sweeps/. Raises InputError for the
    first error."""
    path = binaries.find("sweep", name)
    source = load_extending(path, "sweep", binaries.SWEEPS)
    if "topology" in source.data:
        raise source.error(("topology",), f"it is an experiment; valid: tiercast run {path}")
    _name_schemes(source, schemes)
    sweep = validate(Sweep, source)
    for index, measure in enumerate(sweep.measures):
        try:
            find_spec(measure)
        except ValueError as error:
            raise source.error(("measures", str(index)), str(error)) from None
    lists = {("seeds",): list(map(str, sweep.seeds))} | {
        ("axes", axis): [one.name for one in settings] for axis, settings in sweep.axes.items()
    }
    for where, names in lists.items():
        before: set[str] = set()
        for index, one in enumerate(names):
            if one in before:
                raise source.error(
                    (*where, str(index)), f"{shown(one)} is given twice; valid: once"
                )
            before.add(one)
    columns = {"runs"} | {f"{name}{end}" for name in sweep.measures for end in ("", "_95")}
    for axis in sweep.axes:
        if axis in columns:
            raise source.error(
                ("axes", axis), f"cells.csv already has a column {axis!r}; valid: another name"
            )
    _check_keys(source, sweep)
    for index, exclusion in enumerate(sweep.exclude):
        _check_exclusion(source, ("exclude", str(index), "where"), sweep, exclusion)

    @cache
    def experiment_at(named_at: KeyPath, experiment: str) -> Path:
        return _experiment(source, named_at, experiment, path)

    cells = tuple(
        _cell(source, sweep, experiment_at, chosen)
        for chosen in itertools.product(*(enumerate(settings) for settings in sweep.axes.values()))
    )
    if all(cell.excluded for cell in cells):
        raise source.error(("exclude",), "no cell is left")
    return SweepSpec(path, sweep, cells)


def _name_schemes(source: Source, schemes: dict[str, SchemeInfo]) -> None:
    """Expands `{schemes: all, layers: 5, set: {rlm: {…}}}` into one setting per scheme, with that
    number of layers if the scheme has layers, and with what is set for that scheme alone."""
    axes = source.data.get("axes")
    if not isinstance(axes, dict):
        return
    for axis, form in axes.items():
        if not isinstance(form, dict) or "schemes" not in form:
            continue
        here = ("axes", axis)
        for key in form:
            if key not in (keys := ("schemes", "layers", "set")):
                raise source.error((*here, key), f"unknown key; valid: {', '.join(keys)}")
        chosen = list(schemes) if form["schemes"] == "all" else form["schemes"]
        own = form.get("set", {})
        for key, found, kind in (("schemes", chosen, list), ("set", own, dict)):
            valid = [*(["all"] if key == "schemes" else []), *schemes]
            if not isinstance(found, kind):
                raise source.error((*here, key), among(found, valid))
            for one in found:
                if not isinstance(one, str) or one not in schemes:
                    raise source.error((*here, key), f"no scheme {among(one, valid)}")
        for scheme, settings in own.items():
            if not isinstance(settings, dict):
                raise source.error(
                    (*here, "set", scheme), f"{shown(settings)}; valid: a mapping of keys to values"
                )
        axes[axis] = [
            {
                "name": scheme,
                "set": {"sessions.0.scheme": scheme}
                | {"sessions.0.layers": form.get("layers", 1) if schemes[scheme].layered else 1}
                | own.get(scheme, {}),
            }
            for scheme in chosen
        ]


def _check_keys(source: Source, sweep: Sweep) -> None:
    """Raises InputError if a later axis always sets the key of an axis `{key, values}` again, or
    what holds that key: its values would have no effect."""
    axes = list(sweep.axes.items())
    for number, (axis, _) in enumerate(axes):
        form = source.data["axes"][axis]
        if not isinstance(form, dict):
            continue
        key = form["key"]
        for later, settings in axes[number + 1 :]:
            if all(any(f"{key}.".startswith(f"{one}.") for one in each.set) for each in settings):
                raise source.error(
                    ("axes", later),
                    f"it sets {key} again, so that the axis {shown(axis)} has no effect; valid: a "
                    "key of one axis alone",
                )


def _check_exclusion(source: Source, path: KeyPath, sweep: Sweep, exclusion: Exclusion) -> None:
    for axis, names in exclusion.where.items():
        if axis not in sweep.axes:
            raise source.error((*path, axis), f"no such axis; valid: {', '.join(sweep.axes)}")
        known = [one.name for one in sweep.axes[axis]]
        for name in names:
            if name not in known:
                raise source.error((*path, axis), f"no {among(name, known)}")


def _cell(
    source: Source,
    sweep: Sweep,
    experiment_at: Callable[[KeyPath, str], Path],
    chosen: tuple[tuple[int, Setting], ...],
) -> Cell:
    names = {axis: setting.name for axis, (_, setting) in zip(sweep.axes, chosen, strict=True)}
    values: Settings = dict(sweep.set)
    places = {key: source.place(("set", key)) for key in sweep.set}
    experiment = sweep.experiment
    named_at: KeyPath = ("experiment",)
    for axis, (index, setting) in zip(sweep.axes, chosen, strict=True):
        here = ("axes", axis, str(index))
        if setting.experiment is not None:
            if experiment is not None and named_at != ("experiment",):
                raise source.error(
                    (*here, "experiment"),
                    f"{source.place(named_at)} already names one; valid: once",
                )
            experiment, named_at = setting.experiment, (*here, "experiment")
        for key, value in setting.set.items():
            values.pop(key, None)  # so that the last one set comes last
            values[key] = value
            places[key] = source.place((*here, "set", key))
    if experiment is None:
        raise source.error((), f"no `experiment`, here or in a setting (cell {names})")
    return Cell(
        names,
        experiment_at(named_at, experiment),
        tuple(setting_text(key, value) for key, value in values.items()),
        places,
        next((one.why for one in sweep.exclude if one.holds(names)), ""),
    )


def _experiment(source: Source, path: KeyPath, name: str, file: Path) -> Path:
    """The path of an experiment: a file beside the sweep's, or a name."""
    beside = file.parent / f"{name.removesuffix('.yaml')}.yaml"
    known = {found.stem: found for found in binaries.EXPERIMENTS.glob("*.yaml")}
    if os.path.isfile(beside) and beside.resolve() != file.resolve():
        return beside
    if name not in known:
        raise source.error(
            path,
            f"no experiment {among(name, ['a file beside this one', *sorted(known)])}",
        )
    return known[name]
