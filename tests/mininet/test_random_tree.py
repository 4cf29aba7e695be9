"""Random trees: their properties, one network per seed, and what is refused."""

from __future__ import annotations

import math
from collections import Counter
from statistics import fmean

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiercast_lab.base.errors import InputError
from tiercast_lab.experiment.random_tree import Draw, draw_links
from tiercast_lab.experiment.topology_schema import DrawnRates
from tiercast_lab.run.network_summary import network_summary

from .conftest import SMALL

DRAWN = SMALL.replace(
    """\
      tree: {depth: 2}
      link: {rate: 6Mbit/s, delay: 5ms, queue: 50p}
      links:
        1-3: {rate: 1Mbit/s}
""",
    """\
      random: {seed: 3, leaves: [4, 6], rate: [0.5Mbit/s, 20Mbit/s], delay: [1ms, 50ms], queue: 50p}
""",
)


def of(**keys: object) -> str:
    text = "".join(f", {key}: {value}" for key, value in keys.items())
    return DRAWN.replace("queue: 50p}", f"queue: 50p{text}}}")


@given(
    seed=st.integers(0, 2**32 - 1),
    leaves=st.integers(1, 200),
    fanout=st.tuples(st.integers(1, 5), st.integers(1, 5)).map(lambda ends: tuple(sorted(ends))),
    depth=st.integers(1, 8),
)
def test_every_shape_is_what_was_asked(
    seed: int, leaves: int, fanout: tuple[int, int], depth: int
) -> None:
    links = draw_links(Draw(seed), leaves, fanout, depth)
    tree = networkx.DiGraph(links)
    assert networkx.is_arborescence(tree)
    assert sorted(tree) == list(range(len(links) + 1))
    assert [child for _, child in links] == list(range(1, len(links) + 1))
    ends = [node for node in tree if tree.out_degree(node) == 0]
    assert len(ends) == leaves
    levels = networkx.single_source_shortest_path_length(tree, 0)
    assert max(levels.values()) <= depth
    for node in set(tree) - set(ends):
        children, below = tree.out_degree(node), len(networkx.descendants(tree, node) & set(ends))
        if levels[node] < depth - 1:
            assert min(fanout[0], below) <= children <= fanout[1]
        else:
            assert children == below


def test_a_seed_is_one_network(load) -> None:
    """Written out, so that today's networks can be drawn again with future releases."""
    links = load(DRAWN).topology.links
    drawn = {name: link.parameters for name, link in links.items() if not link.attaches}
    assert {name: (one.rate, one.delay) for name, one in drawn.items()} == EXPECTED
    assert {str(one.queue) for one in drawn.values()} == {"50p"}
    other = load(DRAWN, settings=["topology.random.seed=2"]).topology.links
    assert {name: link.parameters for name, link in other.items()} != drawn
    # Written with the digits shown, the values are the same.
    for one in drawn.values():
        assert float(f"{one.rate:.3g}") == one.rate and float(f"{one.delay:.3g}") == one.delay


EXPECTED = {  # bit/s, ns
    "0-1": (1_300_000, 2_500_000),
    "0-2": (19_700_000, 6_290_000),
    "0-3": (10_900_000, 6_450_000),
    "3-4": (5_280_000, 1_800_000),
    "3-5": (5_200_000, 29_800_000),
}


def test_rates_and_delays_are_log_uniform_and_leaves_uniform() -> None:
    """Means of n draws, within five standard errors."""
    draw, n = Draw(7), 4000
    spans = {"rate": (500_000, 20_000_000), "delay": (1_000_000, 50_000_000)}
    for first, last in spans.values():
        logs = [math.log(draw.log_uniform((first, last)) / first) for _ in range(n)]
        width = math.log(last / first)
        assert fmean(logs) == pytest.approx(width / 2, abs=5 * width / math.sqrt(12 * n))
        assert min(logs) >= 0 and max(logs) <= width
    counts = Counter(draw.whole((4, 8)) for _ in range(n))
    assert sorted(counts) == [4, 5, 6, 7, 8]
    assert all(abs(one - n / 5) < 5 * math.sqrt(n * 0.2 * 0.8) for one in counts.values())
    # The three ways to write 4 as a sum of two numbers.
    ways = Counter(tuple(draw.parts(4, 2)) for _ in range(n))
    assert sorted(ways) == [(1, 3), (2, 2), (3, 1)]
    assert all(abs(one - n / 3) < 5 * math.sqrt(n * 2 / 9) for one in ways.values())


def test_a_drawn_link_may_be_changed_and_is_in_the_summary(load) -> None:
    loaded = load(
        DRAWN,
        settings=["topology.links={0-2: {rate: 3Mbit/s, marking: {kind: none}}}"],
    )
    facts = network_summary(loaded)["links"]
    assert facts["0-2"]["rate"] == 3_000_000
    assert facts["0-1"] == {
        "rate": EXPECTED["0-1"][0],
        "delay_ns": EXPECTED["0-1"][1],
        "queue": "50p",
        "marking": "priority",
        "one_way": False,
        "packet_size": 1000,
        "rates": {},
    }
    assert loaded.experiment.marking_of("0-2").kind == "none"
    assert loaded.experiment.marking_of("0-1").kind == "priority"


def test_a_value_is_a_span_of_one(load) -> None:
    text = of(fanout=2).replace("[0.5Mbit/s, 20Mbit/s]", "1Mbit/s").replace("[4, 6]", "8")
    loaded = load(text)
    assert len(loaded.receivers[0]) == 8
    rates = {link.parameters.rate for link in loaded.topology.links.values() if not link.attaches}
    assert rates == {1_000_000}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("leaves: [4, 6]", "leaves: [6, 4]", "topology.random.leaves: .*from, to"),
        ("leaves: [4, 6]", "leaves: [0, 4]", "topology.random.leaves.0: 0; valid: 1 or more"),
        ("leaves: [4, 6]", "leaves: [4, 5000]", "leaves.1: 5000; valid: 4096 or less"),
        ("leaves: [4, 6]", "leaves: [4, 5, 6]", "leaves: .*at most 2"),
        ("leaves: [4, 6], ", "", "topology.random.leaves: this key is missing"),
        ("[0.5Mbit/s, 20Mbit/s]", "[0.5, 20Mbit/s]", "rate.0: 0.5 is not a rate"),
        ("[1ms, 50ms]", "[0ms, 50ms]", "delay.0: '0ms'; valid: 1ns or more"),
        ("queue: 50p}", "queue: 50}", "queue: 50 is not a queue"),
        ("seed: 3", "seed: -1", "random.seed: -1; valid: 0 or more"),
        ("seed: 3", "depth: 40", "random.depth: 40; valid: 32 or less"),
        ("seed: 3", "leafs: 4", "random.leafs: unknown key; valid: seed, leaves, .*'leaves'"),
        ("random:", "tree: {depth: 2}\n      random:", "exactly one of 'tree', 'random' and"),
        ("random:", "levels: {L1: {}}\n      random:", "'L1'; valid: none without a tree"),
        ("random:", "links: {0-77: {}}\n      random:", "no link '0-77'; valid: 0-1, 0-2"),
        (
            "random:",
            "link: {rate: 1Mbit/s, delay: 1ms, queue: 5p}\n      random:",
            "'random' takes no 'link'",
        ),
    ],
)
def test_what_is_wrong_is_named(load, old: str, new: str, said: str) -> None:
    assert old in DRAWN
    with pytest.raises(InputError, match=said):
        load(DRAWN.replace(old, new))


# Range, lowest rates from, to, Mbit/s: as in SIM's figures 8 and 9.
@pytest.mark.parametrize(
    ("spread", "lowest"), [(0.4, (1, 3)), (3.2, (1, 3)), (3.2, (0.2, 0.999)), (4, (0.2, 0.999))]
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_drawn_rates_have_their_range_around_their_centre(
    spread: float, lowest: tuple[float, float], seed: int
) -> None:
    links = ["1-3", "1-4", "2-5", "14-30", "2-6"]
    drawn = DrawnRates(
        links=links, centre="3Mbit/s", range=f"{spread}Mbit/s",
        lowest=[f"{one}Mbit/s" for one in lowest], seed=seed,
    )  # fmt: skip
    rates = list(drawn.rates.values())
    assert list(drawn.rates) == links
    assert rates == sorted(rates)
    assert rates[-1] - rates[0] == pytest.approx(spread * 1e6, abs=1)  # each is rounded to bit/s
    assert lowest[0] * 1e6 <= rates[0] <= lowest[1] * 1e6
    assert rates[0] > 0 and rates[-1] <= 6e6


def test_the_centre_is_the_mean_of_the_drawn_rates() -> None:
    """The mean of 1000 rates, five of a draw from about 1.5 Mbit/s: 0.1 is 5 standard errors."""
    places = [
        rate / 1e6
        for seed in range(200)
        for rate in DrawnRates(
            links=["a", "b", "c", "d", "e"], centre="3Mbit/s", range="1Mbit/s",
            lowest=["0.1Mbit/s", "3Mbit/s"], seed=seed,
        ).rates.values()
    ]  # fmt: skip
    assert fmean(places) == pytest.approx(3, abs=0.1)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"links": ["1-3", "1-3"]}, "a link is given twice; valid: once"),
        ({"range": "10Mbit/s"}, "no such rates in 100000 draws; valid: a 'lowest' that"),
        ({"lowest": ["3Mbit/s", "1Mbit/s"]}, "the first is above the second"),
    ],
)
def test_rates_that_cannot_be_drawn_are_refused(keys: dict[str, object], text: str) -> None:
    given = {
        "links": ["1-3", "1-4"], "centre": "3Mbit/s", "range": "1Mbit/s",
        "lowest": ["1Mbit/s", "3Mbit/s"],
    }  # fmt: skip
    with pytest.raises(ValueError, match=text):
        DrawnRates(**(given | keys))
