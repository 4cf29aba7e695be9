#!/usr/bin/env python3
"""Mutants of experiments/**.yaml, and settings, through the loaders that the command line uses.

    yaml_fuzz.py --mutants 100000 --seed 1 --jobs 2 --cpu-seconds 2 --keep build/fuzz/crashes

A mutant is a number: the same seed makes the same one, and `--only N` repeats it. It must load, or
be refused by an InputError that names its place. Anything else is a finding: another exception, a
signal, an error of more than 5,000 characters, or more CPU time of its own than --cpu-seconds. Of a
mutant that loads, what a run makes of it before it starts is made, too. Exit status 1 if something
was found.
"""

from __future__ import annotations

import argparse
import collections
import json
import multiprocessing
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
for part in ("controller", "mininet", "build/python"):
    sys.path.insert(0, str(ROOT / part))

from tiercast_lab.base import binaries  # noqa: E402
from tiercast_lab.base.errors import InputError  # noqa: E402
from tiercast_lab.experiment.loading import load_experiment  # noqa: E402
from tiercast_lab.experiment.schemes import known_schemes  # noqa: E402
from tiercast_lab.run.controller_input import Reach, described_sessions, described_topology  # noqa: E402
from tiercast_lab.run.network_summary import network_summary  # noqa: E402
from tiercast_lab.run.ns3.scenario import delimited, scenario  # noqa: E402
from tiercast_lab.study.figure_spec import find_figure  # noqa: E402
from tiercast_lab.study.sweep_spec import find_sweep  # noqa: E402

MOST_TEXT = 5000  # characters of an error
HANG_S = 60  # of CPU, after which the kernel ends the process
MEMORY = 4 << 30
SMALL = 2000  # links; smaller networks are described completely
TASKS = 3  # of a figure or a sweep

# What a person or an attacker might write where something else belongs.
WORDS = (
    *("", " ", "~", "null", "true", "yes", "off", "010", "0x1F", "1_000", "1:30", ".inf", ".nan"),
    *("0", "-1", "1", "2", "7", "8", "9", "255", "509", "65535", "65536", "262143", "262144"),
    *("2147483648", "4294967295", "4294967296", "18446744073709551616", "9" * 400),
    *("-0.0", "0.5", "1e-320", "1e308", "1e999", "15%", "-5%", "1000000%"),
    *("50p", "0p", "99999999999999p", "50p/30kB", "50p/50p", "0B", "9" * 40 + "B"),
    *("0bit/s", "1bit/s", "6Mbit/s", "1001Gbit/s", "0s", "1ns", "5ms", "100ms", "999999999min"),
    *("99999999999999999999s", "100000s", "840 in 2900s", "1 in 0s", "\u0663Mbit/s"),
    *("leaves", "receivers", "parents", "children", "auto", "all", "each"),
    *("priority", "red", "none", "tcp", "udp", "sim", "rla", "nosuch"),
    *("1-2", "2-1", "0-0", "1-", "999-1000", "L1", "L99", "../mine", "/dev/zero"),
    *("efficiency", "receiver_rate_h3", "cumulative_rate_1", "tcp_ratio@x"),
    *("/", ".", "..", "a/../../b", "1..200", "1..99999999", "'", '"', "&a", "*a", "!!set", "<<"),
    *("x" * 5000, "\u2603", "\\u0000", "2024-01-01", "{}", "[]", "[[]]", "{a: {}}"),
)
BYTES = (
    *("[", "]", "{", "}", ":", ": ", "- ", "? ", ", ", "#", "|", ">", "&a ", "*a", "!", "%", "@"),
    *("\n", "\n\n", "  ", "\t", "\r", "\0", "\x07", "\x85", "\ufeff", "\u2028", "---\n", "..."),
    *("[" * 100, "{a: " * 100, "- " * 100, "&a [*a]", "%YAML 1.1\n", '"\\x00"', "'", '"', "\ud800"),
)


@dataclass(frozen=True)
class Seed:
    """A file of the corpus, and how to read it."""

    path: Path
    kind: str  # "experiment", "figure", "sweep"
    # For a base or a topology: an experiment or figure that uses it.
    user: Path | None = None


def corpus() -> list[Seed]:
    folders = {"figures": "figure", "sweeps": "sweep"}
    seeds = []
    for path in sorted(binaries.EXPERIMENTS.rglob("*.yaml")):
        if path.parent.name not in ("bases", "topologies", "programs"):
            seeds.append(Seed(path, folders.get(path.parent.name, "experiment")))
    for key, folder in (("extends", binaries.BASES), ("include", binaries.TOPOLOGIES)):
        for path in sorted(folder.glob("*.yaml")):
            users = [one for one in seeds if f"{key}: {path.stem}\n" in one.path.read_text()]
            for user in users[:1]:
                seeds.append(Seed(path, user.kind, user.path))
    return seeds


class Mutator:
    def __init__(self, rng: random.Random, texts: list[str]) -> None:
        self._rng = rng
        self._texts = texts

    def text(self, text: str) -> str:
        """Applies several edits, either to the data, which is then written again, or to the
        characters."""
        if self._rng.random() < 0.6:
            data = yaml.safe_load(text)
            for _ in range(self._rng.choice((1, 1, 1, 1, 1, 2, 3, 8))):
                data = self._data(data)
            if self._rng.random() < 0.3:
                return json.dumps(data, default=str, ensure_ascii=False)
            return yaml.dump(data, Dumper=_Plain, sort_keys=False, allow_unicode=True)
        for _ in range(self._rng.choice((1, 1, 2, 4, 16))):
            text = self._characters(text)
        return text

    def setting(self, text: str) -> str:
        """A text as for --set: a key of the experiment, or nearly one, and a value."""
        keys = [".".join(map(str, path)) for path in _paths(yaml.safe_load(text)) if path]
        keys += [
            "duration",
            "measure.last",
            "sim.delta",
            "rla.max_window",
            "foo.bar",
            "traffic.0.to",
        ]
        key = self._rng.choice(keys)
        if self._rng.random() < 0.1:
            key = self._characters(key)
        return f"{key}={self._word()}"

    def _word(self) -> str:
        return self._rng.choice(WORDS)

    def _value(self) -> Any:
        word = self._word()
        try:
            return yaml.safe_load(word) if self._rng.random() < 0.5 else word
        except (yaml.YAMLError, ValueError):
            return word

    def _data(self, data: Any) -> Any:
        paths = list(_paths(data))
        path = self._rng.choice(paths)
        kind = self._rng.randrange(10)
        if kind == 0 and path:
            return _changed(data, path, None, remove=True)
        here = _at(data, path)
        if kind == 1 and isinstance(here, dict):
            return _changed(data, path, here | {self._word()[:40] or "key": self._value()})
        if kind == 2 and isinstance(here, dict) and here:
            old = self._rng.choice(list(here))
            new = str(self._rng.choice([self._word()[:40], f"{old}s", str(old)[:-1], "set"]))
            return _changed(data, path, {new if k == old else k: v for k, v in here.items()})
        if kind == 3 and isinstance(here, list):
            return _changed(data, path, here * self._rng.choice((2, 2, 3, 50)))
        if kind == 4:
            return _changed(data, path, self._rng.choice(([here], {"a": here}, {"set": here})))
        if kind in (5, 6):  # from elsewhere in this file, or in another
            other = data if kind == 5 else yaml.safe_load(self._rng.choice(self._texts))
            return _changed(data, path, _at(other, self._rng.choice(list(_paths(other)))))
        if kind == 7 and isinstance(here, (int, float)) and not isinstance(here, bool):
            factors = (-1, 0, 10, 1000, 10**12, 0.1)
            return _changed(data, path, here * self._rng.choice(factors))
        return _changed(data, path, self._value())

    def _characters(self, text: str) -> str:
        at = self._rng.randrange(len(text) + 1)
        end = min(len(text), at + self._rng.choice((1, 1, 2, 10, 100)))
        kind = self._rng.randrange(6)
        if kind == 0:
            return text[:at] + text[end:]
        if kind == 1:
            return text[:at] + self._rng.choice(BYTES) + text[at:]
        if kind == 2:
            return text[:at] + self._word() + text[end:]
        if kind == 3:
            return text[:end] + text[at:end] * self._rng.choice((1, 1, 2, 200)) + text[end:]
        if kind == 4:
            other = self._rng.choice(self._texts)
            start = self._rng.randrange(len(other))
            return text[:at] + other[start : start + 100] + text[at:]
        return text[:at] + chr(self._rng.choice((*range(1, 256), 0x2603, 0xD800))) + text[at + 1 :]


class _Plain(yaml.SafeDumper):
    """Uses an alias now and then where a mutator repeats a value, and never raises an error."""

    def represent_undefined(self, data: Any) -> yaml.Node:
        return self.represent_str(str(data))


_Plain.add_multi_representer(object, _Plain.represent_undefined)


def _paths(data: Any, path: tuple[Any, ...] = ()) -> Any:
    yield path
    inner = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    )
    for key, value in inner:
        yield from _paths(value, (*path, key))


def _at(data: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        data = data[key]
    return data


def _changed(data: Any, path: tuple[Any, ...], value: Any, remove: bool = False) -> Any:
    """A copy of the data with one value changed or removed."""
    if not path:
        return value
    copy = dict(data) if isinstance(data, dict) else list(data)
    if remove and len(path) == 1:
        del copy[path[0]]
    else:
        copy[path[0]] = _changed(data[path[0]], path[1:], value, remove)
    return copy


class Fuzzer:
    """Makes and loads mutants in a folder of its own. Each process has one."""

    def __init__(self, seed: int, folder: Path) -> None:
        self._seed = seed
        self._folder = folder
        self._seeds = corpus()
        self._texts = [one.path.read_text() for one in self._seeds]
        self._schemes = known_schemes()

    def mutant(self, number: int) -> tuple[Path, Seed, list[str], str | None]:
        """Writes a mutant. Returns its file, its seed, and the settings and --duration to load it
        with."""
        rng = random.Random(f"{self._seed}/{number}")
        chosen = rng.randrange(len(self._seeds))
        seed, text = self._seeds[chosen], self._texts[chosen]
        mutator = Mutator(rng, self._texts)
        settings, duration = [], None
        if seed.kind == "experiment" and rng.random() < 0.3:
            settings = [mutator.setting(text) for _ in range(rng.choice((1, 1, 2, 4)))]
            duration = rng.choice((None, None, None, *WORDS))
        else:
            text = mutator.text(text)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        if seed.user is None:
            path = self._folder / seed.path.name
        else:
            path = self._folder / seed.user.name
            shutil.copyfile(seed.user, path)
        own = path if seed.user is None else self._folder / seed.path.parent.name / seed.path.name
        own.parent.mkdir(exist_ok=True)
        own.write_bytes(text.encode(errors="surrogatepass"))
        return path, seed, settings, duration

    def load(self, path: Path, seed: Seed, settings: list[str], duration: str | None) -> str:
        """Returns `loaded`, or the error that refused the mutant."""
        try:
            if seed.kind == "experiment":
                self._describe(load_experiment(path, self._schemes, settings, duration))
            else:
                find = find_figure if seed.kind == "figure" else find_sweep
                tasks = find(str(path), self._schemes).tasks(quick=False)
                for task in random.Random(0).sample(tasks, min(TASKS, len(tasks))):
                    self._describe(task.load(self._schemes))
        except InputError as error:
            return str(error)
        return "loaded"

    @staticmethod
    def _describe(loaded: Any) -> None:
        """Does what a run does with an experiment before it starts."""
        if len(loaded.topology.links) <= SMALL:
            described_topology(loaded, lambda one: Reach("", one.device_id))
            described_sessions(loaded)
            json.dumps(network_summary(loaded))
            delimited(scenario(loaded, 1))
            json.dumps(loaded.data)


def judge(fuzzer: Fuzzer, number: int, cpu_s: float) -> tuple[str, str]:
    """ "loaded", "refused" or "found", and a text about it."""
    path, *rest = fuzzer.mutant(number)
    signal.setitimer(signal.ITIMER_PROF, HANG_S)
    began = time.process_time()
    try:
        said = fuzzer.load(path, *rest)
    except Exception:
        return "found", traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    took = time.process_time() - began
    if cpu_s and took > cpu_s:
        return "found", f"{took:.1f} s of CPU time; {said[:300]}"
    if said == "loaded":
        return "loaded", f"{took:.3f}"
    # Every error names its place: a file, an option, or the program that was given the input.
    if len(said) > MOST_TEXT or not said.startswith(
        (str(path.parent), "--", str(binaries.EXPERIMENTS))
    ):
        return "found", f"an error without its place, or of {len(said)} characters: {said[:300]}"
    return "refused", f"{took:.3f}"


def work(connection: Connection, numbers: range, seed: int, cpu_s: float, folder: Path) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    fuzzer = Fuzzer(seed, folder)
    for number in numbers:
        connection.send((number, "begun", ""))
        verdict, text = judge(fuzzer, number, cpu_s)
        connection.send((number, verdict, text))
        if verdict == "found":
            connection.recv()  # the mutant's files are kept
    connection.send(None)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--mutants", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--cpu-seconds", type=float, default=0, help="of one mutant; 0: as many as it takes"
    )
    parser.add_argument("--keep", type=Path, help="where mutants are kept that found something")
    parser.add_argument("--only", type=int, metavar="N", help="this mutant alone")
    options = parser.parse_args()
    numbers = (
        range(options.mutants) if options.only is None else range(options.only, options.only + 1)
    )
    with tempfile.TemporaryDirectory(prefix="yaml-fuzz-") as scratch:
        return run(options, numbers, Path(scratch))


def run(options: argparse.Namespace, numbers: range, scratch: Path) -> int:
    context = multiprocessing.get_context("fork")
    counts: collections.Counter[str] = collections.Counter()
    slowest, findings = 0.0, 0

    def start(job: int, rest: range) -> None:
        mine, its = context.Pipe()
        arguments = (its, rest, options.seed, options.cpu_seconds, scratch / str(job))
        process = context.Process(target=work, args=arguments, daemon=True)
        process.start()
        its.close()
        running[mine] = job, rest, process, None

    def found(number: int, job: int, text: str) -> None:
        nonlocal findings
        findings += 1
        print(f"FOUND mutant {number} of seed {options.seed}: {text.strip()}", flush=True)
        if options.keep is not None:
            kept = options.keep / f"yaml-{options.seed}-{number}"
            shutil.copytree(scratch / str(job), kept, dirs_exist_ok=True)
            print(f"  kept: {kept}", flush=True)

    running: dict[Connection, Any] = {}
    for job in range(options.jobs):
        start(job, numbers[job :: options.jobs])
    while running:
        for connection in wait(list(running)):
            job, rest, process, last = running[connection]
            try:
                message = connection.recv()
            except EOFError:  # a signal ended it; the rest is for another process
                del running[connection]
                process.join()
                if last is None:
                    sys.exit(f"yaml_fuzz: a worker could not begin: status {process.exitcode}")
                counts["found"] += 1
                found(last, job, f"ended by status {process.exitcode}")
                start(job, range(last + options.jobs, rest.stop, rest.step))
                continue
            if message is None:
                del running[connection]
                process.join()
                continue
            number, verdict, text = message
            running[connection] = job, rest, process, number
            if verdict == "begun":
                continue
            counts[verdict] += 1
            if verdict == "found":
                found(number, job, text)
                connection.send(None)
            else:
                slowest = max(slowest, float(text))
    print(
        f"{'FAIL' if findings else 'PASS'} yaml_fuzz: {counts.total()} mutants of seed "
        f"{options.seed}: {counts['loaded']} loaded, {counts['refused']} refused, {findings} "
        f"findings; the slowest took {slowest:.2f} s of CPU time"
    )
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
