"""Faults of the network at random moments, in virtual time: afterwards each scheme's session is
back at its rate, within what the scheme's own timers imply.

The moments follow from the seed in the test's name.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from tiercast_lab.experiment.loading import load_experiment
from tiercast_lab.experiment.schemes import known_schemes

from ..virtual_time import run_in_virtual_time

pytestmark = pytest.mark.slow

SEEDS = (1,)
BACK = 0.85  # of the rate before
WINDOW_S = 20.0
# From the end of the fault until the rate is asked for. MLDA's receivers take a new estimate in
# each control interval of 10 s (MLDA III-F): four of them.
SETTLES_S = {"mlda": 40.0}
OTHERS_SETTLE_S = 10.0


def bad_way_back(begin: float, end: float) -> list[str]:
    """What receivers say is lost, overtaken and duplicated."""
    return [
        f"{{at: {begin}s, link: 1>0, loss: 30%, reorder: {{share: 30%, delay: 20ms}}, "
        "duplicate: 10%}",
        f"{{at: {end}s, link: 1>0, loss: 0%, reorder: {{share: 0%, delay: 20ms}}, duplicate: 0%}}",
    ]


def link_down(begin: float, end: float) -> list[str]:
    return [
        f"{{at: {begin}s, link: 0-1, up: false}}",
        f"{{at: {end}s, link: 0-1, up: true}}",
    ]


def flapping(begin: float, end: float) -> list[str]:
    """The link is down every other second, and up at last."""
    seconds = int(end - begin)
    return [
        f"{{at: {begin + i:.3f}s, link: 0-1, up: {'false' if i % 2 == 0 else 'true'}}}"
        for i in range(seconds - seconds % 2)
    ]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("fault", [bad_way_back, link_down, flapping])
@pytest.mark.parametrize("scheme", sorted(known_schemes()))
def test_a_session_is_back_at_its_rate(
    scheme: str, fault: Callable[[float, float], list[str]], seed: int, tmp_path: Path
) -> None:
    drawn = random.Random(f"{scheme} {fault.__name__} {seed}")
    begin = round(drawn.uniform(40, 45), 3)
    end = round(begin + drawn.uniform(4, 10), 3)
    asked = end + SETTLES_S.get(scheme, OTHERS_SETTLE_S)
    until = asked + WINDOW_S
    layers = 3 if known_schemes()[scheme].layered else 1
    events = "\n".join(f"  - {event}" for event in fault(begin, end))
    file = tmp_path / "fault.yaml"
    file.write_text(f"""
topology:
  nodes: [0, 1, 2, 3, 4]
  link: {{rate: 10Mbit/s, delay: 10ms, queue: 50p}}
  links: {{0-1: {{rate: 2Mbit/s}}, 1-2: {{}}, 1-3: {{}}, 1-4: {{}}}}
marking: {{kind: {"priority" if scheme == "sim" else "none"}}}
sessions: [{{scheme: {scheme}, sender: 0, layers: {layers}}}]
events:
{events}
duration: {until:.3f}s
measure:
  last: 60s
  periods: {{before: [{begin - WINDOW_S:.3f}s, {begin}s], after: [{asked:.3f}s, {until:.3f}s]}}
""")
    run = run_in_virtual_time(load_experiment(file, known_schemes()), seed, tmp_path / "results")
    assert run.summary["validity"]["valid"], run.summary[
        "validity"
    ]  # every packet is accounted for
    before, after = (
        run.summary["measures"][f"session_throughput@{name}"]["value"]
        for name in ("before", "after")
    )
    assert before > 0
    assert after >= BACK * before, f"{fault.__name__} from {begin} s to {end} s"
