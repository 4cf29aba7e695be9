"""A report that cannot be written leaves the old one as it was."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import pathlib, resource, sys
from tiercast_lab.base.whole_file import write_whole
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
write_whole(pathlib.Path(sys.argv[1]), "x" * int(sys.argv[2]))
"""


def write(path: Path, size: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, path, str(size)],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
    )


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    assert write(report, 900).returncode == 0
    result = write(report, 1100)
    assert (result.returncode, "File too large" in result.stderr) == (1, True)
    assert report.read_text() == "x" * 900
    assert list(tmp_path.iterdir()) == [report]
