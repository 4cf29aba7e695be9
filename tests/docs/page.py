"""Writes the code of a guide: each fenced block that names a file becomes that file, unchanged."""

import argparse
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def write_files(page: str, folder: Path, keep_changed: bool = False) -> list[Path]:
    text = (ROOT / "docs" / page).read_text()
    blocks = re.findall(r"^```[a-z0-9]+ (\S+)\n(.*?)^```$", text, re.M | re.S)
    assert blocks, f"{page}: no block names a file"
    written = []
    for name, code in blocks:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # An unchanged file keeps its time stamp, so that nothing is rebuilt.
        if not path.exists() or path.read_text() != code:
            if keep_changed and path.exists():
                print(f"kept {path}, which is not as in the page; --overwrite replaces it")
                continue
            path.write_text(code)
        written.append(path)
    return written


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", help="in docs/, such as add-a-measure.md")
    parser.add_argument("folder", type=Path, help="where the files go, such as my")
    parser.add_argument("--overwrite", action="store_true", help="also files that you changed")
    given = parser.parse_args()
    for path in write_files(given.page, given.folder, keep_changed=not given.overwrite):
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
