"""Networks that an experiment takes from elsewhere: a GraphML file, a Python function, a Mininet
Topo. Each becomes `nodes`, `links`, `names` and `places`, as if the experiment had listed them.

Functions and classes are the user's code, and run when the experiment is read.
"""

from __future__ import annotations

import importlib.util
import json
import math
import re
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeGuard
from xml.etree import ElementTree

from tiercast_controller.base.bounded_yaml import kind_of_file, shown
from tiercast_controller.base.units import MAX_RATE, format_rate, parse_rate

from tiercast_lab.base.errors import InputError, among, closest, listed
from tiercast_lab.experiment.yaml_source import KeyPath, Source

if TYPE_CHECKING:  # only an experiment that uses a graph waits for its import
    import networkx as nx

FORMS = ("graphml", "python", "mininet")
MAX_FILE = 16 << 20  # bytes of a GraphML file
LIGHT_IN_FIBRE = 299_792_458 * 2 / 3  # m/s
EARTH_RADIUS = 6_371_009  # m, the mean
_OF_A_LINK = ("rate", "delay", "queue", "scheduling", "loss", "jitter", "reorder", "duplicate")

# Options of Mininet's nodes and links that have no meaning here: our switches replace its own,
# addresses and ports are numbered by the lab, and tc's classes by our traffic manager.
_IGNORED_OF_HOSTS = {"ip", "mac", "defaultRoute", "inNamespace", "isSwitch"}
_IGNORED_OF_SWITCHES = {"dpid", "protocols", "failMode", "stp", "datapath", "isSwitch", "cls"}
_IGNORED_OF_LINKS = {
    *("node1", "node2", "port1", "port2", "intfName1", "intfName2", "addr1", "addr2"),
    *("use_htb", "use_hfsc", "use_tbf"),
}
_IN_NUMBERS = re.compile("[0-9]{1,6}[->][0-9]{1,6}")  # a link, or a direction
_PLAIN_LINKS = ("Link", "TCLink", "TCULink", "OVSLink")


def expand_topology(source: Source, file: Path) -> Source:
    """Replaces `graphml`, `python` or `mininet` of the source's topology by what it stands for, and
    names of nodes by their numbers. Raises InputError."""
    topology = source.data.get("topology")
    if not isinstance(topology, dict):
        return source
    forms = [form for form in FORMS if form in topology]
    if len(forms) > 1:
        raise source.error(("topology",), f"{' and '.join(forms)}; valid: one of them")
    for form in forms:
        path = ("topology", form)
        named = topology.pop(form)
        parameters = topology.pop("parameters", {}) if form != "graphml" else {}
        if not isinstance(parameters, dict):
            raise source.error(("topology", "parameters"), f"{shown(parameters)}; valid: a mapping")
        is_scaled = "rate_scale" in topology
        scale = topology.pop("rate_scale", 1)
        if not (isinstance(scale, (int, float)) and _is_number(scale) and scale > 0):
            raise source.error(("topology", "rate_scale"), f"{shown(scale)}; valid: above 0")
        made: Any
        if form == "graphml":
            read = _file(source, path, named, file)
            made = _read_graphml(source, path, read)
        else:
            read, name = _file_and_name(source, path, named, file)
            made = _call(source, path, read, name, parameters)
        if is_scaled and not _is_graph(made):
            raise source.error(
                ("topology", "rate_scale"),
                f"{shown(scale)}: {named} gives no graph whose LinkSpeedRaw it could scale; valid: "
                "with graphml, or a function that returns a networkx graph",
            )
        try:
            found = _of_topo(made) if form == "mininet" else _of_result(made, scale)
        except ValueError as error:
            raise source.error(path, f"{named}: {error}") from None
        for key in ("links", "names"):
            if not isinstance(topology.get(key, {}), dict):
                raise source.error(("topology", key), f"{shown(topology[key])}; valid: a mapping")
        own = {key: value for key, value in topology.items() if key not in ("links", "names")}
        of_links = topology.get("links", {})
        names = {**found.get("names", {}), **topology.get("names", {})}
        source.data["topology"] = {**found, **own, "links": found.get("links", {}), "names": names}
        links = source.data["topology"]["links"]
        for key, change in _renamed(source, of_links).items():
            merges = isinstance(change, dict) and isinstance(links.get(key), dict)
            links[key] = {**links[key], **change} if merges else change
        source = replace(source, files=(*source.files, read.resolve()))
    if isinstance(source.data["topology"].get("names"), dict):
        _require_unique_names(source)
        _number_links(source)
        _number_nodes(source)
    return source


# ---------------------------------------------------------------------- files and the user's code


def _file(source: Source, path: KeyPath, named: object, file: Path) -> Path:
    """A path relative to the file that contains it."""
    if not isinstance(named, str) or not named or Path(named).is_absolute():
        raise source.error(path, f"{shown(named)}; valid: a path relative to the experiment's file")
    holder = Path(source.place(path).rpartition(":")[0])
    folder = holder.parent if holder.is_file() else file.parent
    found = folder / named
    if (kind := kind_of_file(found)) != "a file":
        raise source.error(
            path, f"{shown(named)} is {kind or 'no file'}; valid: a path from {folder}/"
        )
    return found


def _file_and_name(source: Source, path: KeyPath, named: object, file: Path) -> tuple[Path, str]:
    text, colon, name = named.rpartition(":") if isinstance(named, str) else ("", "", "")
    if not colon or not name.isidentifier():
        valid = "file.py:Class" if path[-1] == "mininet" else "file.py:function"
        raise source.error(path, f"{shown(named)}; valid: {valid}")
    return _file(source, path, text, file), name


def _call(
    source: Source, path: KeyPath, file: Path, name: str, parameters: Mapping[str, Any]
) -> Any:
    """What the user's function or class returns for the parameters."""
    try:
        module = _module(file)
        wanted = getattr(module, name, None)
        if not callable(wanted):
            there = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
            raise source.error(path, f"{file}: no {among(name, there or ['none'])}")
        return wanted(**parameters)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        frames = [
            one for one in traceback.extract_tb(error.__traceback__) if one.filename == str(file)
        ]
        line = f":{frames[-1].lineno}" if frames else ""
        text = f"{file}{line}: {type(error).__name__}: {error}"
        raise source.error(path, f"{name} failed: {text}") from None


def _module(file: Path) -> ModuleType:
    """The user's file as a module; it may import what is beside it."""
    spec = importlib.util.spec_from_file_location(f"_topology_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise ImportError("not a Python file; valid: file.py")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(file.parent))
    return module


def _read_graphml(source: Source, path: KeyPath, file: Path) -> nx.Graph[Hashable]:
    import networkx as nx

    if file.stat().st_size > MAX_FILE:
        raise source.error(path, f"{file}: above {MAX_FILE >> 20} MiB; valid: a smaller file")
    try:
        graph: nx.Graph[Hashable] = nx.read_graphml(file)
        tags = [one.tag.rpartition("}")[2] for _, one in ElementTree.iterparse(file)]
    except Exception as error:  # networkx passes on what its parser and its conversions raise
        raise source.error(path, f"{file}: not GraphML: {error}") from None
    if (graphs := tags.count("graph")) > 1:  # networkx takes the first
        raise source.error(path, f"{file}: {graphs} graphs; valid: a file of one")
    for _, data in graph.nodes(data=True):
        data.pop("place", None)  # GraphML has no lists, so it is a name or the like
    return graph


# ------------------------------------------------------------------------------- what they describe


def _is_graph(made: object) -> TypeGuard[nx.Graph[Hashable]]:
    import networkx as nx

    return isinstance(made, nx.Graph)


def _of_result(made: object, scale: float) -> dict[str, Any]:
    """The network that a user's function returned: a networkx graph, or a mapping with the keys of
    `topology`."""
    if _is_graph(made):
        return _of_graph(made, scale)
    if not isinstance(made, dict):
        raise ValueError(f"it returns {type(made).__name__}; valid: a networkx graph, or a mapping")
    try:
        plain = json.loads(json.dumps(made, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"what it returns is no plain data: {error}") from None
    if found := [form for form in FORMS if form in plain]:
        raise ValueError(f"it returns {found[0]!r} again; valid: tree, random or nodes")
    for key in ("links", "names"):
        if not isinstance(plain.get(key, {}), dict):
            raise ValueError(f"its {key!r} is {shown(plain[key])}; valid: a mapping")
    return dict(plain)


def _of_graph(graph: nx.Graph[Hashable], scale: float) -> dict[str, Any]:
    """Of nodes: `name` or `label`, and `Longitude` with `Latitude`, or `place`. Of links: keys of
    the experiment's links, `LinkSpeedRaw` in bit/s, and a delay by the ends' coordinates. What is
    missing remains as `link` says."""
    numbers = _numbers(graph.nodes)
    coordinates = {
        node: (_degrees(node, data, "Longitude", 360), _degrees(node, data, "Latitude", 90))
        for node, data in graph.nodes(data=True)
        if _is_number(data.get("Longitude")) and _is_number(data.get("Latitude"))
    }
    labels = {}
    for node, data in graph.nodes(data=True):
        label = data.get("name", data.get("label", node))
        labels[node] = " ".join(str(label).split()) or str(node)  # drawings break lines
    links: dict[str, dict[str, Any]] = {}
    rates: dict[str, float] = {}
    for a, b, data in graph.edges(data=True):
        if a == b:
            continue
        name = f"{numbers[a]}-{numbers[b]}"
        if f"{numbers[b]}-{numbers[a]}" in links:
            name = f"{numbers[b]}-{numbers[a]}"
        change = {key: data[key] for key in _OF_A_LINK if key in data}
        speed, own = data.get("LinkSpeedRaw", 0), _rate_of(change)
        rate = max(0.0, float(speed) * scale) if _is_number(speed) else 0.0
        if math.isinf(rate):
            raise ValueError(
                f"link {a}-{b}: LinkSpeedRaw {shown(speed)} times rate_scale {shown(scale)}; "
                f"valid: up to {format_rate(MAX_RATE)}"
            )
        if name in links and (own or rate) <= rates[name]:
            continue  # of parallel links, the fastest
        rates[name] = own or rate
        if rate and "rate" not in change:
            change["rate"] = f"{max(1, round(rate))}bit/s"
        if "delay" not in change and a in coordinates and b in coordinates:
            metres = great_circle(coordinates[a], coordinates[b])
            change["delay"] = f"{round(metres / LIGHT_IN_FIBRE * 1e9)}ns"
        links[name] = change
    found: dict[str, Any] = {
        "nodes": sorted(numbers.values()),
        "links": links,
        "names": _unique({str(numbers[node]): labels[node] for node in graph.nodes}),
    }
    if places := _map_of(coordinates) or {
        node: _place(node, data["place"])
        for node, data in graph.nodes(data=True)
        if "place" in data
    }:
        found["places"] = {str(numbers[node]): place for node, place in places.items()}
    return found


def _rate_of(change: Mapping[str, Any]) -> float:
    """The rate that a link says in the experiment's words; 0 without one, or for one that is none,
    which is refused when the network is read."""
    try:
        return parse_rate(change.get("rate"))
    except ValueError:
        return 0.0


def _degrees(node: Hashable, data: Mapping[str, Any], key: str, most: int) -> float:
    value = float(data[key])
    if abs(value) > most:
        raise ValueError(f"node {node}: {key} is {shown(value)}; valid: {-most} to {most}")
    return value


def _place(node: Hashable, place: Any) -> list[float]:
    try:
        x, y = map(float, () if isinstance(place, str) else place)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"the place of node {node} is {shown(place)}; valid: two numbers, [x, y]"
        ) from None
    return [x, y]


def great_circle(a: tuple[float, float], b: tuple[float, float]) -> float:
    """The distance in m between two places on a sphere, given as longitude and latitude in
    degrees (the haversine formula)."""
    (x1, y1), (x2, y2) = (tuple(map(math.radians, one)) for one in (a, b))
    half = math.sin((y2 - y1) / 2) ** 2
    half += math.cos(y1) * math.cos(y2) * math.sin((x2 - x1) / 2) ** 2
    return 2 * EARTH_RADIUS * math.asin(min(1.0, math.sqrt(half)))


def _map_of(coordinates: Mapping[Hashable, tuple[float, float]]) -> dict[Hashable, list[float]]:
    """Places on a map that is true to scale at the middle latitude."""
    if not coordinates:
        return {}
    latitudes = [latitude for _, latitude in coordinates.values()]
    width = math.cos(math.radians((min(latitudes) + max(latitudes)) / 2))
    return {node: [round(x * width, 6), y] for node, (x, y) in coordinates.items()}


def _of_topo(topo: Any) -> dict[str, Any]:
    """A Mininet Topo: its hosts, switches, and links with bw (Mbit/s), delay, jitter, loss (%) and
    max_queue_size (packets)."""
    for method in ("nodes", "links", "isSwitch", "nodeInfo"):
        if not callable(getattr(topo, method, None)):
            raise ValueError(f"it is {type(topo).__name__}; valid: a subclass of mininet.topo.Topo")
    names = list(topo.nodes(sort=False))
    numbers = {name: number for number, name in enumerate(names)}
    for name in names:
        ignored = _IGNORED_OF_SWITCHES if topo.isSwitch(name) else _IGNORED_OF_HOSTS
        _refuse(name, topo.nodeInfo(name), ignored)
    links: dict[str, dict[str, Any]] = {}
    degree = dict.fromkeys(names, 0)
    for a, b, options in topo.links(sort=False, withInfo=True):
        place = f"link {a}-{b}"
        first, second = sorted((a, b), key=lambda one: numbers[one])
        name = f"{numbers[first]}-{numbers[second]}"
        if name in links:
            raise ValueError(f"{place}: a second link between them; valid: one")
        links[name] = _of_tc(place, options)
        degree[a] += 1
        degree[b] += 1
    for name in names:
        if not topo.isSwitch(name) and degree[name] != 1:
            raise ValueError(f"host {name} has {degree[name]} links; valid: 1")
    return {
        "nodes": list(numbers.values()),
        "links": links,
        "names": {str(number): name for name, number in numbers.items()},
    }


def _of_tc(place: str, options: Mapping[str, Any]) -> dict[str, Any]:
    known = {"bw", "delay", "jitter", "loss", "max_queue_size", "cls", "params1", "params2"}
    merged = {key: value for key, value in options.items() if value is not None}
    _refuse(place, {k: v for k, v in merged.items() if k not in known}, _IGNORED_OF_LINKS)
    if getattr(merged.get("cls"), "__name__", "Link") not in _PLAIN_LINKS:
        raise ValueError(f"{place}: cls {merged['cls'].__name__}; valid: {listed(_PLAIN_LINKS)}")
    ends = [merged.get("params1") or {}, merged.get("params2") or {}]
    if ends[0] != ends[1]:
        raise ValueError(f"{place}: params1 and params2 differ; valid: the same of both ends")
    if ends[0]:
        return _of_tc(place, {**{k: v for k, v in merged.items() if k[:6] != "params"}, **ends[0]})
    found: dict[str, Any] = {}
    for key in ("bw", "loss", "max_queue_size"):
        if key in merged and not _is_number(merged[key]):
            raise ValueError(f"{place}: {key} is {shown(merged[key])}; valid: a number")
    if "bw" in merged:
        found["rate"] = f"{round(float(merged['bw']) * 1e6)}bit/s"
    if "max_queue_size" in merged:
        found["queue"] = f"{int(merged['max_queue_size'])}p"
    if merged.get("loss"):
        found["loss"] = f"{float(merged['loss']):g}%"
    for key in ("delay", "jitter"):
        if key in merged:
            # tc takes a plain number as microseconds.
            value = merged[key]
            found[key] = f"{value}us" if _is_number(value) else value
    return found


def _refuse(place: str, options: Mapping[str, Any], ignored: Iterable[str]) -> None:
    for key, value in options.items():
        if key not in ignored and value is not None:
            value = getattr(value, "__name__", value)
            raise ValueError(f"{place}: {key}={shown(value)} has no translation; valid: without it")


def _numbers(nodes: Iterable[Hashable]) -> dict[Hashable, int]:
    """Nodes keep their numbers if all have one; otherwise they are numbered in their order."""
    listed_nodes = list(nodes)
    own = [int(str(node)) for node in listed_nodes if _is_node(str(node))]
    if len(set(own)) == len(listed_nodes) and max(own, default=0) <= 65535:
        return dict(zip(listed_nodes, own, strict=True))
    return {node: number for number, node in enumerate(listed_nodes)}


def _unique(names: dict[str, str]) -> dict[str, str]:
    """Names of several nodes get their numbers, too, and so does one that is then like theirs."""
    while twice := {name for name, seen in Counter(names.values()).items() if seen > 1}:
        names = {
            number: f"{name} ({number})" if name in twice else name
            for number, name in names.items()
        }
    return names


def _is_node(text: str) -> bool:
    """Whether it is a node's number. Not isdigit, which is true of "²", too."""
    return re.fullmatch("[0-9]{1,6}", text) is not None


def _is_number(value: object) -> bool:
    try:
        return not isinstance(value, bool) and math.isfinite(float(value))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False


# ------------------------------------------------------------------------------- names of nodes


def _renamed(source: Source, links: Mapping[str, Any]) -> dict[str, Any]:
    """The links with numbers instead of names."""
    link = _links_by_name(source)
    return {link(("topology", "links", name), name): change for name, change in links.items()}


def _numbers_by_name(topology: Mapping[str, Any]) -> dict[str, int]:
    names = topology.get("names")
    if not isinstance(names, dict):
        return {}
    return {str(name): int(node) for node, name in names.items() if _is_node(str(node))}


def _links_by_name(source: Source) -> Callable[[KeyPath, str], str]:
    """What gives a link, or a direction, at a key path its name in numbers. Other text stays as it
    is. Two numbers are numbers, whatever nodes are called."""
    topology = source.data["topology"]
    known = _link_names(topology)
    numbers = _numbers_by_name(topology)

    def link(path: KeyPath, text: str) -> str:
        if text in known:
            return _only(source, path, text, known[text])
        if "nodes" in topology:  # all links are listed
            return text
        # The links of a tree are not: parent first, whose number is the lower one.
        found = [
            f"{a}>{b}" if sign == ">" else f"{min(a, b)}-{max(a, b)}"
            for a, sign, b in _ends_by_name(text, numbers)
        ]
        return _only(source, path, text, found) if found else text

    return link


def _only(source: Source, path: KeyPath, text: str, found: Collection[str]) -> str:
    """Raises InputError where names that contain a `-` make a text the name of several links."""
    if len(several := list(dict.fromkeys(found))) > 1:
        raise source.error(
            path, f"{shown(text)} names several links; valid: one by its numbers, {listed(several)}"
        )
    return several[0]


def _ends_by_name(text: str, numbers: Mapping[str, int]) -> list[tuple[int, str, int]]:
    """The nodes of a link or a direction, and the sign between them, if it names at least one of
    them. A name may contain the sign, so there may be several ways to read it."""
    if _IN_NUMBERS.fullmatch(text):
        return []
    found = []
    for sign in re.finditer("[->]", text):
        ends = text[: sign.start()], text[sign.end() :]
        if numbers.keys() & set(ends) and all(one in numbers or _is_node(one) for one in ends):
            a, b = (numbers[one] if one in numbers else int(one) for one in ends)
            found.append((a, sign[0], b))
    return found


def _link_names(topology: Mapping[str, Any]) -> dict[str, list[str]]:
    """The names of the links, and of their directions, by all that a user may write for them."""
    names = topology.get("names")
    links = topology.get("links")
    found: dict[str, list[str]] = {}
    if not isinstance(names, dict) or not isinstance(links, dict):
        return found

    def add(text: str, means: str) -> None:
        if not _IN_NUMBERS.fullmatch(text):
            found.setdefault(text, []).append(means)

    for link in links:
        a, dash, b = link.partition("-")
        if not dash:
            continue
        first, second = str(names.get(a, a)), str(names.get(b, b))
        for x, y in ((first, second), (first, b), (a, second)):
            add(f"{x}-{y}", link)
            add(f"{y}-{x}", link)
            add(f"{x}>{y}", f"{a}>{b}")
            add(f"{y}>{x}", f"{b}>{a}")
        found[f"{b}-{a}"] = [link]
    return found


def _require_unique_names(source: Source) -> None:
    before: set[str] = set()
    for node, name in source.data["topology"]["names"].items():
        if str(name) in before:
            path = ("topology", "names", str(node))
            raise source.error(path, f"{shown(name)} is given twice; valid: once")
        before.add(str(name))


def _number_links(source: Source) -> None:
    """Replaces names of nodes by their numbers in the keys of `links`."""
    topology = source.data["topology"]
    numbers = _numbers_by_name(topology)
    path = ("topology", "links")
    links = topology.get("links")
    if not isinstance(links, dict):
        return
    renamed: dict[str, str] = {}
    by_number: dict[str, Any] = {}
    for link, keys in links.items():
        name = link
        found = [
            f"{a}-{b}" if "nodes" in topology else f"{min(a, b)}-{max(a, b)}"
            for a, sign, b in _ends_by_name(link, numbers)
            if sign == "-"
        ]
        if found:
            name = renamed[link] = _only(source, (*path, link), link, found)
        if name in by_number:
            raise source.error((*path, link), f"link {name} is given twice; valid: once")
        by_number[name] = keys
    _copy_places(source, path, renamed)
    topology["links"] = by_number


def _copy_places(source: Source, path: KeyPath, renamed: Mapping[str, str]) -> None:
    """Keys below `path` have the places that they had under their former names."""
    depth = len(path)
    for at, place in list(source.places.items()):
        if len(at) > depth and at[:depth] == path and at[depth] in renamed:
            source.places[(*path, renamed[at[depth]], *at[depth + 1 :])] = place


def _number_nodes(source: Source) -> None:
    """Replaces names of nodes by their numbers wherever an experiment names nodes or links."""
    data = source.data
    topology = data["topology"]
    numbers = _numbers_by_name(topology)
    link = _links_by_name(source)

    def number(path: KeyPath, value: object, keywords: Iterable[str]) -> object:
        if not isinstance(value, str) or value in keywords:
            return value
        if value not in numbers:
            raise source.error(
                path, f"no node {shown(value)}; valid: {listed(numbers)}{closest(value, numbers)}"
            )
        return numbers[value]

    def each(key: str, of: tuple[str, ...], keywords: Iterable[str] = ()) -> None:
        for at, entry in _entries(data, key):
            for part in of:
                value = entry.get(part)
                path = (*at, part)
                if isinstance(value, list):
                    entry[part] = [number((*path, str(i)), v, ()) for i, v in enumerate(value)]
                elif value is not None and part not in ("receivers", "senders"):  # lists
                    entry[part] = number(path, value, keywords)

    each("sessions", ("sender", "senders", "receivers"), ("leaves",))
    for at, session in _entries(data, "sessions"):
        if isinstance(lies := session.get("lies"), dict):
            session["lies"] = {
                str(node if _is_node(node) else number((*at, "lies", node), node, ())): lie
                for node, lie in lies.items()
            }
    each("traffic", ("from", "to"), ("parents", "receivers", "children"))
    each("multicast", ("senders",))
    each("members", ("receivers",))
    each("churn", ("receivers",), ("all",))
    each("expect", ("receiver",))
    each("state", ("node",))
    for key in ("events", "expect", "trace", "state"):
        for at, entry in _entries(data, key):
            if isinstance(entry.get("link"), str):
                entry["link"] = link((*at, "link"), entry["link"])
    drawn = topology.get("drawn")
    if isinstance(drawn, dict) and isinstance(drawn.get("links"), list):
        drawn["links"] = [
            link(("topology", "drawn", "links", str(index)), one) if isinstance(one, str) else one
            for index, one in enumerate(drawn["links"])
        ]
    if isinstance(switches := topology.get("switches"), dict):
        path = ("topology", "switches")
        by_number: dict[str, Any] = {}
        renamed: dict[str, str] = {}
        for node, keys in switches.items():
            name = node if _is_node(node) else str(number((*path, node), node, ()))
            if name in by_number:
                raise source.error((*path, node), f"node {name} is given twice; valid: once")
            by_number[name] = keys
            renamed[node] = name
        # Files that a switch names are relative to the file that has the key.
        _copy_places(source, path, renamed)
        topology["switches"] = by_number


def _entries(data: Mapping[str, Any], key: str) -> list[tuple[KeyPath, dict[str, Any]]]:
    """The entries of a list, or the only one that stands there without a list, and their paths."""
    value = data.get(key)
    if isinstance(value, dict):
        return [((key,), value)]
    entries = value if isinstance(value, list) else []
    return [((key, str(i)), entry) for i, entry in enumerate(entries) if isinstance(entry, dict)]
