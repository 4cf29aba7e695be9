"""The controls in p4src/lib/ need only core.p4 and no architecture."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ..checkout import ROOT

pytestmark = pytest.mark.slow

P4SRC = ROOT / "p4src"
LIB = sorted((P4SRC / "lib").glob("*.p4"))
POLICIES = P4SRC / "lib/port_policy.p4"
V1MODEL = r"v1model|standard_metadata|mark_to_drop|verify_checksum|update_checksum|\bhash\("
EXTERNS = r"\b(register|counter|meter|Register|Counter|Meter)\b\s*[<(]"


@pytest.mark.parametrize("file", LIB, ids=lambda file: file.name)
def test_no_name_of_an_architecture(file: Path) -> None:
    assert not re.search(f"{V1MODEL}|{EXTERNS}", file.read_text())


@pytest.mark.parametrize("program", ["tiercast.p4", "tiercast_psa.p4"])
def test_every_policy_of_a_port_has_a_branch(program: str) -> None:
    """A forgotten one compiles, and the port then marks nothing. The branches stand in the
    programs, because they read and write registers, which are externs of an architecture."""
    declared = re.search(r"enum bit<8> Policy \{(.*?)\}", POLICIES.read_text(), re.S)
    assert declared
    policies = set(re.findall(r"^\s*(\w+) = \d", declared[1], re.M)) - {"NONE"}
    branches = re.findall(r"\bpolicy == Policy\.(\w+)\)", (P4SRC / program).read_text())
    assert len(policies) >= 4 and sorted(branches) == sorted(policies)


def test_the_psa_program_uses_only_what_it_declares() -> None:
    """p4c's PSA back end refers to local structs and headers that it never declares."""
    program = json.loads((P4SRC / "compiled/tiercast_psa.json").read_text())
    declared = {header["name"] for header in program["headers"]}
    used = set()

    def visit(node: object) -> None:
        if isinstance(node, dict):
            if node.get("type") == "field" and isinstance(node["value"], list):
                used.add(node["value"][0])
            elif node.get("type") == "header" and isinstance(node["value"], str):
                used.add(node["value"])
            for child in node.values():
                visit(child)
        elif isinstance(node, list):
            for child in node:
                visit(child)

    visit(program)
    assert used and used <= declared


def test_libraries_compile_before_any_architecture_is_known(tmp_path: Path) -> None:
    """In P4 a name is known only after its declaration. If p4c is installed, ask p4c."""
    program = (P4SRC / "tiercast.p4").read_text()
    _, rest = program[program.rindex("#include") :].split("\n", 1)
    includes = ["<core.p4>", *(f'"lib/{file.name}"' for file in LIB)]
    of_v1model = sorted((P4SRC / "v1model").glob("*.p4"))
    includes += ["<v1model.p4>", *(f'"v1model/{file.name}"' for file in of_v1model)]
    includes += ['"include/parser.p4"']
    reordered = tmp_path / "reordered.p4"
    lines = "".join(f"#include {name}\n" for name in includes)
    reordered.write_text(f"{lines}{rest}")
    if compiler := shutil.which("p4c-bm2-ss"):
        command = [compiler, "--std", "p4-16", "--Werror", "-I", str(P4SRC), str(reordered)]
        done = subprocess.run(
            [*command, "-o", str(tmp_path / "reordered.json")], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
