"""The tables of the schemes and their parameters, for the terminal and as Markdown."""

from __future__ import annotations

import re
from typing import Any

from rich.table import Table
from rich.text import Text
from tiercast_controller.base.installation import IN_CHECKOUT, ROOT
from tiercast_controller.base.units import format_duration, format_rate

from tiercast_lab.experiment.schemes import ParameterInfo, SchemeInfo


def schemes_table(schemes: dict[str, SchemeInfo]) -> Table:
    table = Table("scheme", "rates", "parameters", "lies that members can tell")
    for scheme in schemes.values():
        rates = "one for each layer" if scheme.layered else "one for all"
        table.add_row(scheme.name, rates, str(len(scheme.parameters)), ", ".join(scheme.lies))
    return table


def as_json(scheme: SchemeInfo) -> dict[str, Any]:
    """A scheme with its parameters as data, in the units that it names."""
    parameters = [vars(one) for one in scheme.parameters.values()]
    return vars(scheme) | {"parameters": parameters, "records": list(scheme.records)}


def parameters_table(scheme: SchemeInfo) -> Table:
    page = f"docs/protocols/{scheme.name}.md"
    # A scheme from elsewhere has no page here.
    rules = f"{page} has the rules; PROTOCOLS: docs/PROTOCOLS.md"
    table = Table(
        *PARAMETER_HEADINGS,
        title=f"{scheme.name}: --set, or `parameters` of a session",
        caption=rules if not IN_CHECKOUT or (ROOT / page).exists() else None,
        title_justify="left", caption_justify="left",
    )  # fmt: skip
    for row in _parameter_rows(scheme):
        table.add_row(*map(Text, row))
    return table


def parameters_markdown(scheme: SchemeInfo) -> str:
    """The table as docs/protocols/ has it."""
    lines = [PARAMETER_HEADINGS, ["---"] * len(PARAMETER_HEADINGS), *_parameter_rows(scheme)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


PARAMETER_HEADINGS = ("parameter", "default", "valid", "used by", "purpose", "source")


def _parameter_rows(scheme: SchemeInfo) -> list[tuple[str, ...]]:
    return [
        (one.name, _default(one), _valid(one), one.used_by, one.purpose, one.source)
        for one in scheme.parameters.values()
    ]


def _default(one: ParameterInfo) -> str:
    """For example: 35 kbit/s, 100 ms, 1 packet, 4 GRTTs, 1000/s, 0.965."""
    if one.unit in ("bit/s", "s", ""):
        return _value(one, one.default)
    if one.unit.startswith("1/"):
        return _value(one, one.default) + one.unit[1:]
    unit = one.unit.removesuffix("s") if one.default == 1 else one.unit
    return f"{_value(one, one.default)} {unit}"


def _valid(one: ParameterInfo) -> str:
    """For example: 1 kbit/s to 1 Gbit/s, 0 to 60 s, 0.1 to 0.999, 0 or 1."""
    if one.whole and (one.min, one.max) == (0, 1):
        return "0 or 1"
    return f"{_value(one, one.min)} to {_value(one, one.max)}"


def _value(one: ParameterInfo, value: float) -> str:
    """The value, with its unit if it is a rate or a time."""
    if value and one.unit in ("bit/s", "s"):
        shown = format_rate(value) if one.unit == "bit/s" else format_duration(value * 1e9)
        return re.sub(r"(?<=\d)(?=[a-zA-Z])", " ", shown, count=1)
    grouped = "," if abs(value) >= 1e6 else ""
    return f"{value:{grouped}.6f}".rstrip("0").rstrip(".")
