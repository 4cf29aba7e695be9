"""Panels as the data that charts.js draws."""

from __future__ import annotations

from typing import Any

import numpy as np

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
                "x": _numbers(series.x),
                "y": _numbers(series.y),
            }
            for series in panel.series
        ],
        "references": [{"y": r.y, "label": r.label, "colour": r.colour} for r in panel.references],
    }


def _numbers(values: np.ndarray) -> list[float | None]:
    return [round(float(v), 4) if np.isfinite(v) else None for v in values]
