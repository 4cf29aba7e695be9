"""What experiments/calibrated/numbers.yaml says of the numbers that were chosen here."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator
from tiercast_controller.base.strict import Strict

from tiercast_lab.experiment.figure_schema import Settings
from tiercast_lab.experiment.model import Line

Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{7,40}$")]


class Calibrated(Strict):
    """A number, a rule or a part of a set-up that was chosen here.

    `set` and `figures`: what it was before, or would be by the source named in `otherwise`, and the
    figures whose verdicts it may change; they can be run. `recorded` instead where it cannot be set
    any more, or the paper gives nothing to set: what the verdict was, and the commit that has it.
    """

    name: Line  # a parameter's, where it is one
    value: Line
    before: Line  # what it was here before
    otherwise: Line  # the paper's or PROTOCOLS' value, with its section; or that there is none
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
