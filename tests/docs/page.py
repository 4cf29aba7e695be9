"""Writes the code of a guide: each fenced block that names a file becomes that file, unchanged."""

import argparse
import os
import re
import tempfile
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", help="in docs/, such as add-a-measure.md")
    parser.add_argument("folder", type=Path, help="where the files go, such as my")
    parser.add_argument("--overwrite", action="store_true", help="also files that you changed")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as fresh:
        for made in write_files(given.page, Path(fresh)):
            path = given.folder / made.relative_to(fresh)
            if not path.exists() or given.overwrite:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(made.read_text())
                print(f"wrote {path}")
            elif path.read_text() != made.read_text():
                print(f"kept {path}, which is not as in the page; --overwrite replaces it")


if __name__ == "__main__":
    main()
