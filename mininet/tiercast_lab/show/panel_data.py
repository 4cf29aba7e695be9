"""Panels as the data that charts.js draws."""

from __future__ import annotations

import math
from typing import Any

from tiercast_lab.show.panels import Panel


def panel_data(panel: Panel) -> dict[str, Any]:
    return {
        "key": panel.key,
        "title": panel.title,
        "yLabel": panel.y_label,
        "yMax": panel.y_max,
        "note": panel.note,
        "series": [
            {
                "label": series.label,
                "colour": series.colour,
                "steps": series.steps,
                "thin": series.thin,
                "dash": series.dash,
                "x": [round(float(at), 4) for at in series.x],
                "y": [_short(float(value)) for value in series.y],
            }
            for series in panel.series
        ],
        "references": [{"y": r.y, "label": r.label, "colour": r.colour} for r in panel.references],
    }


def _short(value: float) -> float | None:
    """Six digits, wherever they are: an axis may be in thousandths of its unit."""
    return float(f"{value:.6g}") if math.isfinite(value) else None
