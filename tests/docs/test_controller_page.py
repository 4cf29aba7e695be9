"""docs/controller.md shows the example of CONFIG that `tiercast controller --help` shows."""

from __future__ import annotations

from pathlib import Path

from tiercast_controller.config import EXAMPLE

from .page import write_files


def test_the_page_has_the_example(tmp_path: Path) -> None:
    (config,) = write_files("controller.md", tmp_path)
    assert (config.name, config.read_text()) == ("network.yaml", EXAMPLE)
