"""Tables of the schemes and their parameters in the terminal."""

from __future__ import annotations

from rich.table import Table

from tiercast_lab.experiment.schemes import SchemeInfo


def schemes_table(schemes: dict[str, SchemeInfo]) -> Table:
    table = Table("scheme", "rates", "parameters")
    for scheme in schemes.values():
        rates = "one for each layer" if scheme.layered else "one for all"
        table.add_row(scheme.name, rates, str(len(scheme.parameters)))
    return table


def parameters_table(scheme: SchemeInfo) -> Table:
    table = Table(
        "parameter",
        title=f"{scheme.name}: --set, or `parameters` of a session",
        caption=f"docs/protocols/{scheme.name}.md has the rules; PROTOCOLS: docs/PROTOCOLS.md",
        title_justify="left", caption_justify="left",
    )  # fmt: skip
    for heading in ("default", "valid", "unit", "purpose", "source"):
        table.add_column(heading)
    for one in scheme.parameters.values():
        valid = f"{one.min:g} to {one.max:g}"
        table.add_row(one.name, f"{one.default:g}", valid, one.unit, one.purpose, one.source)
    return table
