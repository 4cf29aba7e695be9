"""Runs a lab: the run in a thread of its own, the prompt in the main one, which gets the signals.

While there is a prompt, Ctrl-C cancels a line or a command in a node; SIGTERM and SIGHUP end the
lab as they end a run, and the end of the run, for whatever reason, ends the prompt (SIGUSR1)."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import FrameType

from rich.console import Console

from tiercast_lab.base import binaries
from tiercast_lab.base.errors import EXIT_MET
from tiercast_lab.base.interrupt import Interrupt
from tiercast_lab.cli.lab_console import LabConsole, Script
from tiercast_lab.cli.output import say
from tiercast_lab.cli.running import show_results
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.results.storage import load_run, writing
from tiercast_lab.run.execute import LIVED, ExecutedRun, Options, execute
from tiercast_lab.run.mininet.lab import Lab
from tiercast_lab.run.progress import Progress
from tiercast_lab.run.typed_changes import TypedChanges
from tiercast_lab.show.run_report import write_report

POLL_S = 0.1


class _PromptEnds(BaseException):
    """Ends whatever the prompt is doing."""


class _View:
    """Says what the run says, and shows no progress: the terminal is the prompt's."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, text: str) -> None:
        say(text, self._console)

    def update(self, progress: Progress) -> None:
        pass


class _Prompt:
    """Whether there is a prompt, which the run's thread may have to end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_there = False

    def end(self) -> None:
        with self._lock:
            if self._is_there:
                main = threading.main_thread().ident
                assert main is not None
                signal.pthread_kill(main, signal.SIGUSR1)

    def show(self, prompt: Callable[[], None], lab: Lab, interrupt: Interrupt) -> None:
        """Calls `prompt`, unless the run has ended; returns when it does, at the latest."""

        def leave(number: int, _frame: FrameType | None) -> None:
            if number != signal.SIGUSR1:
                interrupt.signal = signal.Signals(number)
            raise _PromptEnds

        numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, *numbers)}
        try:
            for number in numbers:
                signal.signal(number, leave)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            with self._lock:
                self._is_there = True
            if lab.running.is_set():
                prompt()
        except _PromptEnds:
            pass
        finally:
            with self._lock:
                self._is_there = False
            before[signal.SIGUSR1] = signal.SIG_IGN  # the run's may still come
            for number, handler in before.items():
                signal.signal(number, handler)


def run_lab(
    loaded: LoadedExperiment,
    typed: TypedChanges,
    options: Options,
    script: Path | None,
    console: Console,
) -> int:
    """Returns the exit status. Raises LabError; a script's first refused line only after the lab
    has ended as usual."""
    prompt = _Prompt()
    lab = Lab(typed, prompt.end)
    outcome: Future[ExecutedRun] = Future()
    refused: Script | None = None
    with Interrupt() as interrupt:

        def work() -> None:
            try:
                outcome.set_result(execute(loaded, options, _View(console), interrupt, lab))
            except BaseException as error:
                outcome.set_exception(error)

        run = threading.Thread(target=work, name="run")
        run.start()
        try:
            while not lab.running.wait(POLL_S) and run.is_alive():
                pass
            if run.is_alive():
                prompt.show(lambda: _use(LabConsole(lab, console), script), lab, interrupt)
        except Script as error:
            refused = error
        except KeyboardInterrupt:  # in a script
            interrupt.signal = signal.SIGINT
        finally:
            if interrupt.signal is None:
                lab.end()
            run.join()
        executed = outcome.result()
    status = _show(executed, console)
    if refused is not None:
        raise refused
    return status


def _use(console: LabConsole, script: Path | None) -> None:
    try:
        _read(console, script)
    finally:
        console.mn.stopXterms()


def _read(console: LabConsole, script: Path | None) -> None:
    if script is not None:
        with script.open() as lines:
            console.read(lines, str(script))
    elif sys.stdin.isatty():
        print("`help` lists what you can do; Ctrl-D ends the lab.")
        console.interact()
    else:
        console.read(sys.stdin, "standard input")


def _show(executed: ExecutedRun, console: Console) -> int:
    run = load_run(executed.folder)
    if not run.complete:
        return EXIT_MET
    with writing(executed.folder):
        report = write_report(run)
    status = show_results(run, report, console)
    again = binaries.from_here(executed.folder / LIVED)
    say(f"again: {binaries.COMMAND} run {again}", console)
    return status
