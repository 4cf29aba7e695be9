"""An experiment while it is executed, whatever the runtime: what it is given, and what is left."""

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
from tiercast_lab.run.progress import Progress, View


@dataclass(kw_only=True)
class Run(ABC):
    loaded: LoadedExperiment
    folder: RunFolder  # made before `execute`
    seed: int
    view: View
    progress: Progress
    recorder: Recorder  # entered before `execute`
    metadata: dict[str, Any] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)  # what the user should know of

    @property
    def logs(self) -> Path:
        return self.folder.path / "logs"

    @abstractmethod
    def check(self) -> None:
        """InputError for what cannot be run here; nothing is made yet."""

    @property
    @abstractmethod
    def files(self) -> list[Path]:
        """What the run executes: programs, and the P4 program that the switches run."""

    @abstractmethod
    def execute(self, interrupt: Interrupt) -> None:
        """Raises Interrupted, RunFailed or InputError; all that was made is gone then, too, but
        what is in the run's folder."""

    def hidden_queues(self) -> list[str]:
        """Queues of the kernel behind the emulated ones: where, and of which kind."""
        return []

    def enter(self, phase: str) -> None:
        self.progress.phase = phase
        self.view.update(self.progress)

    def take(self, kind: str, time_s: float, agent: str, fields: Mapping[str, float | str]) -> None:
        """One row."""
        self.recorder.add(kind, time_s, agent, fields)
        self.progress.take(kind, time_s, agent, fields)
