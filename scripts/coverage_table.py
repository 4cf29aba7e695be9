"""Prints the share of covered lines for each part, from the files that scripts/coverage.sh
collected.

usage: scripts/coverage_table.py FOLDER, with gcovr's cpp.json and coverage.py's controller.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    report = Path(sys.argv[1])
    files = json.loads((report / "cpp.json").read_text())["files"]
    controller = json.loads((report / "controller.json").read_text())["totals"]
    parts = {
        part: tuple(
            sum(file[count] for file in files if file["filename"].startswith(folder))
            for count in ("line_covered", "line_total")
        )
        for part, folder in (("protocols", "protocols/"), ("engine", "dataplane/engine/"))
    }
    parts["controller"] = (controller["covered_lines"], controller["num_statements"])
    for part, (covered, lines) in parts.items():
        print(f"{part:10} {100 * covered / lines:5.1f} % of {lines} lines")
    print(f"pages: {report}/cpp/index.html, {report}/controller/index.html")


if __name__ == "__main__":
    main()
