"""Writes the code of a guide: each fenced block that names a file becomes that file, unchanged.

usage: page.py PAGE FOLDER
"""

import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("TIERCAST_BUILD", ROOT / "build"))


def write_files(page: str, folder: Path) -> list[Path]:
    text = (ROOT / "docs" / page).read_text()
    written = []
    for name, code in re.findall(r"^```[a-z0-9]+ (\S+)\n(.*?)^```$", text, re.M | re.S):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # An unchanged file keeps its time stamp, so that nothing is rebuilt.
        if not path.exists() or path.read_text() != code:
            path.write_text(code)
        written.append(path)
    assert written, f"{page}: no block names a file"
    return written


if __name__ == "__main__":
    write_files(sys.argv[1], Path(sys.argv[2]))
