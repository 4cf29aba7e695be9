"""All measures by name, and their values for a run."""

from __future__ import annotations

import hashlib
import importlib
import math
import pkgutil
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from tiercast_controller.base import plugins
from tiercast_controller.base.bounded_yaml import shown
from tiercast_controller.base.plugins import fault, files_of, imported_from, named, without

from tiercast_lab.base.errors import InputError, among
from tiercast_lab.measures.context import Context
from tiercast_lab.measures.rows import Rows
from tiercast_lab.measures.spec import MEASURES, MeasureSpec

PLUGINS = plugins.MEASURES


# Every module of this folder may define measures. Those of a session come first in tables.
OF_A_SESSION = "session"
modules = {module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)])}
for module in [OF_A_SESSION, *sorted(modules - {OF_A_SESSION, Path(__file__).stem})]:
    importlib.import_module(f"tiercast_lab.measures.{module}")


@cache
def measures_version() -> str:
    """A hash that changes when the code of the measures changes."""
    code = [*sorted(Path(__file__).parent.glob("*.py")), *files_of(PLUGINS)]
    return hashlib.sha256(b"".join(path.read_bytes() for path in code)).hexdigest()[:12]


# ---- names --------------------------------------------------------------------------------------

# The form of the value of `which` in a name: cumulative_rate_2, receiver_rate_h3.s2.
FORMS = {
    "layers": "[1-8]",
    "receiver": r"h\d+(\.s\d+)?",
    "link": r"\d+>\d+",
    "flow": r"udp\d+",
}


def name_of(measure: str, which: object = None, session: int | None = None) -> str:
    """A measure's name as in all_measures. `session` is the session's number, None for the first; a
    receiver's name already contains it."""
    parts = [measure]
    if which is not None:
        parts.append(str(which))
    if session is not None and MEASURES[measure].which != "receiver":
        parts.append(f"s{session}")
    return "_".join(parts)


@dataclass(frozen=True)
class Name:
    """The parts of a measure's name in summary.json."""

    measure: str
    which: str = ""
    session: str = ""
    period: str = ""

    @property
    def spec(self) -> MeasureSpec:
        return MEASURES[self.measure]

    @property
    def shown(self) -> str:
        """The name in words."""
        which = self.which
        if self.spec.which == "layers":
            which += f" layer{'s' if which != '1' else ''}"
        number = f"session {self.session}" if self.session else ""
        text = ", ".join(filter(None, (self.measure.replace("_", " "), which, number)))
        return f"{text} ({self.period})" if self.period else text


def parse_name(name: str) -> Name:
    """Splits a measure's name. Raises ValueError for a name that all_measures never gives."""
    whole, _, period = name.partition("@")
    of_session = re.fullmatch(r"(.+)_s(\d+)", whole)
    candidates = [(whole, "")] + ([(of_session[1], of_session[2])] if of_session else [])
    for text, number in candidates:
        base, _, which = text.rpartition("_")
        for measure, value in [(text, ""), *([(base, which)] if which else [])]:
            if measure in MEASURES and _names(MEASURES[measure], value, number):
                return Name(measure, value, number, period)
    raise ValueError(f"unknown measure {among(whole, _valid_names(), without(PLUGINS))}")


def _names(spec: MeasureSpec, which: str, number: str) -> bool:
    """Whether the measure can have these parts in its name; an empty part is left out of the
    name."""
    if number and (spec.of_run or spec.which == "receiver"):
        return False
    if not which:
        return spec.whole
    return spec.which is not None and re.fullmatch(FORMS[spec.which], which) is not None


def _valid_names() -> Iterator[str]:
    for name, spec in MEASURES.items():
        number = "" if spec.of_run or spec.which == "receiver" else "[_s<session>]"
        form = {None: "", "layers": "_<layers>", "receiver": "_h<node>", "link": "_<node>><node>",
                "flow": "_<flow>"}[spec.which]  # fmt: skip
        yield name + (f"[{form}]" if form and spec.whole else form) + number


def find_spec(name: str) -> MeasureSpec:
    """The spec of a measure's name. Raises ValueError for a name that all_measures never gives."""
    return parse_name(name).spec


def is_known(name: str) -> bool:
    try:
        parse_name(name)
    except ValueError:
        return False
    return True


def file_of(name: str) -> str | None:
    """The name of the user's file that has the measure; None for ours."""
    path = imported_from(find_spec(name).compute)
    return path.name if path else None


def spec_of(name: str) -> tuple[MeasureSpec, str]:
    """The spec and the words for a name that all_measures gives."""
    parsed = parse_name(name)
    return parsed.spec, parsed.shown


# ---- values -------------------------------------------------------------------------------------


def all_measures(rows: Rows, context: Context) -> dict[str, float | None]:
    """Every measure of the run and of each session, by its name, and again for each period as
    name@period. Measures beside competing flows are included if there are such flows."""
    result: dict[str, float | None] = {}
    for period, window in context.periods.items():
        part = all_measures(rows, replace(context, window=window, periods={}))
        result |= {f"{name}@{period}": value for name, value in part.items()}
    there = {"": True, "tcp": bool(context.rivals), "udp": bool(context.udp_flows)}
    for number, one in enumerate(context.sessions or (context.session,)):
        seen, first = replace(context, session=one), number == 0
        for name, spec in MEASURES.items():
            if not there[spec.beside] or (spec.of_run and not first):
                continue
            if not context.sessions and not spec.of_run:
                continue
            for which in _each(spec, seen):
                value = _value(rows, seen, spec, which)
                result[name_of(name, which, None if first else one.number)] = value
    return result


def _each(spec: MeasureSpec, context: Context) -> Iterable[object]:
    """The values that `which` takes; None stands for all together."""
    every = {
        None: [],
        "layers": range(1, context.session.layers + 1),
        "receiver": context.receivers,
        "link": context.links,
        "flow": context.udp_flows,
    }
    return [*([None] if spec.whole else []), *every[spec.which]]


def _value(rows: Rows, context: Context, spec: MeasureSpec, which: object) -> float | None:
    """The measure's value, or None, for example if the session starts after the window."""
    start, end = context.span
    if start >= end and not spec.of_run:
        return None
    try:
        value = spec.compute(rows, context, *(() if which is None else (which,)))
    except Exception as error:
        if (said := fault(error, spec.compute)) is None:
            raise
        raise InputError(f"{PLUGINS}: {said} (docs/add-a-measure.md)") from error
    try:
        # A plain float, because comparing numpy scalars gives no bool. NaN (a mean of nothing, a
        # ratio to 0) is no value.
        return None if value is None or not math.isfinite(value) else float(value)
    except Exception as error:
        if imported_from(spec.compute) is None:
            raise
        raise InputError(
            f"{named(spec.compute)} returned {shown(value)}; valid: a number or None "
            "(docs/add-a-measure.md)"
        ) from error
