"""docs/architecture.md says which folder may use which other. This test checks includes and
imports."""

import ast
import re
import subprocess
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

MAY_USE = {
    "base": set(),
    "protocols": {"base"},
    "dataplane/engine": set(),
    "agent": {"base", "protocols"},
    "dataplane/native": {"base", "dataplane/engine"},
    "dataplane/stf": {"base", "dataplane/engine", "dataplane/native"},
    "dataplane/accounts": {"dataplane/engine"},
    "dataplane/trace": {"dataplane/engine"},
    "dataplane/updates": {"base", "dataplane/engine"},
    "dataplane/marking": {"base", "dataplane/engine", "dataplane/updates"},
    "dataplane/switch": {
        "base",
        "dataplane/engine",
        "dataplane/native",
        "dataplane/accounts",
        "dataplane/trace",
    },
    "dataplane/dpdk": {"base", "protocols", "agent"},
    "dataplane/streams": {"base", "protocols"},
    "dataplane/sender": {"base", "protocols", "agent", "dataplane/dpdk"},
    "dataplane/receiver": {"base", "protocols", "agent", "dataplane/dpdk", "dataplane/streams"},
    "dataplane/tester": {
        "base",
        "protocols",
        "agent",
        "dataplane/dpdk",
        "dataplane/streams",
        "dataplane/receiver",
    },
    "dataplane/delay_line": {"base"},
    "tools/norm": {"base"},
    "hosts": {"base", "protocols", "agent"},
    "ns3": {
        "base",
        "dataplane/engine",
        "dataplane/native",
        "dataplane/accounts",
        "dataplane/trace",
        "dataplane/updates",
        "dataplane/marking",
        "protocols",
    },
}
# Rooms of large folders, from the ground floor up: a room includes itself and what lies below.
# "" is what lies in the folder itself.
FLOORS: dict[str, tuple[set[str], ...]] = {
    "dataplane/engine": (
        {"packet"},
        {"queues"},
        {"control"},
        {"image"},
        {"arch", "tables", "flat"},
        {"run/state", "load", "native"},
        {"run/interpreter"},
        {"run/parse"},
        {"run"},
        {"arch/v1model", "arch/psa"},
        {"api"},
    ),
    "ns3": ({"kernel"}, {"network"}, {"traffic"}, {""}),
    "dataplane/sender": ({"frames", "metrics"}, {"port", "sessions"}, {"worker"}, {""}),
    "dataplane/receiver": ({"igmp"}, {"port"}, {"show"}, {""}),
    "protocols": (
        {"base"},
        {"pacer", "wire"},
        {"core"},
        {"common", "driver"},
        {f"schemes/{path.name}" for path in (ROOT / "protocols/schemes").glob("*/")},
        {"testkit"},
    ),
    "dataplane/switch/p4runtime": ({"translate"}, {"entities"}, {""}),
}
WITHOUT_GRPC_OR_DPDK = (
    "base", "protocols", "dataplane/engine", "dataplane/accounts", "dataplane/trace",
    "dataplane/native", "dataplane/streams",
)  # fmt: skip
PYTHON_MAY_IMPORT = {
    "controller/tiercast_controller": {"tiercast_controller"},
    "mininet/tiercast_lab": {"tiercast_lab", "tiercast_controller"},
    "tools/wire": {"tiercast_wire"},
}
OUR_PYTHON = {"tiercast_controller", "tiercast_lab", "tiercast_wire"}

LAB = ROOT / "mininet/tiercast_lab"
CONTROLLER = ROOT / "controller/tiercast_controller"
# Of a Python package, from the ground up: a room imports those before it alone. Modules in the
# package itself may import all of them.
PYTHON_FLOORS = {
    LAB: (
        "base",
        "measures",
        "experiment",
        "results",
        "run",
        "study",
        "bench",
        "show",
        "watch",
        "cli",
    ),
    CONTROLLER: ("base", "p4runtime", "network", "multicast", "agents"),
}
# Imports inside functions, and under TYPE_CHECKING, are late. They are allowed where a command
# starts sooner for them, and hold to the floors as all others do.
MAY_IMPORT_LATE = {
    "__main__": "Ctrl-C ends it from before the imports on",
    "cli.bench": "the command imports the parts of the lab that it uses",
    "cli.clean": "each command imports the parts of the lab that it uses",
    "cli.lab": "the command imports Mininet and the parts of the lab that it uses",
    "cli.keys": "the other commands need no cryptography",
    "cli.output": "JSON is written by what imports polars, which most commands do not need",
    "cli.catalogue": "each command imports the parts of the lab that it uses",
    "cli.marking": "as cli.run",
    "cli.run": "the command imports the parts of the lab that it uses",
    "cli.runtimes": "as cli.run",
    "cli.studies": "each command imports the parts of the lab that it uses",
    "cli.targets": "as cli.run",
    "cli.running": "a run is reported at its end: who breaks it off does not wait for Matplotlib",
    "cli.stored_runs": "each command imports the parts of the lab that it uses",
    "cli.watch": "the other commands need no web server",
    "experiment.schemes": "only annotated: `tiercast schemes` reads no experiment",
    "run.execute": "virtual time needs no Mininet, whose import takes a fifth of a second",
    "run.mininet.leftovers": "only annotated: the network, which imports Mininet",
    "run.mininet.processes": "only annotated: a node of the network, which imports Mininet",
    "run.mininet.switches": "only annotated: the network, which imports Mininet",
    "show.run_report": "without traced links it needs no Matplotlib, whose import takes 0.4 s",
}

# Imports of computed names: a scheme's own modules, by its name, all that state measures, and a
# user's file that describes a network.
FINDS_BY_NAME = {"base.by_name", "experiment.topology_sources", "measures.catalogue"}


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


@pytest.mark.parametrize("folder", FLOORS)
def test_rooms_include_downwards(folder: str) -> None:
    floor = {room: n for n, rooms in enumerate(FLOORS[folder]) for room in rooms}
    seen = set()
    for path in tracked(folder, ".h", ".cpp"):
        room = path.parent.relative_to(ROOT / folder).as_posix().removeprefix(".")
        if room == "bench":
            continue
        assert room in floor, f"{path}: no room `{room}`; rooms: {', '.join(sorted(floor))}"
        seen.add(room)
        includes = re.findall(rf'^#include "{folder}/((?:\w+/)*)\w+\.h"', path.read_text(), re.M)
        for used in (include.rstrip("/") for include in includes):
            assert used == room or floor[used] < floor[room], f"{path}: includes {used}/"
    assert seen == set(floor), f"{folder}: rooms without files"


def test_headers_form_no_circle() -> None:
    headers = {
        str(path.relative_to(ROOT)): re.findall(r'^#include "([^"]+)"', path.read_text(), re.M)
        for folder in MAY_USE
        for path in tracked(folder, ".h")
    }
    open_, done = [], set()

    def visit(name: str) -> None:
        assert name not in open_, " -> ".join([*open_[open_.index(name) :], name])
        if name in done or name not in headers:
            return
        open_.append(name)
        for included in headers[name]:
            visit(included)
        open_.pop()
        done.add(name)

    for name in headers:
        visit(name)


@pytest.mark.parametrize("folder", PYTHON_MAY_IMPORT)
def test_imports_point_downwards(folder: str) -> None:
    files = tracked(folder, ".py")
    assert files, f"no Python file in {folder}"
    for path in files:
        for module in re.findall(r"^\s*(?:from|import) (\w+)", path.read_text(), re.M):
            if module in OUR_PYTHON:
                assert module in PYTHON_MAY_IMPORT[folder], f"{path}: imports {module}"


class Import:
    """An import of one of a package's modules by another. Names start at the package:
    "run.execute"."""

    def __init__(self, package: str, by: str, of: str, line: int, late: bool) -> None:
        self.by, self.of, self.late = by, of, late
        self.place = f"{package}.{by}, line {line}: imports {of}"


def modules(package: Path) -> dict[str, Path]:
    """A package's modules by name. The __init__.py of a folder has the folder's name."""
    names = {p: p.relative_to(package).with_suffix("").parts for p in package.rglob("*.py")}
    return {".".join(part for part in name if part != "__init__"): p for p, name in names.items()}


def imports(package: Path) -> Iterator[Import]:
    """All imports, whether at the top, in a function or under TYPE_CHECKING."""
    known = modules(package)
    for by, path in known.items():
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}, line {node.lineno}: a relative import"
                whole = [f"{node.module}.{name.name}" for name in node.names]
            elif isinstance(node, ast.Import):
                whole = [name.name for name in node.names]
            else:
                continue
            for name in whole:
                top, _, of = name.partition(".")
                if top == package.name:
                    of = of if of in known else of.rpartition(".")[0]
                    yield Import(package.name, by, of, node.lineno, late=node not in tree.body)


@pytest.mark.parametrize("package", PYTHON_FLOORS, ids=lambda package: package.name)
def test_python_rooms_are_the_floors(package: Path) -> None:
    assert {path.parent.name for path in package.glob("*/__init__.py")} == set(
        PYTHON_FLOORS[package]
    )


def test_every_module_of_the_lab_is_in_a_room() -> None:
    assert {path.stem for path in LAB.glob("*.py")} == {"__init__", "__main__"}


@pytest.mark.parametrize("package", PYTHON_FLOORS, ids=lambda package: package.name)
def test_python_rooms_import_downwards(package: Path) -> None:
    # What is in no room stands above all of them; the package's own __init__.py, below.
    floor = {room: n for n, room in enumerate(PYTHON_FLOORS[package])} | {"": -1}
    above = len(floor)
    for one in imports(package):
        by, of = one.by.split(".")[0], one.of.split(".")[0]
        assert floor.get(of, above) <= floor.get(by, above), one.place


@pytest.mark.parametrize("package", PYTHON_FLOORS, ids=lambda package: package.name)
def test_python_modules_import_each_other_in_no_circle(package: Path) -> None:
    graph: dict[str, set[str]] = {}
    for one in imports(package):
        graph.setdefault(one.by, set()).add(one.of)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a circle: {' <- '.join(error.args[1])}")


def test_late_imports_of_the_lab_are_those_with_a_reason() -> None:
    late = [one for one in imports(LAB) if one.late]
    for one in late:
        assert one.by in MAY_IMPORT_LATE, one.place
    assert {one.by for one in late} == set(MAY_IMPORT_LATE), "one that imports nothing late"


def test_modules_of_the_lab_are_found_by_name_where_it_is_known() -> None:
    computed = {
        name
        for name, path in modules(LAB).items()
        if re.search(r"\b(importlib(?!\.metadata)|__import__)\b", path.read_text())
    }
    assert computed == FINDS_BY_NAME


def test_mininet_folder_hides_nothing() -> None:
    assert not (ROOT / "mininet" / "__init__.py").exists()
