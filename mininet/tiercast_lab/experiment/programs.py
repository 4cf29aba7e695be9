"""The P4 programs that an experiment names: finds their files, compiles P4, and reads manifests
(docs/your-own-program.md)."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from tiercast_controller.base.bounded_yaml import kind_of_file, shown
from tiercast_controller.base.errors import ConfigurationError
from tiercast_controller.network.marking import OF_PROGRAMS, Marking
from tiercast_controller.network.marking.of_program import kinds_of, merged
from tiercast_controller.p4runtime.manifest import SUFFIX
from tiercast_controller.p4runtime.program import Program
from tiercast_controller.p4runtime.roles import Roles

from tiercast_lab.base import binaries
from tiercast_lab.base.errors import InputError
from tiercast_lab.experiment.yaml_source import KeyPath, Source

COMPILERS = {"V1Switch": "p4c-bm2-ss", "PSA_Switch": "p4c-bm2-psa"}  # by the main package
V1MODEL = COMPILERS["V1Switch"]
INFO_SUFFIXES = (".p4info.txtpb", ".p4info.txt")
COMPILE_S = 300
DOC = "docs/your-own-program.md"
# Kept for each program: what p4c made of it.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tiercast/p4"


@dataclass(frozen=True)
class Files:
    """The files of a program: p4c's output, its manifest, and what it was compiled from."""

    json: Path
    p4info: Path
    manifest: Path | None = None
    sources: tuple[Path, ...] = ()
    compiler: str | None = None  # of a program compiled here

    @property
    def all(self) -> list[Path]:
        manifest = [] if self.manifest is None else [self.manifest]
        return [self.json, self.p4info, *manifest, *self.sources]

    @property
    def digest(self) -> str:
        """Of what a run depends on."""
        parts = [self.json, self.p4info, *([self.manifest] if self.manifest else [])]
        digests = "".join(hashlib.sha256(part.read_bytes()).hexdigest() for part in parts)
        return hashlib.sha256(digests.encode()).hexdigest()

    @property
    def data(self) -> dict[str, Any]:
        """As it stands in the experiment of a run."""
        found: dict[str, Any] = {"json": str(self.json), "p4info": str(self.p4info)}
        if self.manifest is not None:
            found["manifest"] = str(self.manifest)
        if self.sources:
            found["sources"] = [str(path) for path in self.sources]
        if self.compiler is not None:
            found["compiler"] = self.compiler
        return found | {"digest": self.digest}

    @property
    def name(self) -> str:
        """In messages: of the file that the user knows."""
        return str(self.sources[0] if self.compiler and self.sources else self.json)

    def load(self) -> Program:
        """Raises ConfigurationError."""
        return _loaded(self.json, self.p4info, self.manifest, self.name, self.digest)


@cache
def _loaded(json: Path, p4info: Path, manifest: Path | None, name: str, _digest: str) -> Program:
    return Program.load(json, p4info, manifest, name)


def own() -> Files:
    """Our own program."""
    return Files(binaries.P4_JSON, binaries.P4_INFO)


def places_of(data: dict[str, Any]) -> Iterator[KeyPath]:
    """The key paths at which an experiment's data name a program."""
    if "program" in data:
        yield ("program",)
    topology = data.get("topology")
    switches = topology.get("switches") if isinstance(topology, dict) else None
    for node, one in switches.items() if isinstance(switches, dict) else ():
        if isinstance(one, dict) and "program" in one:
            yield ("topology", "switches", str(node), "program")


def expand_programs(source: Source, file: Path) -> tuple[Source, dict[str, Any]]:
    """Replaces each program's name by its files, which are compiled if need be. Returns the source
    and the context for its validation: the kinds of marking that the manifests declare. Raises
    InputError."""
    found: list[Files] = []
    for path in places_of(source.data):
        holder: Any = source.data
        for key in path[:-1]:
            holder = holder[key]
        if holder[path[-1]] is None:
            continue
        files = _find(source, path, holder[path[-1]], file)
        holder[path[-1]] = files.data
        found.append(files)
    kinds = []
    for files in dict.fromkeys(found):
        try:
            program = files.load()
            Roles(program)
            kinds.append((program.described, kinds_of(program.described)))
        except ConfigurationError as error:
            raise InputError(str(error)) from None
    try:
        declared: dict[str, type[Marking]] = merged(kinds)
    except ConfigurationError as error:
        raise InputError(str(error)) from None
    files_read = [path.resolve() for files in found for path in files.all]
    read = tuple(dict.fromkeys((*source.files, *files_read)))
    return replace(source, files=read), {OF_PROGRAMS: declared}


def named(program: Path, option: str) -> tuple[Files, dict[str, type[Marking]]]:
    """The files of a program that an option names, and the kinds of marking that its manifest
    declares. Raises InputError."""
    source = Source({"program": str(program.absolute())}, {(): option})
    source, context = expand_programs(source, Path())
    return _listed(source, ("program",), source.data["program"], Path()), context[OF_PROGRAMS]


def _find(source: Source, path: KeyPath, named: object, file: Path) -> Files:
    if isinstance(named, dict):
        return _listed(source, path, named, file)
    program = _file(source, path, named, file)
    manifest = program.with_name(program.stem + SUFFIX)
    found = manifest if manifest.is_file() else None
    if program.suffix == ".p4":
        return _checked(source, path, compiled(program, found))
    if program.suffix != ".json":
        raise source.error(path, f"{shown(named)}; valid: a .p4 or a .json file")
    info = _info_beside(source, path, program)
    return _checked(source, path, Files(program, info, found))


def _listed(source: Source, path: KeyPath, named: dict[str, Any], file: Path) -> Files:
    """A mapping of a program's files."""
    valid = ("p4", "json", "p4info", "manifest", "sources", "compiler", "digest")
    for key in named:
        if key not in valid:
            raise source.error((*path, key), f"unknown key; valid: {', '.join(valid[:4])}")
    if ("p4" in named) == ("json" in named):
        raise source.error(path, "valid: p4, or json with its p4info; and manifest")
    manifest = None
    if named.get("manifest") is not None:
        manifest = _file(source, (*path, "manifest"), named["manifest"], file)
    if "p4" in named:
        program = _file(source, (*path, "p4"), named["p4"], file)
        beside = program.with_name(program.stem + SUFFIX)
        found = manifest or (beside if beside.is_file() else None)
        return _checked(source, path, compiled(program, found))
    json = _file(source, (*path, "json"), named["json"], file)
    if "p4info" in named:
        info = _file(source, (*path, "p4info"), named["p4info"], file)
    else:
        info = _info_beside(source, path, json)
    if manifest is None and "digest" not in named:
        beside = json.with_name(json.stem + SUFFIX)
        manifest = beside if beside.is_file() else None
    given = named.get("sources", [])
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise source.error((*path, "sources"), f"{shown(given)}; valid: a list of paths")
    sources = tuple(Path(one) for one in given if kind_of_file(Path(one)) == "a file")
    files = Files(json, info, manifest, sources, named.get("compiler"))
    if named.get("digest", files.digest) != files.digest:
        raise source.error(path, f"{json}: not the program of the run, whose digest is "
                           f"{str(named['digest'])[:12]}")  # fmt: skip
    return _checked(source, path, files)


def _file(source: Source, path: KeyPath, named: object, file: Path) -> Path:
    """A path, relative to the file that contains it."""
    if not isinstance(named, str) or not named:
        raise source.error(path, f"{shown(named)}; valid: a .p4 or .json file, or {{json: FILE, "
                           "p4info: FILE, manifest: FILE}")  # fmt: skip
    holder = Path(source.place(path).rpartition(":")[0])
    folder = holder.parent if holder.is_file() else file.parent
    try:
        found = folder / Path(named).expanduser()
    except RuntimeError:
        user = named.partition("/")[0]
        raise source.error(
            path, f"{shown(named)}: no user's folder {user}; valid: a path from {folder}/"
        ) from None
    if (kind := kind_of_file(found)) != "a file":
        raise source.error(
            path, f"{shown(named)} is {kind or 'no file'}; valid: a path from {folder}/"
        )
    return found.resolve()


def _info_beside(source: Source, path: KeyPath, program: Path) -> Path:
    wanted = [program.with_name(program.stem + suffix) for suffix in INFO_SUFFIXES]
    for one in wanted:
        if one.is_file():
            return one
    raise source.error(
        path,
        f"no {wanted[0].name} beside {program.name}: p4c writes it with --p4runtime-files; valid: "
        "there, or {json: FILE, p4info: FILE}",
    )


def _checked(source: Source, path: KeyPath, files: Files) -> Files:
    """Raises InputError for a program that only a manifest could explain, and that has none."""
    if files.manifest is not None:
        return files
    try:
        program = files.load()
    except ConfigurationError as error:
        raise source.error(path, str(error)) from None
    reason = ""
    try:
        if Roles(program).has("unicast"):
            return files
    except ConfigurationError as error:
        reason = f" ({error})"
    named = files.sources[0] if files.sources else files.json
    raise source.error(
        path,
        f"{named.name} has not the tables of tiercast's own program{reason}, and no manifest "
        f"{named.stem}{SUFFIX} is beside it; valid: one that says what its tables are for ({DOC})",
    )


# ------------------------------------------------------------------------------------------- p4c


def compiler_version(compiler: str = V1MODEL) -> str | None:
    """Of p4c; None: it is not installed."""
    if shutil.which(compiler) is None:
        return None
    printed = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    for line in (printed.stdout + printed.stderr).splitlines():
        if line.startswith("Version"):
            return line.removeprefix("Version").strip()
    return "?"


def compiled(program: Path, manifest: Path | None) -> Files:
    """What p4c makes of a .p4 file. Kept by a hash of the preprocessed source, the compiler and its
    version. Raises InputError with p4c's errors."""
    compiler = COMPILERS[_main_package(program)]
    version = compiler_version(compiler)
    if version is None:
        raise InputError(
            f"{program}: {compiler} is not in PATH, and compiles it; valid: p4c 1.2.5 or newer in "
            f"PATH, or its output: program: {program.stem}.json, with {program.stem}"
            f"{INFO_SUFFIXES[0]} beside it"
        )
    # Its exit status says nothing here; if a file is missing, the compilation says so.
    text = _started([compiler, "--std", "p4-16", "-E", str(program)], program.parent).stdout
    key = hashlib.sha256(f"{compiler} {version}\n{program}\n{text}".encode()).hexdigest()[:32]
    folder = CACHE / key
    json, info = folder / f"{program.stem}.json", folder / f"{program.stem}{INFO_SUFFIXES[0]}"
    if not (json.is_file() and info.is_file()):
        try:
            CACHE.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
                out = [str(Path(scratch) / path.name) for path in (json, info)]
                _run(program, [compiler, "--std", "p4-16", "--p4runtime-files", out[1],
                               "-o", out[0], str(program)])  # fmt: skip
                folder.mkdir(exist_ok=True)
                for path in (info, json):
                    os.replace(Path(scratch) / path.name, path)
        except OSError as error:
            raise InputError(f"{CACHE}: {error.strerror}; XDG_CACHE_HOME names another") from None
    return Files(json, info, manifest, _sources(program, text), f"{compiler} {version}")


def _main_package(program: Path) -> str:
    """V1Switch or PSA_Switch."""
    text = program.read_text(errors="replace")
    named = re.search(r"^\s*(\w+)\s*(<[^;]*>)?\s*\([^;]*\)\s*main\s*;", text, re.MULTILINE)
    if named is None:
        raise InputError(
            f"{program}: no main package; valid: a line such as V1Switch(…) main; in this file"
        )
    if named[1] not in COMPILERS:
        raise InputError(f"{program}: main is a {named[1]}; valid: {', '.join(COMPILERS)}")
    return named[1]


def _sources(program: Path, preprocessed: str) -> tuple[Path, ...]:
    """The program's file, and those that it includes, but p4c's own."""
    named = re.findall(r'^# \d+ "([^"<]+)"', preprocessed, re.MULTILINE)
    own = {Path(name).resolve() for name in named if Path(name).is_file()}
    folder = program.parent
    mine = sorted(path for path in own if path.is_relative_to(folder) and path != program)
    return (program, *mine)


def _run(program: Path, command: list[str]) -> None:
    done = _started(command, program.parent)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise InputError(f"{program}: {command[0]} refused it:\n{said}")


def _started(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False,
            timeout=COMPILE_S, errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise InputError(f"{' '.join(command)}: no end after {COMPILE_S} s") from None
