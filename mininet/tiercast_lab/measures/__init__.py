"""The measures of a run, as pure functions of its rows.

Rows are polars frames, one per kind of record, each with `time_s` (since the start of the run) and
`agent`; docs/experiments.md lists their columns. Rates are in bit/s of IP bytes, fractions are
0..1, times are in seconds unless a name says otherwise. A measure without rows is None.

A receiver or flow does not count while it is absent; session.py states the rule for receivers.
"""

from tiercast_controller.base.plugins import import_files

from tiercast_lab.measures.catalogue import (
    PLUGINS,
    all_measures,
    file_of,
    find_spec,
    is_known,
    measures_version,
    name_of,
    parse_name,
    spec_of,
)
from tiercast_lab.measures.context import Context, context_of
from tiercast_lab.measures.rows import Rows
from tiercast_lab.measures.spec import (
    FREQUENCY,
    LATENCY,
    MEASURES,
    RATE,
    SECONDS,
    MeasureSpec,
    fraction,
    measure,
    number,
)

__all__ = [
    "FREQUENCY",
    "LATENCY",
    "MEASURES",
    "PLUGINS",
    "RATE",
    "SECONDS",
    "Context",
    "MeasureSpec",
    "Rows",
    "all_measures",
    "context_of",
    "file_of",
    "find_spec",
    "is_known",
    "fraction",
    "measure",
    "measures_version",
    "name_of",
    "number",
    "parse_name",
    "spec_of",
]

# These files import the names above.
import_files(
    PLUGINS,
    "add-a-measure.md",
    "measure; valid: a function with @measure",
    lambda: len(MEASURES),
)
