"""Runs ends of flows: `python -I -S flows/ NAME LAB ENDS`, by its path (program.py)."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[4]))

from tiercast_lab.run.mininet.flows.program import main  # noqa: E402 (found by the line above)

main()
