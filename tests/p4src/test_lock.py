"""compiled/ holds what the sources compile to, as LOCK says."""

import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from ..checkout import ROOT

pytestmark = pytest.mark.slow

P4SRC = ROOT / "p4src"


def load_compile() -> ModuleType:
    spec = importlib.util.spec_from_file_location("p4src_compile", P4SRC / "compile.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


compile_p4 = load_compile()


def copy_of_p4src(tmp_path: Path) -> Path:
    return shutil.copytree(P4SRC, tmp_path / "p4src", ignore=shutil.ignore_patterns("__pycache__"))


def stale_files(p4src: Path) -> list[str]:
    """The paths whose content, presence or absence differs from LOCK."""
    _, locked = compile_p4.read_lock(p4src)
    present = {*compile_p4.sources(p4src), *compile_p4.OUTPUTS}
    now = {name: compile_p4.sha256(p4src / name) for name in present if (p4src / name).exists()}
    return sorted(name for name in now.keys() | locked.keys() if now.get(name) != locked.get(name))


def test_outputs_are_those_of_the_sources() -> None:
    stale = stale_files(P4SRC)
    assert not stale, f"stale: {', '.join(stale)}; run `make p4` where p4c is installed"


@pytest.mark.parametrize("name", ["lib/marking.p4", "compiled/tiercast.json"])
def test_a_changed_file_is_stale(tmp_path: Path, name: str) -> None:
    p4src = copy_of_p4src(tmp_path)
    with (p4src / name).open("a") as file:
        file.write("\n")
    assert stale_files(p4src) == [name]


def test_a_new_or_missing_source_is_stale(tmp_path: Path) -> None:
    p4src = copy_of_p4src(tmp_path)
    (p4src / "lib" / "new.p4").write_text("// nothing\n")
    (p4src / "lib" / "igmp.p4").unlink()
    assert stale_files(p4src) == ["lib/igmp.p4", "lib/new.p4"]


def test_outputs_name_no_place_on_the_compiling_machine() -> None:
    for name in compile_p4.OUTPUTS:
        text = (P4SRC / name).read_text()
        assert '"filename" : "/' not in text
        assert str(P4SRC) not in text


@pytest.mark.parametrize("there", [[], ["p4c-bm2-ss"]])
def test_missing_compilers_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, there: list[str]
) -> None:
    for name in there:
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = ", ".join(["p4c-bm2-ss", "p4c-bm2-psa"][len(there) :])
    with pytest.raises(compile_p4.CompileError, match=rf"not in PATH: {missing}\. .*1\.2\.5"):
        compile_p4.compiler_version()


def test_compiling_again_gives_the_same_bytes(tmp_path: Path) -> None:
    """With another version of p4c, or without p4c, only the hashes above can be tested."""
    locked_version, _ = compile_p4.read_lock(P4SRC)
    try:
        same_compiler = compile_p4.compiler_version() == locked_version
    except compile_p4.CompileError:
        same_compiler = False
    if same_compiler:
        compile_p4.compile_into(tmp_path)
        for name in compile_p4.OUTPUTS:
            assert (tmp_path / name).read_bytes() == (P4SRC / name).read_bytes(), name
