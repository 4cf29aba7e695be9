"""The interface that each runtime implements: what a run is given, and what it leaves behind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tiercast_lab.base.interrupt import Interrupt
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.results.recorder import Recorder
from tiercast_lab.results.storage import RunFolder
from tiercast_lab.run.captures import Captures
from tiercast_lab.run.progress import Progress, View


@dataclass(kw_only=True)
class Run(ABC):
    loaded: LoadedExperiment
    folder: RunFolder  # created before `execute`
    seed: int
    view: View
    progress: Progress
    recorder: Recorder  # opened before `execute`
    captures: Captures
    metadata: dict[str, Any] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)  # problems that the user should know about

    @property
    def logs(self) -> Path:
        return self.folder.path / "logs"

    @property
    def programs_of_switches(self) -> list[Path]:
        """The files of the switches' P4 programs."""
        files = {path: None for one in self.loaded.programs.values() for path in one.all}
        return list(files)

    @abstractmethod
    def check(self) -> None:
        """Raises InputError if the experiment cannot run on this machine. Creates nothing yet."""

    @property
    @abstractmethod
    def files(self) -> list[Path]:
        """The files that the run executes: the programs and the switches' P4 program."""

    @abstractmethod
    def execute(self, interrupt: Interrupt) -> None:
        """Executes the run. Raises Interrupted, RunFailed or InputError. Whether or not it raises,
        nothing that it made remains except the contents of the run's folder."""

    def lived(self) -> LoadedExperiment | None:
        """The experiment as it was, once the run has ended; None if there was none."""
        return self.loaded

    def hidden_queues(self) -> list[str]:
        """The queues that the kernel keeps behind the emulated ones: their interfaces and kinds."""
        return []

    def enter(self, phase: str) -> None:
        self.progress.phase = phase
        self.view.update(self.progress)

    def take(self, kind: str, time_s: float, agent: str, fields: Mapping[str, float | str]) -> None:
        """Records one row and shows it."""
        self.recorder.add(kind, time_s, agent, fields)
        self.progress.take(kind, time_s, agent, fields)
