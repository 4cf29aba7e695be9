"""The checkout under test, and where its programs are."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# TIERCAST_BUILD selects another build tree, for example one with sanitizers.
BUILD = Path(os.environ.get("TIERCAST_BUILD", ROOT / "build")).resolve()
