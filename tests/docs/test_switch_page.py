"""docs/switch.md has each option of `tiercast-switch`."""

from __future__ import annotations

import re
import subprocess

from ..checkout import BUILD, ROOT


def test_its_table_has_each_option() -> None:
    done = subprocess.run(
        [BUILD / "dataplane/switch/tiercast-switch", "--help"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    options = set(re.findall(r"^  (?:-\w,)?(--[\w-]+)", done.stdout, re.M))
    assert len(options) > 15
    page = (ROOT / "docs/switch.md").read_text()
    first_cells = re.findall(r"^\| (`--.*?) \| ", page, re.M)
    named = {option for cell in first_cells for option in re.findall(r"--[\w-]+", cell)}
    assert named == options - {"--help", "--version"}
