"""Compares stored runs: those that differ only in their seed are one group, whose measures have
means with confidence intervals."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from string import ascii_uppercase
from typing import Any

from tiercast_lab.base.errors import InputError
from tiercast_lab.measures import all_measures, measures_version, spec_of
from tiercast_lab.results.storage import StoredRun, reading
from tiercast_lab.study.confidence import Mean, difference, mean, paired_difference

MOST_GROUPS = len(ascii_uppercase)
# Facts about a run besides its experiment that make it another run. In virtual time the machine is
# not one of them.
_FACTS = ("runtime", "switch", "versions")
_OTHERS = (*_FACTS, "seed", "defaults", "programs", "machine")
_VARIES = ("load",)  # of a machine, from one minute to the next


@dataclass(frozen=True)
class Group:
    """Runs that differ only in their seed."""

    name: str  # A, B, C, ...
    runs: tuple[StoredRun, ...]

    @property
    def seeds(self) -> list[int]:
        return [one.summary["seed"] for one in self.runs]

    @property
    def first(self) -> StoredRun:
        return self.runs[0]

    @cached_property
    def values(self) -> list[Mapping[str, float | None]]:
        """The measures of each run."""
        return [_measures(one) for one in self.runs]

    def of(self, measure: str) -> list[float | None]:
        return [values.get(measure) for values in self.values]


@dataclass(frozen=True)
class Change:
    """What differs between groups: a path, and the text of each group, None where it has none."""

    path: str
    values: tuple[str | None, ...]


@dataclass(frozen=True)
class MeasureRow:
    """A measure: the mean of each group, and the difference of each group but the first from the
    first."""

    name: str
    means: tuple[Mean | None, ...]
    differences: tuple[Mean | None, ...]


@dataclass(frozen=True)
class Comparison:
    groups: tuple[Group, ...]

    @property
    def runs(self) -> list[StoredRun]:
        return [run for group in self.groups for run in group.runs]

    @cached_property
    def measures(self) -> list[MeasureRow]:
        """Every measure that any group has. Those of periods follow those of the runs' window."""
        names = dict.fromkeys(
            name for group in self.groups for values in group.values for name in values
        )
        rows = [self._row(name) for name in sorted(names, key=lambda one: "@" in one)]
        return [row for row in rows if any(one is not None for one in row.means)]

    def _row(self, name: str) -> MeasureRow:
        first, *others = self.groups
        return MeasureRow(
            name,
            tuple(mean(group.of(name)) for group in self.groups),
            tuple(_difference(other, first, name) for other in others),
        )

    @cached_property
    def changes(self) -> list[Change]:
        """The keys of the experiments whose values differ, then parts, versions and runtimes."""
        flat = [_facts(group.first) | {"seed": _listed(group.seeds)} for group in self.groups]
        paths = list(dict.fromkeys(path for one in flat for path in one))
        paths.sort(key=lambda path: path.partition(".")[0] in _OTHERS)  # the experiment's first
        found = []
        for path in paths:
            values = tuple(one.get(path) for one in flat)
            if len(set(values)) > 1:
                shown = tuple(
                    _default(group.first, path) if value is None else value
                    for group, value in zip(self.groups, values, strict=True)
                )
                found.append(Change(path, shown))
        return found


def compare(runs: Sequence[StoredRun]) -> Comparison:
    """Groups runs and compares them. Raises InputError for a single run, one that is named twice or
    has not ended, and too many groups."""
    places = [run.directory.resolve() for run in runs]
    if len(runs) < 2:
        raise InputError(f"RUN: {len(runs)} run; valid: two or more")
    for run, place in zip(runs, places, strict=True):
        if places.count(place) > 1:
            raise InputError(f"{run.directory}: the same run twice; valid: different runs")
        if not run.complete:
            raise InputError(f"{run.directory}: {'; '.join(run.reasons)}; valid: a run that ended")
    grouped: dict[tuple[str, int], list[StoredRun]] = {}
    for run in runs:
        # A second run of one seed is another group: the two differ in nothing that is compared.
        key, turn = _key(run), 0
        while any(
            one.summary["seed"] == run.summary["seed"] for one in grouped.get((key, turn), ())
        ):
            turn += 1
        grouped.setdefault((key, turn), []).append(run)
    if len(grouped) > MOST_GROUPS:
        raise InputError(
            f"RUN: {len(grouped)} kinds of runs that differ in more than their seed; valid: up to "
            f"{MOST_GROUPS}"
        )
    return Comparison(
        tuple(
            Group(name, tuple(sorted(members, key=lambda one: int(one.summary["seed"]))))
            for name, members in zip(ascii_uppercase, grouped.values(), strict=False)
        )
    )


def _key(run: StoredRun) -> str:
    """The same text for runs that differ only in their seed."""
    return json.dumps(_facts(run), sort_keys=True)


def _difference(of: Group, against: Group, name: str) -> Mean | None:
    paired = of.seeds == against.seeds and len(of.seeds) > 1
    return (paired_difference if paired else difference)(of.of(name), against.of(name))


def _measures(run: StoredRun) -> Mapping[str, float | None]:
    """As stored, or from the rows if the code of the measures has changed since."""
    if run.summary.get("measured_by") == measures_version():
        return {name: one["value"] for name, one in run.summary["measures"].items()}
    with reading(run.directory):
        return all_measures(run.rows, run.context)


def _facts(run: StoredRun) -> dict[str, str]:
    """What makes a run the run that it is, besides its seed: texts by path."""
    summary = run.summary
    facts: dict[str, Any] = dict(summary["experiment"])
    facts |= {name: summary[name] for name in _FACTS}
    if summary.get("defaults"):
        facts["defaults"] = summary["defaults"]
    if run.programs:
        facts["programs"] = {name: digest[:12] for name, digest in run.programs.items()}
    if summary["runtime"] != "ns3":
        machine = summary["machine"]
        facts["machine"] = {name: machine[name] for name in machine if name not in _VARIES}
    return dict(_flat(facts, ""))


def _flat(value: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        items: Any = value.items()
    elif isinstance(value, (list, tuple)) and any(isinstance(one, (dict, list)) for one in value):
        items = enumerate(value)
    else:
        yield path, value if isinstance(value, str) else json.dumps(value)
        return
    for key, inner in items:
        yield from _flat(inner, f"{path}.{key}" if path else str(key))


def _default(run: StoredRun, path: str) -> str | None:
    """The default of a scheme's parameter that a run does not set."""
    _, found, name = path.partition(".parameters.")
    of_scheme = run.summary.get("defaults", {}).get(name.partition(".")[0], {})
    return f"default: {of_scheme[name]:g}" if found and name in of_scheme else None


def _listed(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))


def as_json(comparison: Comparison) -> dict[str, Any]:
    """The comparison as data. Differences are against the first group."""
    return {
        "groups": [
            {
                "name": group.name,
                "runs": [str(run.directory) for run in group.runs],
                "seeds": group.seeds,
                "verdicts": [run.summary["verdict"] for run in group.runs],
            }
            for group in comparison.groups
        ],
        "differs": [
            {"path": change.path, "values": list(change.values)} for change in comparison.changes
        ],
        "measures": [
            {
                "name": row.name,
                "unit": spec_of(row.name)[0].unit,
                "means": [one and vars(one) for one in row.means],
                "differences": [one and vars(one) for one in row.differences],
            }
            for row in comparison.measures
        ],
    }
