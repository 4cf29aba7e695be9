"""docs/architecture.md's table of who may know whom, held against the includes and imports."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

MAY_USE = {
    "protocols": set(),
    "dataplane/engine": set(),
    "agent": {"protocols"},
    "dataplane/stf": {"dataplane/engine"},
    "dataplane/accounts": {"dataplane/engine"},
    "dataplane/switch": {"dataplane/engine", "dataplane/accounts"},
    "dataplane/sender": {"protocols", "agent"},
    "dataplane/wire": set(),
    "hosts": {"protocols", "agent"},
    "ns3": {"dataplane/engine", "dataplane/accounts", "protocols"},
}
WITHOUT_GRPC_OR_DPDK = ("protocols", "dataplane/engine", "dataplane/accounts")
PYTHON_MAY_IMPORT = {
    "controller/tiercast_controller": {"tiercast_controller"},
    "mininet/tiercast_lab": {"tiercast_lab", "tiercast_controller"},
    "tools/wire": {"tiercast_wire"},
}
OUR_PYTHON = {"tiercast_controller", "tiercast_lab", "tiercast_wire"}


def tracked(folder: str, *suffixes: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", folder],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    return [ROOT / name for name in listed if name.endswith(suffixes)]


def folder_of(include: str) -> str | None:
    return next((f for f in MAY_USE if include.startswith(f + "/")), None)


@pytest.mark.parametrize("folder", MAY_USE)
def test_includes_point_downwards(folder: str) -> None:
    files = tracked(folder, ".h", ".cpp")
    for path in files:
        for include in re.findall(r'^#include [<"]([^>"]+)[>"]', path.read_text(), re.M):
            used = folder_of(include)
            assert used in MAY_USE[folder] | {folder, None}, f"{path}: {include}"
            if folder in WITHOUT_GRPC_OR_DPDK:
                assert not re.match(r"grpc|google/protobuf|p4/|tiercast/v1|rte_", include), (
                    f"{path}: {include}"
                )


@pytest.mark.parametrize("folder", PYTHON_MAY_IMPORT)
def test_imports_point_downwards(folder: str) -> None:
    files = tracked(folder, ".py")
    assert files, f"no Python file in {folder}"
    for path in files:
        for module in re.findall(r"^\s*(?:from|import) (\w+)", path.read_text(), re.M):
            if module in OUR_PYTHON:
                assert module in PYTHON_MAY_IMPORT[folder], f"{path}: imports {module}"


def test_mininet_folder_hides_nothing() -> None:
    assert not (ROOT / "mininet" / "__init__.py").exists()
