"""Networks from GraphML, from a Python function and from a Mininet Topo."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import networkx
import pytest
from tiercast_lab.base import binaries
from tiercast_lab.base.errors import InputError
from tiercast_lab.experiment import topology_sources
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.experiment.loading import load_experiment
from tiercast_lab.experiment.topology_sources import great_circle
from tiercast_lab.run.network_summary import network_summary
from tiercast_lab.show.topology_drawing import topology_svg

from .conftest import SCHEMES

LINK = "link: {rate: 5Mbit/s, delay: 5ms, queue: 50p}"


@pytest.fixture
def load(tmp_path):
    def load(topology: str, code: str = "", sessions: str = "{scheme: sim, sender: a}"):
        (tmp_path / "net.py").write_text(code)
        file = tmp_path / "experiment.yaml"
        file.write_text(f"topology: {{{topology}, {LINK}}}\nsessions: [{sessions}]\n")
        return load_experiment(file, SCHEMES)

    return load


def links_of(loaded: LoadedExperiment) -> dict[str, tuple[int, int, str]]:
    return {
        name: (link.parameters.rate, link.parameters.delay, str(link.parameters.queue))
        for name, link in loaded.topology.links.items()
        if not link.attaches
    }


def test_ten_cities_have_the_delays_of_their_coordinates() -> None:
    loaded = load_experiment(binaries.EXPERIMENTS / "ten-cities.yaml", SCHEMES)
    assert loaded.experiment.sessions[0].sender == 0
    assert loaded.receivers == ((1, 3, 5, 6, 7, 8, 9),)
    links = links_of(loaded)
    assert links["1-2"][0] == 10_000_000
    assert links["0-3"][0] == links["5-8"][0] == 5_000_000  # without a speed
    assert links["7-9"][0] == 1_500_000
    # Madrid to Paris is 1053 km by great circle, at 200 km/ms.
    assert links["1-2"][1] == pytest.approx(1053 / 199.862 * 1e6, rel=0.01)
    graph: networkx.Graph[int] = networkx.Graph()
    for name, (_, delay, _) in links.items():
        a, b = map(int, name.split("-"))
        graph.add_edge(a, b, delay=delay)
    for node in loaded.receivers[0]:
        path = networkx.shortest_path(graph, 0, node, weight="delay")
        assert loaded.topology.directions(0, node) == [
            f"{a}>{b}" for a, b in zip(path, path[1:], strict=False)
        ]
    summary = network_summary(loaded)
    assert summary["nodes"]["0"]["name"] == "Lisbon"
    picture = topology_svg(json.loads(json.dumps(summary)))
    assert all(one["name"] in picture for one in summary["nodes"].values())
    assert picture == topology_svg(summary)


def test_a_quarter_of_the_equator() -> None:
    assert great_circle((0, 0), (90, 0)) == pytest.approx(10_007_557, rel=1e-6)
    assert great_circle((0, 90), (123, -90)) == pytest.approx(2 * 10_007_557, rel=1e-6)


def test_a_python_function_returns_a_graph_or_a_mapping(load) -> None:
    code = """
import networkx
def ring(count=4):
    graph = networkx.Graph()
    for n in range(count):
        graph.add_edge("abcdef"[n], "abcdef"[(n + 1) % count], rate="3Mbit/s")
    graph.nodes["b"]["label"] = "bee"
    return graph
def mapping():
    return {"tree": {"depth": 2}, "links": {"0-1": {"rate": "1Mbit/s"}}}
"""
    receivers = "{scheme: sim, sender: a, receivers: [bee, c]}"
    loaded = load("python: net.py:ring, parameters: {count: 5}", code, receivers)
    assert links_of(loaded) == dict.fromkeys(
        ["0-1", "1-2", "2-3", "3-4", "0-4"], (3_000_000, 5_000_000, "50p")
    )
    assert loaded.receivers == ((1, 2),)
    changed = load("python: net.py:ring, links: {c-bee: {rate: 1Mbit/s}}", code, receivers)
    assert links_of(changed)["1-2"][0] == 1_000_000
    loaded = load("python: net.py:mapping", code, "{scheme: sim, sender: 0}")
    assert loaded.receivers == ((3, 4, 5, 6),)
    assert links_of(loaded)["0-1"][0] == 1_000_000


TOPO = """
from mininet.topo import Topo
from mininet.link import TCLink
class Lab(Topo):
    def build(self, spare=False, **more):
        a, h = self.addHost("a", ip="10.0.0.1/24"), self.addHost("h", mac="00:00:00:00:00:01")
        s1, s2, s3 = (self.addSwitch(f"s{n}", dpid=str(n)) for n in (1, 2, 3))
        self.addLink(a, s1)
        self.addLink(s1, s2, cls=TCLink, bw=10, delay="3ms", loss=0.5, max_queue_size=20,
                     use_htb=True)
        self.addLink(s2, s3, bw=0.5, jitter="1ms")
        self.addLink(s1, s3, delay="20ms")
        self.addLink(h, s3, **more)
        if spare:
            self.addLink(h, s2)
"""


def test_a_mininet_topo_is_translated(load) -> None:
    loaded = load("mininet: net.py:Lab", TOPO)
    assert links_of(loaded) == {
        "0-2": (5_000_000, 5_000_000, "50p"),
        "2-3": (10_000_000, 3_000_000, "20p"),
        "3-4": (500_000, 5_000_000, "50p"),
        "2-4": (5_000_000, 20_000_000, "50p"),
        "1-4": (5_000_000, 5_000_000, "50p"),
    }
    assert loaded.receivers == ((1,),)  # the leaf h; a sends
    assert loaded.experiment.topology.names == {
        "0": "a", "1": "h", "2": "s1", "3": "s2", "4": "s3",
    }  # fmt: skip
    assert loaded.topology.directions(0, 1) == ["0>2", "2>3", "3>4", "4>1"]
    wire = loaded.topology.links["2-3"].parameters.wire
    assert wire.loss is not None


@pytest.mark.parametrize("node", ["h", "1"])
def test_a_liar_has_a_name_or_a_number(load, node: str) -> None:
    sessions = f"{{scheme: sim, sender: a, layers: 2, lies: {{{node}: rate_zero}}}}"
    (session,) = load("mininet: net.py:Lab", TOPO, sessions).experiment.sessions
    assert session.lies == {1: "rate_zero"}


GRAPH = """
import networkx
def f():
    g = networkx.path_graph(3)
    {}
    return g
"""
GRAPHML = """\
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="d0" for="node" attr.name="place" attr.type="{}"/><graph edgedefault="undirected">
<node id="0"><data key="d0">{}</data></node><node id="1"/><edge source="0" target="1"/>
</graph></graphml>"""


@pytest.mark.parametrize(("kind", "place"), [("string", "Berlin"), ("double", "5.0")])
def test_what_a_graphml_file_calls_place_is_no_coordinates(
    load, tmp_path: Path, kind: str, place: str
) -> None:
    (tmp_path / "g.graphml").write_text(GRAPHML.format(kind, place))
    loaded = load("graphml: g.graphml", sessions="{scheme: sim, sender: 0}")
    assert loaded.receivers == ((1,),) and not loaded.experiment.topology.places


def test_a_graphml_file_of_two_graphs_is_refused(load, tmp_path: Path) -> None:
    text = GRAPHML.format("string", "here")
    (tmp_path / "g.graphml").write_text(
        text.replace("</graphml>", '<graph edgedefault="undirected"/></graphml>')
    )
    with pytest.raises(InputError, match=r"g\.graphml: 2 graphs; valid: a file of one"):
        load("graphml: g.graphml", sessions="{scheme: sim, sender: 0}")


def test_labels_of_a_graph_become_names_of_one_line_that_differ(load) -> None:
    code = """
import networkx
def cities():
    graph = networkx.path_graph(4)
    for node, label in enumerate(["A", "A", "A (0)", "New\\nYork "]):
        graph.nodes[node]["label"] = label
    return graph
"""
    loaded = load("python: net.py:cities", code, "{scheme: sim, sender: New York}")
    names = loaded.experiment.topology.names
    assert names == {"0": "A (0) (0)", "1": "A (1)", "2": "A (0) (2)", "3": "New York"}


@pytest.mark.parametrize(
    ("topology", "code", "said"),
    [
        ("graphml: nowhere.graphml", "", "'nowhere.graphml' is no file; valid: a path from"),
        ("graphml: net.py", "def", "not GraphML"),
        ("graphml: /etc/passwd", "", "valid: a path relative to the experiment's file"),
        ("graphml: net.py, python: net.py:f", "", "graphml and python; valid: one of them"),
        ("python: net.py", "", "'net.py'; valid: file.py:function"),
        (
            "python: net.py:rign",
            "def ring(): pass",
            "no 'rign'; valid: ring (did you mean 'ring'?)",
        ),
        ("python: net.py:f", "def f():\n    1 / 0", "net.py:2: ZeroDivisionError"),
        ("python: net.py:f", "def f(): exit(3)", "SystemExit: 3"),
        ("python: net.py:f", "def f(): return 5", "it returns int; valid: a networkx graph, or a"),
        ("python: net.py:f", "def f(): return {1: {2}}", "no plain data"),
        ("python: net.py:f", "def f(): return {'python': 'x'}", "it returns 'python' again"),
        ("mininet: net.py:dict", "dict = dict", "it is dict; valid: a subclass of mininet.topo"),
        ("mininet: net.py:Lab, parameters: {spare: true}", TOPO, "host h has 2 links; valid: 1"),
        ("mininet: net.py:Lab, parameters: {enable_red: true}", TOPO, "link h-s3: enable_red=True"),
        ("mininet: net.py:Lab, parameters: {bw: fast}", TOPO, "link h-s3: bw is 'fast'"),
        ("mininet: net.py:Lab, parameters: {delay: soon}", TOPO, "topology.links.1-4.delay"),
        ("mininet: net.py:Lab, rate_scale: 0", TOPO, "topology.rate_scale: 0; valid: above 0"),
        (
            "mininet: net.py:Lab, rate_scale: 0.1",
            TOPO,
            "topology.rate_scale: 0.1: net.py:Lab gives no graph whose LinkSpeedRaw it could "
            "scale; valid: with graphml, or a function that returns a networkx graph",
        ),
        (
            "python: net.py:f, rate_scale: 2",
            "def f(): return {'nodes': [0, 1, 2], 'links': {'0-1': {}, '1-2': {}}}",
            "topology.rate_scale: 2: net.py:f gives no graph",
        ),
        (
            "python: net.py:f, rate_scale: 1e308",
            GRAPH.format("g.add_edge(0, 1, LinkSpeedRaw=1e9)"),
            "topology.python: net.py:f: link 0-1: LinkSpeedRaw 1000000000.0 times rate_scale "
            "1e+308; valid: up to 1000Gbit/s",
        ),
        *(
            (
                "python: net.py:f",
                GRAPH.format(f"g.add_node(0, place={place})"),
                f"topology.python: net.py:f: the place of node 0 is {place}; valid: two numbers, ",
            )
            for place in ("5", "'Berlin'", "'12'", "[1]", "None")
        ),
        *(
            (
                "python: net.py:f",
                GRAPH.format(f"g.add_node(0, Longitude={x}, Latitude={y})"),
                f"topology.python: net.py:f: node 0: {said}",
            )
            for x, y, said in (
                (0, 1e308, "Latitude is 1e+308; valid: -90 to 90"),
                (500, 0, "Longitude is 500.0; valid: -360 to 360"),
            )
        ),
        ("tree: {depth: 1}, names: {²: x}", "", "topology.names.²: no node '²'; valid: 0, 1, 2"),
        ("tree: {depth: 1}, names: {7: x}", "", "topology.names.7: no node '7'; valid: 0, 1, 2"),
    ],
)
def test_what_cannot_be_is_refused_by_name(load, topology: str, code: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        load(topology, code, "{scheme: sim, sender: 0}")
    assert said in str(caught.value)


def test_unknown_names_are_refused(load) -> None:
    for sessions, said in (
        ("{scheme: sim, sender: hh}", "sessions.0.sender: no node 'hh'; valid: a, h, s1, s2, s3"),
        ("{scheme: sim, sender: a, receivers: [h, x]}", "sessions.0.receivers.1: no node 'x'"),
        ("{scheme: sim, sender: a, lies: {x: rate_zero}}", "sessions.0.lies.x: no node 'x'"),
    ):
        with pytest.raises(InputError) as caught:
            load("mininet: net.py:Lab", TOPO, sessions)
        assert said in str(caught.value)


CITIES = 'names: {"0": Lisbon, "1": Madrid, "2": Aix-la-Chapelle}'
IN_A_ROW = f"nodes: [0, 1, 2], links: {{0-1: {{}}, 1-2: {{}}}}, {CITIES}"
AS_A_TREE = f"tree: {{depth: 2, fanout: 1}}, {CITIES}"
DRAWN = "centre: 4Mbit/s, range: 2Mbit/s, lowest: [1Mbit/s, 4Mbit/s]"


@pytest.mark.parametrize("many", [False, True], ids=["one entry", "a list"])
def test_names_stand_in_what_is_observed(load, many: bool) -> None:
    def observed(topology: str, key: str, entry: str):
        entries = f"[{entry}]" if many else entry
        loaded = load(topology, sessions=f"{{scheme: sim, sender: Lisbon}}]\n{key}: {entries}\n#")
        (found,) = getattr(loaded.experiment, key)
        return found

    for name, number in (
        ("Lisbon-Madrid", "0-1"), ("Madrid-Lisbon", "0-1"), ("Madrid>Lisbon", "1>0"),
        ("Lisbon>1", "0>1"), ("0-1", "0-1"), ("Aix-la-Chapelle-Madrid", "1-2"),
    ):  # fmt: skip
        for topology in (IN_A_ROW, AS_A_TREE):
            assert observed(topology, "trace", f"{{link: {name}}}").link == number
            state = f"{{link: {name}, register: avg_queue}}"
            assert observed(topology, "state", state).link == number
    state = "{node: Madrid, index: 1, register: avg_queue}"
    assert observed(IN_A_ROW, "state", state).node == 1
    place = "state.0.node" if many else "state.node"
    with pytest.raises(InputError, match=f"{place}: no node 'Madri'; valid: Lisbon, Madrid, Aix-l"):
        observed(IN_A_ROW, "state", state.replace("Madrid", "Madri"))
    with pytest.raises(InputError, match="trace.*link: no link 'Lisbon-Paris'; valid: 0-1, 1-2"):
        observed(IN_A_ROW, "trace", "{link: Lisbon-Paris}")


@pytest.mark.parametrize("topology", [IN_A_ROW, AS_A_TREE], ids=["nodes", "tree"])
def test_names_stand_in_drawn_links(load, topology: str) -> None:
    drawn = f"drawn: {{links: [Lisbon-Madrid, Aix-la-Chapelle-Madrid], {DRAWN}}}"
    loaded = load(f"{topology}, {drawn}", sessions="{scheme: sim, sender: Lisbon}")
    assert list(loaded.experiment.topology.drawn.rates) == ["0-1", "1-2"]
    assert links_of(loaded)["0-1"][0] != 5_000_000


@pytest.mark.parametrize("form", ["nodes: [0, 1, 2]", "tree: {depth: 2, fanout: 1}"])
def test_names_stand_as_keys_of_links(load, form: str) -> None:
    def loaded(links: str):
        topology = f"{form}, links: {links}, {CITIES}"
        return load(topology, sessions="{scheme: sim, sender: Lisbon}")

    links = "{Lisbon-Madrid: {}, Madrid-Aix-la-Chapelle: {rate: 2Mbit/s}}"
    assert links_of(loaded(links))["1-2"][0] == 2_000_000
    for wrong, said in (
        ("{0-1: {}, Lisbon-Madrid: {}}", "links.Lisbon-Madrid: link 0-1 is given twice; valid: on"),
        ("{Lisbon-Madrid: {rate: 5}, 1-2: {}}", "experiment.yaml:1: topology.links.0-1.rate: "),
        (
            "{Lisbon-Paris: {}}",
            "topology.links.Lisbon-Paris: not a link; valid: two nodes, such as 1-3",
        ),
    ):
        with pytest.raises(InputError) as caught:
            loaded(wrong)
        assert said in str(caught.value)


def test_numbers_in_keys_of_links_are_numbers_whatever_nodes_are_called(load) -> None:
    topology = "nodes: [0, 1, 2], links: {0-1: {rate: 2Mbit/s}, 0-2: {}}"
    for names in ("{}", "{1: '2', 2: '1'}"):
        found = links_of(load(f"{topology}, names: {names}", sessions="{scheme: sim, sender: 0}"))
        assert found["0-1"][0] == 2_000_000 and list(found) == ["0-1", "0-2"]


@pytest.mark.parametrize(
    "form", ["nodes: [0, 1, 2], links: {0-1: {}, 0-2: {}}", "tree: {depth: 1}"]
)
def test_two_numbers_are_a_link_by_its_numbers_wherever_one_is_meant(load, form: str) -> None:
    sessions = "{scheme: sim, sender: 0}]\ntrace: [{link: 0-1}, {link: 0>2}]\n#"
    loaded = load(f"{form}, names: {{1: '2', 2: '1'}}", sessions=sessions)
    assert [one.link for one in loaded.experiment.trace] == ["0-1", "0>2"]


DASHES = "names: {0: A, 1: B-C, 2: A-B, 3: C}"


@pytest.mark.parametrize(
    ("topology", "place"),
    [
        (
            f"nodes: [0, 1, 2, 3], links: {{0-1: {{}}, 2-3: {{}}, 1-2: {{}}}}, {DASHES}",
            "trace.0.link",
        ),
        (f"nodes: [0, 1, 2, 3], links: {{A-B-C: {{}}}}, {DASHES}", "topology.links.A-B-C"),
        (f"tree: {{depth: 1, fanout: 3}}, {DASHES}", "trace.0.link"),
    ],
    ids=["listed", "keys", "tree"],
)
def test_a_text_that_names_two_links_is_refused(load, topology: str, place: str) -> None:
    sessions = "{scheme: sim, sender: 0}]\ntrace: [{link: A-B-C}]\n#"
    said = f"{place}: 'A-B-C' names several links; valid: one by its numbers, 0-1, 2-3"
    with pytest.raises(InputError, match=said):
        load(topology, sessions=sessions)


def test_many_nodes_of_one_name_are_told_apart_at_once() -> None:
    compared = 0

    class Label(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return super().__eq__(other)

    labels = {str(node): Label("none") for node in range(1000)}
    assert topology_sources._unique(labels)["7"] == "none (7)"
    assert compared < 5 * len(labels)  # a million if each is searched in the others


@pytest.mark.parametrize("fast", ["LinkSpeedRaw=9e6", "rate='9Mbit/s'"])
def test_the_fastest_of_parallel_links_counts(load, fast: str) -> None:
    """Whichever comes first, and whichever way its rate is said."""
    slow = ["rate='2Mbit/s'", "LinkSpeedRaw=1e6"]
    for parallel in ([fast, *slow], [*slow, fast]):
        added = "".join(f"    g.add_edge(0, 1, {one})\n" for one in parallel)
        code = f"import networkx\ndef f():\n    g = networkx.MultiGraph()\n{added}    return g\n"
        loaded = load("python: net.py:f", code, "{scheme: sim, sender: 0}")
        assert links_of(loaded)["0-1"][0] == 9_000_000


def test_a_name_given_twice_is_refused(load) -> None:
    topology = "nodes: [0, 1, 2], links: {0-1: {}, 1-2: {}}, names: {0: A, 1: B, 2: B}"
    with pytest.raises(InputError, match="topology.names.2: 'B' is given twice; valid: once"):
        load(topology, sessions="{scheme: sim, sender: A}")


def test_errors_show_the_names_that_were_given(load) -> None:
    with pytest.raises(InputError, match="receivers: 'Madrid'; valid: 'leaves' or a list"):
        load(IN_A_ROW, sessions="{scheme: sim, sender: Lisbon, receivers: Madrid}")
    sessions = "{scheme: sim, sender: Lisbon}]\ntrace: {link: Lisbon-Aix-la-Chapelle}\n#"
    with pytest.raises(InputError, match="no link 'Lisbon-Aix-la-Chapelle'; valid: 0-1, 1-2"):
        load(IN_A_ROW, sessions=sessions)


def test_names_stand_as_keys_of_switches(load) -> None:
    program = f"{{program: {{json: {binaries.P4_JSON}, p4info: {binaries.P4_INFO}}}}}"
    sessions = "{scheme: sim, sender: Lisbon}"
    loaded = load(f"{IN_A_ROW}, switches: {{Madrid: {program}, 0: {program}}}", sessions=sessions)
    assert list(loaded.experiment.topology.switches) == ["1", "0"]
    for switches, said in (
        ("{Madri: {}}", "topology.switches.Madri: no node 'Madri'; valid: Lisbon, Madrid"),
        ("{1: {}, Madrid: {}}", "topology.switches.Madrid: node 1 is given twice; valid: once"),
        ("{Madrid: {program: 5}}", "topology.switches.1.program: 5; valid: a .p4 or .json file"),
    ):
        with pytest.raises(InputError) as caught:
            load(f"{IN_A_ROW}, switches: {switches}", sessions=sessions)
        assert said in str(caught.value)


def test_networkx_is_not_imported_for_other_experiments() -> None:
    code = "import sys, tiercast_lab.experiment.loading; print('networkx' in sys.modules)"
    path = ":".join(map(str, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.stdout == "False\n", done.stderr
    assert Path(binaries.EXPERIMENTS / "graphs/ten-cities.graphml").exists()
