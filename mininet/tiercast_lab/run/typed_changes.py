"""An experiment that is written down while it goes on: the file that a lab was started with, and
what was typed since then as timed events, members, and starts and stops of sessions.

Each change is checked as a part of the experiment before it is made, so what is stored at the end
can be run again."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from tiercast_controller.base import units

from tiercast_lab.base.errors import InputError, among
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.experiment.schema import LinkEvent
from tiercast_lab.experiment.yaml_source import Source

# What has no meaning where nobody knew what would be typed.
DROPPED = ("expect", "figure", "measure")
DROPPED_IF_IDLE = ("traffic", "events", "members", "churn")
TICK_NS = 10**6  # times of typed changes are whole milliseconds

Data = dict[str, Any]
Load = Callable[[Source], LoadedExperiment]


def lab_data(data: Data, longest_ns: int, idle: bool) -> Data:
    """An experiment's data for a lab that ends after `longest_ns` at the latest. In an idle one
    only the network and the sessions are the file's."""
    dropped = {*DROPPED, *(DROPPED_IF_IDLE if idle else ())}
    result = {key: copy.deepcopy(value) for key, value in data.items() if key not in dropped}
    result["duration"] = _text(longest_ns)
    if idle:
        for session in result["sessions"]:
            for key in ("start", "stop"):
                session.pop(key, None)
    if result.get("traffic"):
        # At the end, those that have not begun are dropped, and the others keep their names.
        result["traffic"] = sorted(result["traffic"], key=_start)
    return result


class TypedChanges:
    """`loaded` is of the data that lab_data returns. Times are ns since the start of the run."""

    def __init__(self, loaded: LoadedExperiment, load: Load, idle: bool) -> None:
        self._file = loaded.file
        self._load = load
        self._data = copy.deepcopy(loaded.data)
        self._numbers = [one.session for one in loaded.experiment.sessions]
        # By session: an idle one has not been started.
        self.idle = set(self._numbers) if idle else set()
        self._last = 0

    # -------------------------------------------------------------------- before a change is made

    def change_link(self, at: int, keys: Data, typed: str) -> LinkEvent:
        """`keys` are those of an entry of `events`, without the time. Raises InputError."""
        data = copy.deepcopy(self._data)
        entries = _list_in(data, "events")
        entries.append({"at": _text(at), **keys})
        place = ("events", str(len(entries) - 1))
        loaded = self._checked(data, place, typed)
        self._accept(data, at)
        return loaded.experiment.events[-1].change(at, 0)

    def change_member(self, at: int, session: int, node: int, joins: bool, typed: str) -> None:
        """Raises InputError."""
        data = copy.deepcopy(self._data)
        entries = _list_in(data, "members")
        action = "join" if joins else "leave"
        entries.append({"session": session, "at": _text(at), "receivers": [node], "action": action})
        self._checked(data, ("members", str(len(entries) - 1)), typed)
        self._accept(data, at)

    def start(self, at: int, number: int, typed: str) -> list[int]:
        """Returns the sessions that start: those of one entry. Raises InputError."""
        first = self._numbers[0]
        together = self.together(number)
        if first in self.idle and first not in together:
            raise InputError(
                f"{typed}: session {first} is the experiment's first, by which its agents are "
                f"named; valid: start {first}, before others"
            )
        data = copy.deepcopy(self._data)
        index = self._entry_of(number)
        data["sessions"][index]["start"] = _text(at)
        self._checked(data, ("sessions", str(index)), typed)
        self._accept(data, at)
        self.idle -= set(together)
        return together

    def stop(self, at: int, number: int, typed: str) -> list[int]:
        """Returns the sessions that stop: those of one entry. Raises InputError."""
        data = copy.deepcopy(self._data)
        index = self._entry_of(number)
        data["sessions"][index]["stop"] = _text(at)
        # Whoever would have come or gone later has left with the session.
        together = self.together(number)
        for key in ("members", "churn"):
            data[key] = [
                entry
                for entry in data.get(key) or ()
                if self._session_of(entry) not in together or _begin(entry) < at
            ]
        data["churn"] = [
            entry | {"arrivals": _ending(entry["arrivals"], "stop", at)}
            if self._session_of(entry) in together
            else entry
            for entry in data["churn"]
        ]
        self._checked(data, ("sessions", str(index)), typed)
        self._accept(data, at)
        return together

    def together(self, number: int) -> list[int]:
        """The sessions of the entry that a session is of. Raises InputError if there is none."""
        if number not in self._numbers:
            raise InputError(f"no session {among(number, self._numbers)}")
        mine = self._entry_of(number)
        return [one for one in self._numbers if self._entry_of(one) == mine]

    # ------------------------------------------------------------------------------------- the end

    def end_at(self, now: int) -> int:
        """The end of a lab that is left now: after every change."""
        return max(_up(now), self._last + TICK_NS)

    def until(self, end: int) -> LoadedExperiment | None:
        """The experiment as it was until `end`; None if no session was started. Raises InputError
        if the first had not, by which the rows name agents."""
        data = copy.deepcopy(self._data)
        sessions = data["sessions"]
        there = {
            number
            for number in self._numbers
            if number not in self.idle and _start(sessions[self._entry_of(number)]) < end
        }
        if not there:
            return None
        if (first := self._numbers[0]) not in there:
            raise InputError(
                f"{self._file}: session {first}, the experiment's first, by which its agents are "
                f"named, had not started at the end of the lab ({_text(end)}), so nothing is "
                f"judged; valid: a lab that is left after {sessions[0]['start']}"
            )
        entries = {self._entry_of(number) for number in there}
        data["sessions"] = [_ending(sessions[index], "stop", end) for index in sorted(entries)]
        data["traffic"] = [
            _ending(entry, "stop", end) for entry in data.get("traffic", ()) if _start(entry) < end
        ]
        for key in ("events", "members", "churn"):
            data[key] = [
                entry
                for entry in data.get(key) or ()
                if _begin(entry) < end and (key == "events" or self._session_of(entry) in there)
            ]
        data["churn"] = [
            entry | {"arrivals": _ending(entry["arrivals"], "stop", end)} for entry in data["churn"]
        ]
        for key in DROPPED_IF_IDLE:
            if not data[key]:
                del data[key]
        data["duration"] = _text(end)
        return self._load(Source(data, {(): self._file}))

    # ------------------------------------------------------------------------------------ internals

    def _entry_of(self, number: int) -> int:
        """The index of the entry of `sessions` that a session is of. An entry with several senders
        stands for as many sessions, numbered upwards."""
        firsts = [entry.get("session", 1) for entry in self._data["sessions"]]
        return max(range(len(firsts)), key=lambda i: (firsts[i] <= number, firsts[i]))

    def _session_of(self, entry: Data) -> int:
        """Of an entry of `members` or `churn`."""
        number = entry.get("session")
        return self._numbers[0] if number is None else number

    def _checked(self, data: Data, place: tuple[str, ...], typed: str) -> LoadedExperiment:
        source = Source(copy.deepcopy(data), {(): self._file, place: typed})
        return self._load(source)

    def _accept(self, data: Data, at: int) -> None:
        self._data = data
        self._last = max(self._last, at)


def write_experiment(loaded: LoadedExperiment, path: Path, comment: str) -> None:
    text = yaml.safe_dump(loaded.data, sort_keys=False, allow_unicode=True, width=100)
    path.write_text(f"# {comment}\n{text}")


def _list_in(data: Data, key: str) -> list[Data]:
    if not data.get(key):
        data[key] = []
    entries: list[Data] = data[key]
    return entries


def _ending(entry: Data, key: str, end: int) -> Data:
    """The entry, without an end that is later than the run's."""
    return {k: v for k, v in entry.items() if k != key or not _later(v, end)}


def _later(text: str | None, end: int) -> bool:
    return text is not None and _time(text) > end


def _start(entry: Data) -> int:
    return _time(entry.get("start", "0s"))


def _begin(entry: Data) -> int:
    """Of an entry of `events`, `members` or `churn`."""
    return _start(entry["arrivals"]) if "arrivals" in entry else _time(entry["at"])


def _time(text: str) -> int:
    return units.parse_duration(text)


def _text(time_ns: int) -> str:
    return units.format_duration(time_ns) if time_ns else "0s"


def _up(time_ns: int) -> int:
    return -(-time_ns // TICK_NS) * TICK_NS
