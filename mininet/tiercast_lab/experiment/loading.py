"""Reads an experiment: its base, what it includes, its settings; checks.py checks what they say.

That is before anything starts. Every error is an InputError that names file, line,
key path, the value seen and the valid choices.
"""

from __future__ import annotations

import contextlib
import gc
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeGuard

from tiercast_controller.bounded_yaml import kind_of_file, shown

from tiercast_lab.base import binaries, units
from tiercast_lab.base.errors import InputError, among
from tiercast_lab.experiment.checks import check, wrong_parameter
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.experiment.model import validate
from tiercast_lab.experiment.schema import Experiment
from tiercast_lab.experiment.schemes import SchemeInfo
from tiercast_lab.experiment.yaml_source import KeyPath, Source, load_yaml, merge, read_value


def load_experiment(
    file: Path,
    schemes: dict[str, SchemeInfo],
    settings: list[str] | None = None,
    duration: str | None = None,
    places: Mapping[str, str] | None = None,
) -> LoadedExperiment:
    """Raises InputError.

    `settings`: `key.path=value` over the file, or `sim.delta=0.9`, a parameter of a scheme;
    `places`: where the setting of a key stands, for errors, if not on the command line.
    """
    source = read_experiment(file)
    return experiment_of(source, file, schemes, settings, duration, places)


def read_experiment(file: Path) -> Source:
    """With its base and what it includes. Raises InputError."""
    source = _with_include(load_extending(file, "base", binaries.BASES), file)
    if "axes" in source.data:
        raise source.error(("axes",), f"it is a sweep; valid: tiercast sweep {file}")
    if {"format", "command", "verdict"} <= source.data.keys():
        raise source.error(
            (), f"it is what a run left; valid: tiercast report {file.parent}, or its experiment"
        )
    return source


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """A network may have a million objects, none of them garbage: to look for it among them takes
    longer than to make them."""
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
    """As load_experiment, of what was read; the settings change `source`."""
    for setting in settings or ():
        _apply(source, setting, schemes, places or {})
    if duration is not None:
        source.set(("duration",), duration, f"--duration {_short(duration)}")
    source.data.setdefault("name", _name_of(file))
    source.data.setdefault("title", source.data["name"])
    experiment = validate(Experiment, source)
    note = "" if duration is None else _fit_window(source, experiment)
    if note:
        experiment = validate(Experiment, source)
    return replace(check(source, experiment, schemes, str(file)), notes=(note,) if note else ())


def _fit_window(source: Source, experiment: Experiment) -> str:
    """A window that --duration has no room for becomes the default; what is to be said of it."""
    measure, end = experiment.measure, experiment.duration
    if measure.until is not None or measure.last is None or measure.last <= end:
        return ""
    last = units.format_duration(measure.last)
    source.set(("measure", "last"), None, source.place(("duration",)))
    return f"measure.last, {last}, is longer than the run; measured over its last two thirds"


def load_extending(file: Path, what: str, folder: Path) -> Source:
    """`extends: NAME` puts the file on top of NAME.yaml of the folder, or of one of that name
    beside the file: mappings are merged key by key. `what`: a file there, for errors."""
    source = load_yaml(file)
    if "extends" not in source.data:
        return source
    path = _named(source, ("extends",), what, source.data.pop("extends"), file, folder)
    base = load_yaml(path)
    if "extends" in base.data:
        raise base.error(("extends",), f"a {what} that a file extends has none itself; valid: none")
    # What the base says is beside it stays there.
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
    """A name, or a path relative to the file that says it, with or without .yaml."""
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
    # One's own beside the experiment, then those that tiercast brings.
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
    """Of an experiment whose file says none: the file's, as far as it is a name."""
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
            # One key, though there is a point in it.
            parameters = ("sessions", str(index), "parameters")
            if not isinstance(session.get("parameters"), dict):
                source.set(parameters, {}, place)
            session["parameters"][key] = value
            source.places[(*parameters, key)] = place


def without_effect(
    loaded: LoadedExperiment, settings: list[str], schemes: dict[str, SchemeInfo]
) -> list[str]:
    """What is to be said of settings of schemes that no session has: in the cells of a sweep they
    are meant to be left out, in a run alone they are rather a mistake."""
    present = sorted({session.scheme for session in loaded.experiment.sessions})
    named = {setting: setting.partition(".")[0] for setting in settings}
    return [
        f"--set {setting} changes nothing: no session is of {scheme}; there is {', '.join(present)}"
        for setting, scheme in named.items()
        if scheme in schemes and scheme not in present
    ]
