"""The lab's errors and their exit statuses.

0    every expected figure was met, or none was expected
1    the run is valid, but an expected figure was not met
2    bad input, or this machine lacks something that the run needs
3    the run is invalid: the machine could not keep up, or its rows do not add up
4    a process of the run ended too early
70   a bug in tiercast itself, with a stack trace (sysexits.h: EX_SOFTWARE)
130  interrupted (Ctrl-C, SIGTERM)
141  the reader of the output has gone (`| head`)
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from tiercast_controller.base.bounded_yaml import NO_CHARACTER, shown

EXIT_MET = 0
EXIT_NOT_MET = 1
EXIT_INPUT = 2
EXIT_INVALID = 3
EXIT_FAILED = 4
EXIT_UNCERTAIN = 5
EXIT_FAULT = 70
EXIT_INTERRUPTED = 130
EXIT_UNREAD = 141

# The exit status by verdict. For many figures, the first verdict here that any of them has counts.
EXIT_OF = {
    "failed": EXIT_FAILED,
    "invalid": EXIT_INVALID,
    "not met": EXIT_NOT_MET,
    "not met, uncertain": EXIT_NOT_MET,
    "met, uncertain": EXIT_UNCERTAIN,
    "met": EXIT_MET,
    "reported": EXIT_MET,
}


class LabError(Exception):
    """An error whose text is written for the person at the terminal."""

    exit_status = EXIT_FAILED


class InputError(LabError):
    """A file, an option or the machine is not as required."""

    exit_status = EXIT_INPUT


MOST_CHOICES = 40  # that an error message lists


def closest(seen: str, valid: Iterable[str], before: str = "") -> str:
    """` (did you mean '…'?)`, or an empty text if no valid choice resembles what was seen. `before`
    is shown before the choice, such as its folder."""
    choices = {one.lower(): one for one in valid}
    found = difflib.get_close_matches(seen[:100].lower(), list(choices)[:2000], 1)
    return f" (did you mean '{before}{choices[found[0]]}'?)" if found else ""


def listed(choices: Collection[object]) -> str:
    """The valid choices as an error message lists them. A very long list is cut in the middle."""
    texts = [str(one) for one in choices]
    if len(texts) > MOST_CHOICES:
        texts = [*texts[: MOST_CHOICES // 2], f"… {len(texts)} in all …", texts[-1]]
    return ", ".join(texts)


def among(seen: object, valid: Iterable[object], otherwise: str = "") -> str:
    """The part of an error message that rejects a name: the name, the valid ones and the closest,
    or `otherwise` if none is close."""
    choices = [str(one) for one in valid]
    return f"{shown(seen)}; valid: {listed(choices)}{closest(str(seen), choices) or otherwise}"


def require_characters(text: str, place: str = "") -> None:
    """Raises InputError if a command-line text is not valid UTF-8: summary.json could not hold
    it."""
    if found := NO_CHARACTER.search(text):
        raise InputError(f"{place or shown(text)}: {found[0]!r} is not a character; valid: UTF-8")


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turns an OSError (disk full, no permission) into an InputError that names the path."""
    try:
        yield
    except OSError as error:
        place = error.filename or folder
        raise InputError(
            f"{place}: {error.strerror or error}; valid: a writable folder with free space"
        ) from None


class RunFailed(LabError):
    """A process of the run ended too early or did not start."""

    exit_status = EXIT_FAILED


class RunInvalid(LabError):
    """The machine fell so far behind that the run cannot go on."""

    exit_status = EXIT_INVALID


class Interrupted(LabError):
    """The user or the system ended the run: Ctrl-C, SIGTERM or SIGHUP."""

    exit_status = EXIT_INTERRUPTED
