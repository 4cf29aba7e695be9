"""The numbers that this project chose itself, and figures with their other values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tiercast_lab.base import binaries
from tiercast_lab.base.errors import InputError, among
from tiercast_lab.experiment.calibrated_schema import Calibrated, CalibratedNumbers
from tiercast_lab.experiment.figure_schema import FirstSetUp
from tiercast_lab.experiment.model import validate
from tiercast_lab.experiment.schemes import SchemeInfo
from tiercast_lab.experiment.yaml_source import load_yaml
from tiercast_lab.study.figure_spec import FigureSpec, find_figure


def calibrated_numbers() -> list[Calibrated]:
    """The numbers of experiments/calibrated/numbers.yaml. Raises InputError."""
    return validate(CalibratedNumbers, load_yaml(binaries.CALIBRATED)).numbers


def find_calibrated(names: Sequence[str]) -> list[Calibrated]:
    """The numbers with these names, or all that can be run. Raises InputError."""
    numbers = calibrated_numbers()
    runnable = {one.name: one for one in numbers if one.set}
    for name in names:
        if name not in runnable:
            raise InputError(f"no calibrated number {among(name, list(runnable))}")
    return [runnable[name] for name in names] if names else list(runnable.values())


def figures_otherwise(number: Calibrated, schemes: dict[str, SchemeInfo]) -> list[FigureSpec]:
    """The figures of a number, each with the other value as its first set-up, so that both are run
    and judged side by side."""
    settings = ", ".join(f"{key}={value}" for key, value in number.set.items())
    other = FirstSetUp(
        called=f"with {settings}",
        now_with=f"{number.name} {number.value}",
        reason=number.why,
        set=number.set,
    )
    result = []
    for name in number.figures:
        spec = find_figure(name, schemes)
        section = spec.section.model_copy(update={"as_first_set_up": other})
        experiment = spec.experiment.model_copy(update={"figure": section})
        result.append(replace(spec, experiment=experiment))
    return result
