"""The table of measures for the terminal."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from tiercast_lab.measures import table as catalogue


def measures_table() -> Table:
    table = Table(*catalogue.HEADINGS)
    for row in catalogue.rows():
        table.add_row(*(Text(cell.replace("`", "")) for cell in row))
    return table
