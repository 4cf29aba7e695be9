"""Reads an experiment with its base, its includes and its settings; checks/ then checks it.

This happens before anything starts. Every error is an InputError that names file, line, key path,
the value seen and the valid choices.
"""

from __future__ import annotations

import contextlib
import gc
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeGuard

from tiercast_controller.base import units
from tiercast_controller.base.bounded_yaml import kind_of_file, shown

from tiercast_lab.base import binaries
from tiercast_lab.base.errors import InputError, among
from tiercast_lab.experiment.checks import check
from tiercast_lab.experiment.checks.sessions import wrong_parameter
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.experiment.model import validate
from tiercast_lab.experiment.programs import expand_programs
from tiercast_lab.experiment.schema import Experiment
from tiercast_lab.experiment.schemes import SchemeInfo
from tiercast_lab.experiment.topology_sources import expand_topology
from tiercast_lab.experiment.yaml_source import KeyPath, Source, load_yaml, merge, read_value


def load_experiment(
    file: Path,
    schemes: dict[str, SchemeInfo],
    settings: list[str] | None = None,
    duration: str | None = None,
    places: Mapping[str, str] | None = None,
) -> LoadedExperiment:
    """Reads and checks an experiment. Raises InputError.

    `settings` change the file: each is `key.path=value`, or `sim.delta=0.9` for a parameter of a
    scheme. `places` gives the origin of a setting by its key, for error messages, if it is not the
    command line.
    """
    source = read_experiment(file)
    return experiment_of(source, file, schemes, settings, duration, places)


def read_experiment(file: Path) -> Source:
    """Reads the file with its base and what it includes. Raises InputError."""
    source = _with_include(load_extending(file, "base", binaries.BASES), file)
    if "axes" in source.data:
        raise source.error(("axes",), f"it is a sweep; valid: tiercast sweep {file}")
    if {"format", "command", "verdict"} <= source.data.keys():
        raise source.error(
            (),
            f"it is the summary of a run; valid: tiercast report {file.parent}, or its experiment",
        )
    return source


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """Turns the garbage collector off. A network may have a million objects, none of them garbage;
    searching them takes longer than making them."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@_without_collector()
def experiment_of(
    source: Source,
    file: Path,
    schemes: dict[str, SchemeInfo],
    settings: list[str] | None = None,
    duration: str | None = None,
    places: Mapping[str, str] | None = None,
) -> LoadedExperiment:
    """Does the same as load_experiment for a file that was already read. The settings change
    `source`."""
    for setting in settings or ():
        _apply(source, setting, schemes, places or {})
    if duration is not None:
        source.set(("duration",), duration, f"--duration {_short(duration)}")
    source = expand_topology(source, file)
    source, context = expand_programs(source, file)
    source.data.setdefault("name", _name_of(file))
    source.data.setdefault("title", source.data["name"])
    experiment = validate(Experiment, source, context)
    note = "" if duration is None else _fit_window(source, experiment)
    if note:
        experiment = validate(Experiment, source, context)
    loaded = check(source, experiment, schemes, str(file))
    return replace(loaded, notes=(note, *loaded.notes)) if note else loaded


@_without_collector()
def loaded_again(
    data: dict[str, Any], place: str, sources: Sequence[Path], schemes: dict[str, SchemeInfo]
) -> LoadedExperiment:
    """The experiment of a stored run: `data` is LoadedExperiment.data of then, which contains the
    base, the includes, the settings and the network. So no other file is read, and no code of the
    user's is called again; `sources` are copies of the files that were read then. `place` is named
    by an InputError."""
    source = Source(data, {(): place}, tuple(sources))
    source, context = expand_programs(source, Path(place))
    source = replace(source, files=tuple(sources))
    return check(source, validate(Experiment, source, context), schemes, place)


def _fit_window(source: Source, experiment: Experiment) -> str:
    """If --duration leaves no room for the measured window, resets it to the default and returns a
    note that says so."""
    measure, end = experiment.measure, experiment.duration
    if measure.until is not None or measure.last is None or measure.last <= end:
        return ""
    last = units.format_duration(measure.last)
    source.set(("measure", "last"), None, source.place(("duration",)))
    return f"measure.last, {last}, is longer than the run; measured over its last two thirds"


def load_extending(file: Path, what: str, folder: Path) -> Source:
    """Reads a file. `extends: NAME` puts it on top of NAME.yaml from `folder`, or from the folder
    of that name beside the file; mappings are merged key by key. `what` names the kind of file in
    errors."""
    source = load_yaml(file)
    if "extends" not in source.data:
        return source
    path = _named(source, ("extends",), what, source.data.pop("extends"), file, folder)
    base = load_yaml(path)
    if "extends" in base.data:
        raise base.error(
            ("extends",), f"a {what} that a file extends cannot extend another; valid: none"
        )
    # A relative path in the base stays relative to the base.
    included = base.data.get("topology")
    wanted = included.get("include") if isinstance(included, dict) else None
    if isinstance(included, dict) and _is_path(wanted):
        included["include"] = str((path.parent / wanted).absolute())
    return merge(base, source)


def _is_path(wanted: object) -> TypeGuard[str]:
    return isinstance(wanted, str) and "/" in wanted


def _named(
    source: Source, path: KeyPath, what: str, wanted: object, file: Path, folder: Path
) -> Path:
    """Resolves a name, or a path relative to the file that contains it, with or without .yaml."""
    if not isinstance(wanted, str):
        raise source.error(path, f"{shown(wanted)} is not a {what}; valid: a name, or a path")
    if _is_path(wanted):
        found = file.parent / wanted
        if not os.path.lexists(found) and os.path.lexists(f"{found}.yaml"):
            found = Path(f"{found}.yaml")
        if kind := kind_of_file(found):
            if kind != "a file":
                raise source.error(path, f"{shown(wanted)} is {kind}; valid: a file")
            return found
        raise source.error(path, f"no file {shown(wanted)}; valid: a path from {file.parent}/")
    # The user's own folder beside the experiment comes first, then the one that tiercast provides.
    folders = (folder, file.parent / folder.name)
    known = {found.stem: found for place in folders for found in place.glob("*.yaml")}
    if wanted not in known:
        known |= {f"a path, such as ../{what}": Path()}
        raise source.error(path, f"no {what} {among(wanted, sorted(known))}")
    return known[wanted]


def _with_include(source: Source, file: Path) -> Source:
    topology = source.data.get("topology")
    if not isinstance(topology, dict) or "include" not in topology:
        return source
    wanted = topology.pop("include")
    path = ("topology", "include")
    included = _named(source, path, "topology", wanted, file, binaries.TOPOLOGIES)
    return merge(load_yaml(included), source, ("topology",))


def _name_of(file: Path) -> str:
    """A name for an experiment whose file gives none: the file's name, as far as it is valid."""
    return re.sub("[^a-z0-9]+", "-", file.stem.lower()).strip("-")[:64] or "experiment"


def _short(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:80]}…{text[-20:]}"


def _apply(
    source: Source, setting: str, schemes: dict[str, SchemeInfo], places: Mapping[str, str]
) -> None:
    key, equals, text = setting.partition("=")
    place = places.get(key, f"--set {_short(setting)}")
    if not equals or not key:
        raise InputError(f"{place}: not of the form key=value")
    value = read_value(text, place)
    scheme = schemes.get(key.split(".")[0])
    if scheme is None:
        source.set(tuple(key.split(".")), value, place)
        return
    if wrong := wrong_parameter(key, value, scheme):
        raise InputError(f"{place}: {key}: {wrong}")
    sessions = source.data.get("sessions")
    for index, session in enumerate(sessions if isinstance(sessions, list) else ()):
        if isinstance(session, dict) and session.get("scheme") == scheme.name:
            # The parameter's name contains a dot but is a single key.
            parameters = ("sessions", str(index), "parameters")
            if not isinstance(session.get("parameters"), dict):
                source.set(parameters, {}, place)
            session["parameters"][key] = value
            source.places[(*parameters, key)] = place


def without_effect(
    loaded: LoadedExperiment, settings: list[str], schemes: dict[str, SchemeInfo]
) -> list[str]:
    """Notes about settings of schemes that no session uses. In a sweep's cells such settings are
    expected to have no effect; in a single run they are probably a mistake."""
    present = sorted({session.scheme for session in loaded.experiment.sessions})
    named = {setting: setting.partition(".")[0] for setting in settings}
    return [
        f"--set {setting} changes nothing: no session is of {scheme}; there is {', '.join(present)}"
        for setting, scheme in named.items()
        if scheme in schemes and scheme not in present
    ]
