"""What pyproject.toml cannot say: where the packages, the generated stubs and the data are."""

import subprocess
import sys
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

FOLDERS = ("controller", "mininet", "tools/wire")
# Installed below share/tiercast/ under the same names (tiercast_controller/base/installation.py).
DATA = ("VERSION", "experiments/**/*.yaml", "p4src/compiled/*")


class BuildWithStubs(build_py):
    def run(self) -> None:
        super().run()
        command = [sys.executable, "proto/generate_python.py", self.build_lib]
        subprocess.run(command, check=True)


def data_files() -> dict[str, list[str]]:
    files: dict[str, list[str]] = {}
    for pattern in DATA:
        for path in sorted(Path().glob(pattern)):
            files.setdefault(f"share/tiercast/{path.parent}", []).append(str(path))
    return files


packages = {name: folder for folder in FOLDERS for name in find_packages(folder)}
setup(
    packages=list(packages),
    package_dir={name: f"{folder}/{name.replace('.', '/')}" for name, folder in packages.items()},
    package_data={"tiercast_lab.show": ["templates/*"], "tiercast_lab.watch": ["pages/*"]},
    data_files=list(data_files().items()),
    cmdclass={"build_py": BuildWithStubs},
)
