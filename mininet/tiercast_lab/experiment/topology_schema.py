"""The schema of an experiment's network: a regular tree, a random tree, or listed nodes and
links."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from itertools import accumulate
from operator import mul
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from tiercast_controller.base.strict import Strict
from tiercast_controller.network.marking import AnyMarking
from tiercast_controller.network.topology import EqualCosts

from tiercast_lab.base.errors import among
from tiercast_lab.experiment.model import Line
from tiercast_lab.experiment.programs import Files
from tiercast_lab.experiment.quantities import (
    MAX_NODES,
    MAX_SEED,
    Delay,
    LinkRate,
    QueueLimit,
    Scheduling,
)
from tiercast_lab.experiment.random_tree import Draw, draw_links
from tiercast_lab.experiment.topology import tree_levels
from tiercast_lab.experiment.wire import WireKeys
from tiercast_lab.experiment.yaml_source import KeyPath


class ProgramFiles(Strict):
    """A P4 program, as programs.py has found it."""

    json_file: str = Field(alias="json")
    p4info: str
    manifest: str | None = None
    sources: list[str] = []
    compiler: str | None = None
    digest: str

    @property
    def files(self) -> Files:
        manifest = Path(self.manifest) if self.manifest else None
        sources = tuple(map(Path, self.sources))
        return Files(Path(self.json_file), Path(self.p4info), manifest, sources, self.compiler)


class SwitchKeys(Strict):
    program: ProgramFiles


class LinkChange(WireKeys):
    rate: LinkRate | None = None
    delay: Delay | None = None
    queue: QueueLimit | None = None
    scheduling: Scheduling | None = None
    marking: AnyMarking | None = None


class LinkDefault(WireKeys):
    rate: LinkRate
    delay: Delay
    queue: QueueLimit
    scheduling: Scheduling = "fifo"


Fanout = Annotated[int, Field(ge=1, le=64)]


class Tree(Strict):
    """A tree. `fanout` holds for every node or, as a list, for the nodes of each level, root
    first."""

    depth: Annotated[int, Field(ge=1, le=10)]
    fanout: Fanout | list[Fanout] = 2

    @model_validator(mode="after")
    def _every_level(self) -> Tree:
        if isinstance(self.fanout, list) and len(self.fanout) != self.depth:
            raise ValueError(f"'fanout' has {len(self.fanout)} levels; valid: {self.depth}")
        nodes = 1 + sum(accumulate(self.fanouts, mul))
        if nodes > MAX_NODES:
            raise ValueError(f"a tree of {nodes} nodes; valid: up to {MAX_NODES}")
        return self

    @property
    def fanouts(self) -> list[int]:
        return self.fanout if isinstance(self.fanout, list) else [self.fanout] * self.depth

    @property
    def levels(self) -> list[list[tuple[int, int]]]:
        return tree_levels(self.fanouts)

    def level_of(self, child: int) -> int:
        """The level of the link from a node's parent to the node; the root's links are level 1."""
        return bisect_right(self._last_of_levels, child - 1)

    @cached_property
    def _last_of_levels(self) -> list[int]:
        return [0, *accumulate(accumulate(self.fanouts, mul))]


def _span(value: Any) -> Any:
    """Turns a plain value into a span from and to that value."""
    return value if isinstance(value, list) else [value, value]


def _rising(value: list[Any]) -> list[Any]:
    if value[0] > value[1]:
        raise ValueError("the first is above the second; valid: [from, to]")
    return value


def _pair(span: list[int]) -> tuple[int, int]:
    first, last = span
    return first, last


T = TypeVar("T")
Span = Annotated[
    list[T], Field(min_length=2, max_length=2), BeforeValidator(_span), AfterValidator(_rising)
]


class RandomTree(Strict):
    """A tree drawn from its own seed. A span is [from, to] or a single value. Numbers of leaves and
    children are uniform; rates and delays are log-uniform, drawn for each link."""

    seed: Annotated[int, Field(ge=0, le=MAX_SEED)] = 1
    leaves: Span[Annotated[int, Field(ge=1, le=4096)]]
    fanout: Span[Fanout] = [2, 4]
    depth: Annotated[int, Field(ge=1, le=32)] = 6
    rate: Span[LinkRate]
    delay: Span[Annotated[Delay, Field(ge=1)]]
    queue: QueueLimit

    @cached_property
    def links(self) -> dict[str, LinkDefault]:
        """The links by name, parent first."""
        draw = Draw(self.seed)
        ends = draw_links(draw, draw.whole(_pair(self.leaves)), _pair(self.fanout), self.depth)
        return {
            f"{a}-{b}": LinkDefault.model_construct(
                rate=draw.log_uniform(_pair(self.rate)),
                delay=draw.log_uniform(_pair(self.delay)),
                queue=self.queue,
            )
            for a, b in ends
        }


MAX_DRAWS = 100_000


class DrawnRates(Strict):
    """Rates of links, drawn from a seed of their own: uniform over an interval around `centre`, of
    the width that makes the highest rate less the lowest `range` (SIM 4.2.7). The links get them in
    rising order. Rates of which the lowest is not within `lowest`, or whose interval reaches below
    0, are drawn again."""

    links: Annotated[list[Line], Field(min_length=2)]
    centre: LinkRate
    range: LinkRate
    lowest: Span[LinkRate]
    seed: Annotated[int, Field(ge=0, le=MAX_SEED)] = 1

    @model_validator(mode="after")
    def _drawable(self) -> DrawnRates:
        if len(set(self.links)) < len(self.links):
            raise ValueError("a link is given twice; valid: once")
        _ = self.rates
        return self

    @cached_property
    def rates(self) -> dict[str, int]:
        """bit/s, by link."""
        draw = Draw(self.seed)
        first, last = self.lowest
        for _ in range(MAX_DRAWS):
            shares = sorted(draw.share() for _ in self.links)
            if (spread := shares[-1] - shares[0]) == 0:
                continue
            width = self.range / spread
            rates = [round(self.centre + width * (share - 0.5)) for share in shares]
            if width <= 2 * self.centre and first <= rates[0] <= last:
                return dict(zip(self.links, rates, strict=True))
        raise ValueError(
            f"no such rates in {MAX_DRAWS} draws; valid: a 'lowest' that 'range' and 'centre' allow"
        )


class TopologyModel(Strict):
    """The network: `tree`, whose `links` may differ from `link`; `random`, whose `links` may differ
    from those drawn; or `nodes` with all of their `links`. topology_sources makes the last one of
    all other forms.

    `levels` changes all links of a level of a tree; L1 is the root's.
    """

    tree: Tree | None = None
    random: RandomTree | None = None
    nodes: Annotated[list[Annotated[int, Field(ge=0, le=65535)]], Field(min_length=2)] | None = None
    names: dict[str, Line] = {}  # of nodes, by number
    # x to the right and y upwards, in any unit; the picture uses them if every node has one.
    places: dict[str, Annotated[list[float], Field(min_length=2, max_length=2)]] = {}
    link: LinkDefault | None = None
    # Rates and queues apply only to the direction from a link's first node to its second. In the
    # other direction nothing waits and nothing is lost.
    one_way: bool = False
    equal_costs: EqualCosts = "one"
    levels: dict[str, LinkChange] = {}
    links: dict[str, LinkChange] = {}
    switches: dict[str, SwitchKeys] = {}  # by node
    drawn: DrawnRates | None = None  # over `link` and `levels`; `links` may change them

    @model_validator(mode="after")
    def _one_form(self) -> TopologyModel:
        if sum(form is not None for form in (self.tree, self.random, self.nodes)) != 1:
            raise ValueError("exactly one of 'tree', 'random' and 'nodes' must be given")
        if (self.random is None) != (self.link is not None):
            need = "needs" if self.link is None else "takes no"
            form = next(k for k in ("tree", "random", "nodes") if getattr(self, k) is not None)
            raise ValueError(f"'{form}' {need} 'link'")
        valid = [f"L{n}" for n in range(1, self.tree.depth + 1)] if self.tree else []
        for level in self.levels:
            if level not in valid:
                raise ValueError(f"'levels' has {among(level, valid or ['none without a tree'])}")
        return self

    def default(self, link: str) -> LinkDefault:
        """The parameters of a link unless something changes them."""
        if self.random is not None:
            return self.random.links[link]
        assert self.link is not None  # ensured by _one_form
        return self.link

    def changes(self, link: str) -> dict[KeyPath, LinkChange]:
        """What changes a link's default, by key path: the link's own entry first, then its
        level's."""
        found: dict[KeyPath, LinkChange] = {}
        if link in self.links:
            found["links", link] = self.links[link]
        if self.drawn is not None and link in self.drawn.links:
            found["drawn",] = LinkChange.model_construct(rate=self.drawn.rates[link])
        child = link.partition("-")[2]  # a link that attaches a host has no level
        if self.levels and self.tree is not None and child:
            name = f"L{self.tree.level_of(int(child))}"
            if name in self.levels:
                found["levels", name] = self.levels[name]
        return found
