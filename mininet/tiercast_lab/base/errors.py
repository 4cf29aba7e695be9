"""What can go wrong, and the exit status that says so.

0    every expected figure was met, or none was expected
1    the run is valid and an expected figure was not met
2    bad input, or something the run needs is missing on this machine
3    the run is invalid: the machine could not keep up
4    a process of the run ended too early
70   a fault of tiercast itself, with its trace (sysexits.h: EX_SOFTWARE)
130  interrupted (Ctrl-C, SIGTERM)
141  nobody reads what is printed (`| head`)
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from tiercast_controller.bounded_yaml import NO_CHARACTER, shown

EXIT_MET = 0
EXIT_NOT_MET = 1
EXIT_INPUT = 2
EXIT_INVALID = 3
EXIT_FAILED = 4
EXIT_FAULT = 70
EXIT_INTERRUPTED = 130
EXIT_UNREAD = 141


class LabError(Exception):
    """An error whose text is meant for the person at the terminal."""

    exit_status = EXIT_FAILED


class InputError(LabError):
    """A file, an option or the machine is not what it has to be."""

    exit_status = EXIT_INPUT


MOST_CHOICES = 40  # that an error lists


def closest(seen: str, valid: Iterable[str]) -> str:
    """ " (did you mean '…'?)", or nothing where no choice is like what was seen."""
    choices = {one.lower(): one for one in valid}
    found = difflib.get_close_matches(seen[:100].lower(), list(choices)[:2000], 1)
    return f" (did you mean '{choices[found[0]]}'?)" if found else ""


def listed(choices: Collection[object]) -> str:
    """The valid choices as an error lists them: of very many the first and the last."""
    texts = [str(one) for one in choices]
    if len(texts) > MOST_CHOICES:
        texts = [*texts[: MOST_CHOICES // 2], f"… {len(texts)} in all …", texts[-1]]
    return ", ".join(texts)


def among(seen: object, valid: Iterable[object]) -> str:
    """What an error says of a name that is none of the valid ones."""
    choices = [str(one) for one in valid]
    return f"{shown(seen)}; valid: {listed(choices)}{closest(str(seen), choices)}"


def require_characters(text: str, place: str = "") -> None:
    """InputError for bytes of the command line that are no UTF-8: a summary could not hold them."""
    if found := NO_CHARACTER.search(text):
        raise InputError(f"{place or shown(text)}: {found[0]!r} is not a character; valid: UTF-8")


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """InputError, with the place, for what the disk refuses: it is full, or not ours to write."""
    try:
        yield
    except OSError as error:
        place = error.filename or folder
        raise InputError(
            f"{place}: {error.strerror or error}; valid: a folder that can be written, with room"
        ) from None


class RunFailed(LabError):
    """A process of the run ended too early, or did not come up."""

    exit_status = EXIT_FAILED


class RunInvalid(LabError):
    """The machine could not keep up, so far that the run cannot go on."""

    exit_status = EXIT_INVALID


class Interrupted(LabError):
    """Ctrl-C, SIGTERM or SIGHUP."""

    exit_status = EXIT_INTERRUPTED
