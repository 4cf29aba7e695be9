"""The schema of experiments/calibrated/numbers.yaml: the numbers that this project chose itself."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator
from tiercast_controller.base.strict import Strict

from tiercast_lab.experiment.figure_schema import Settings
from tiercast_lab.experiment.model import Line

Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{7,40}$")]


class Calibrated(Strict):
    """A number, a rule or a part of a set-up that this project chose itself.

    `set` and `figures` give what it was before, or would be by the source named in `otherwise`, and
    the figures whose verdicts it may change; these can be run. `recorded` replaces them if the
    number can no longer be set, or the paper gives nothing to set: it has the verdict at the time,
    and the commit.
    """

    name: Line  # the parameter's name, if it is one
    value: Line
    before: Line  # the value used here before
    # The value of the paper or of PROTOCOLS, with the section; or that there is none
    otherwise: Line
    commit: Commit  # of the choice
    why: Line
    set: Settings = {}
    figures: list[Line] = []
    recorded: Line | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Calibrated:
        if bool(self.set) != bool(self.figures) or bool(self.set) == (self.recorded is not None):
            raise ValueError("valid: 'set' with 'figures', or 'recorded'")
        return self


class CalibratedNumbers(Strict):
    numbers: Annotated[list[Calibrated], Field(min_length=1)]

    @model_validator(mode="after")
    def _named_once(self) -> CalibratedNumbers:
        names = [one.name for one in self.numbers]
        if len(set(names)) < len(names):
            raise ValueError("a number is named twice in 'numbers'; valid: once")
        return self
