"""scripts/setup.sh on a machine that has none of the packages: what it asks apt-get for."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ..checkout import ROOT


@pytest.mark.skipif(os.geteuid() != 0, reason="it installs only as root")
def test_alone_installs_only_what_the_engine_and_the_protocols_need(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    for name, body in {"dpkg-query": "exit 1", "apt-get": f'echo "$@" >> {asked}'}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    command = [ROOT / "scripts/setup.sh", "alone"]
    subprocess.run(command, env=os.environ | {"PATH": path}, check=True)
    update, install = asked.read_text().splitlines()
    assert update.split()[0] == "update"
    packages = [one for one in install.split() if not one.startswith("-")]
    assert packages == ["install", "g++", "cmake", "ninja-build", "rapidjson-dev"]
