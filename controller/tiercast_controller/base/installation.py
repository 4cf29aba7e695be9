"""Finds tiercast's own files, in a checkout or in an installation below a prefix.

An installation has programs in bin/ and data in share/tiercast/, under the same names as in a
checkout: VERSION, experiments/, p4src/compiled/. The Python packages may be anywhere below the
prefix, so the prefix can be /usr, any other folder or a virtual environment.
"""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).resolve()
_MARK = "VERSION"


def _prefix() -> Path:
    for folder in _HERE.parents:
        if (folder / "share/tiercast" / _MARK).is_file():
            return folder
    raise FileNotFoundError(
        f"no share/tiercast/{_MARK} above {_HERE.parent}: this is neither a checkout of tiercast "
        "nor a complete installation"
    )


IN_CHECKOUT = (_HERE.parents[3] / _MARK).is_file()
# The checkout's folder, or the prefix.
ROOT = _HERE.parents[3] if IN_CHECKOUT else _prefix()
DATA = ROOT if IN_CHECKOUT else ROOT / "share/tiercast"
VERSION = (DATA / _MARK).read_text().strip()
