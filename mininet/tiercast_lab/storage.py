"""results/<run>/: a run's rows, what is known of it, and how both are read again.

rows/<kind>.parquet   one table per kind of record, columns as in docs/experiments.md
summary.json          experiment, seed, versions, machine, validity, measures, expected figures
metadata.json         interfaces, qdiscs, offloads, sysctls and counters before and after
logs/                 output of every process
plots/, report.html   made from the above alone
"""

from __future__ import annotations

import json
import math
import os
import secrets
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from tiercast_lab.errors import InputError
from tiercast_lab.experiment import Loaded, member_name
from tiercast_lab.measures import Context, measures_version, spec_of

FORMAT = 1  # of summary.json and rows/


class Recorder:
    """Collects rows in memory while a run goes on; numbers only, beside `agent`."""

    def __init__(self) -> None:
        self._rows: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def add(self, kind: str, time_s: float, agent: str, fields: dict[str, float]) -> None:
        self._rows[kind].append({"time_s": time_s, "agent": agent, **fields})

    def last(self, kind: str) -> list[dict[str, Any]]:
        return self._rows.get(kind, [])

    def frames(self) -> dict[str, pl.DataFrame]:
        return {
            kind: pl.DataFrame(rows, infer_schema_length=None).sort("time_s", maintain_order=True)
            for kind, rows in sorted(self._rows.items())
        }


def new_run_id(results: Path) -> str:
    """Four hexadecimal digits that no stored run of this folder has."""
    taken = {path.name.rpartition("-")[2] for path in results.glob("*")}
    while (run := secrets.token_hex(2)) in taken:
        pass
    return run


def make_run_directory(results: Path, name: str, run: str) -> Path:
    path = results / f"{time.strftime('%Y%m%d-%H%M%S')}-{name}-{run}"
    (path / "logs").mkdir(parents=True)
    return path


def write_rows(directory: Path, frames: dict[str, pl.DataFrame]) -> None:
    (directory / "rows").mkdir(exist_ok=True)
    for kind, frame in frames.items():
        frame.write_parquet(directory / "rows" / f"{kind}.parquet")


def write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(to_json(value) + "\n")


def to_json(value: Any) -> str:
    return json.dumps(_finite(value), indent=2)


def _finite(value: Any) -> Any:
    """JSON has no NaN; a figure that is not a number is null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def point_latest(directory: Path) -> None:
    """Replaces results/latest in one step, so that a reader never finds it missing."""
    link = directory.parent / "latest"
    scratch = directory.parent / f".latest-{directory.name}"
    scratch.symlink_to(directory.name)
    os.replace(scratch, link)


def network_facts(loaded: Loaded) -> dict[str, Any]:
    """The topology as the report and the measures need it, without the YAML."""
    session, topology = loaded.experiment.sessions[0], loaded.topology
    flows = {
        name: {
            "from": flow.source,
            "to": flow.destination,
            "directions": topology.directions(flow.source, flow.destination),
            "kind": flow.kind,
            "rival": flow.rival,
            "start_s": flow.start_s,
            "stop_s": flow.stop_s,
            "packet_size": loaded.experiment.traffic[flow.entry].packet_size,
        }
        for name, flow in loaded.flows.items()
    }
    contenders = {name: flow for name, flow in flows.items() if flow["rival"]}
    users = Counter(direction for flow in contenders.values() for direction in flow["directions"])
    receivers = {}
    for node in loaded.recorded[0]:
        path = topology.path(session.sender, node)
        directions = topology.directions(session.sender, node)
        link, share = topology.bottleneck(session.sender, node, users)
        direction = directions[path.index(link)]
        receivers[f"h{node}"] = {
            "node": node,
            "path": path,
            "directions": directions,
            "bottleneck": link,
            "share": share,
            "rivals": [
                name for name, flow in contenders.items() if direction in flow["directions"]
            ],
            "available": available_steps(loaded, node),
            "absences": absences(loaded, node),
        }
    return {
        "sender": f"h{session.sender}",
        "sender_node": session.sender,
        "senders": [
            [one.session, member_name(one.sender, one.session if index else None)]
            for index, one in enumerate(loaded.experiment.sessions)
        ],
        "links": {
            link.name: {
                "rate": link.parameters.rate,
                "delay_ns": link.parameters.delay,
                "queue": str(link.parameters.queue),
            }
            for link in topology.links.values()
            if not link.attaches
        },
        "receivers": receivers,
        "members": [
            member_name(node, session.session if index else None)
            for index, (session, nodes) in enumerate(
                zip(loaded.experiment.sessions, loaded.recorded, strict=True)
            )
            for node in nodes
        ],
        "flows": flows,
        "round_trip_s": topology.round_trip(session.sender, loaded.receivers[0]) / 1e9,
    }


def absences(loaded: Loaded, node: int) -> list[tuple[float, float]]:
    """Intervals, s, in which the receiver has left, as `members` says."""
    result = []
    since = None if loaded.experiment.first_join(node) is None else 0.0
    for change in loaded.experiment.member_changes:
        if node not in change.receivers:
            continue
        if not change.joins and since is None:
            since = change.at / 1e9
        elif change.joins and since is not None:
            result.append((since, change.at / 1e9))
            since = None
    if since is not None:
        result.append((since, loaded.experiment.duration / 1e9))
    return result


def available_steps(loaded: Loaded, node: int) -> list[tuple[float, float]]:
    """(time_s, bit/s): the smallest rate on the receiver's path, as the events change it."""
    path = loaded.topology.path(loaded.experiment.sessions[0].sender, node)
    rates = {name: loaded.topology.links[name].parameters.rate for name in path}
    steps = [(0.0, float(min(rate for rate in rates.values() if rate)))]
    for event in loaded.experiment.link_events:
        if event.link in rates and event.rate is not None:
            rates[event.link] = event.rate
            steps.append((event.at / 1e9, float(min(rate for rate in rates.values() if rate))))
    return steps


def context_of(summary: dict[str, Any]) -> Context:
    network = summary["network"]
    # Runs of before there was competing traffic have neither flows nor rivals.
    flows, receivers = network.get("flows", {}), network["receivers"]
    rivals = {agent: tuple(facts.get("rivals", ())) for agent, facts in receivers.items()}
    if not summary.get("layered", True):
        # One rate for all follows the smallest share: RLA's soft bottleneck.
        least = min(facts["share"] for facts in receivers.values())
        rivals = {a: names for a, names in rivals.items() if receivers[a]["share"] == least}
    return Context(
        window=tuple(summary["window_s"]),
        sender=network["sender"],
        layers=summary["layers"],
        available={
            agent: [tuple(step) for step in facts["available"]]
            for agent, facts in network["receivers"].items()
        },
        round_trip=network["round_trip_s"],
        bottlenecks={
            agent: facts["directions"][facts["path"].index(facts["bottleneck"])]
            for agent, facts in receivers.items()
            if "directions" in facts
        },
        flows={
            name: (flow["start_s"], flow["stop_s"])
            for name, flow in flows.items()
            if flow.get("rival", True)
        },
        rivals={agent: names for agent, names in rivals.items() if names},
        absences={
            agent: [tuple(interval) for interval in facts.get("absences", ())]
            for agent, facts in receivers.items()
        },
        members=tuple(network.get("members", receivers)),
        periods={name: tuple(ends) for name, ends in summary.get("periods_s", {}).items()},
        senders=dict(network.get("senders", [[1, network["sender"]]])),
        packet_sizes={
            name: flow["packet_size"] for name, flow in flows.items() if "packet_size" in flow
        },
    )


@dataclass(frozen=True)
class StoredRun:
    directory: Path
    summary: dict[str, Any]

    @cached_property
    def rows(self) -> dict[str, pl.DataFrame]:
        return {
            path.name.removesuffix(".parquet"): pl.read_parquet(path)
            for path in sorted((self.directory / "rows").glob("*.parquet"))
        }

    @property
    def context(self) -> Context:
        return context_of(self.summary)

    @property
    def scheme(self) -> str:
        return self.summary["experiment"]["sessions"][0]["scheme"]


def load_run(directory: Path) -> StoredRun:
    """InputError where the folder holds no run of this format."""
    path = directory / "summary.json"
    try:
        summary = json.loads(path.read_text())
    except OSError as error:
        stored = sorted(found.parent.name for found in directory.parent.glob("*/summary.json"))
        newest = f", such as {stored[-1]}" if stored else ""
        valid = f"valid: a folder below results/{newest}"
        raise InputError(f"{path}: {error.strerror}; {valid}") from None
    except ValueError as error:
        raise InputError(f"{path}: not JSON: {error}") from None
    if not isinstance(summary, dict) or summary.get("format") != FORMAT:
        seen = summary.get("format") if isinstance(summary, dict) else None
        raise InputError(f"{path}: format {seen!r}; valid: {FORMAT}")
    return StoredRun(directory, summary)


def measured(measures: dict[str, float | None]) -> dict[str, Any]:
    """The part of a summary that says what was measured, and by which version."""
    return {
        "measures": {
            name: {"value": value, "unit": spec_of(name)[0].unit}
            for name, value in measures.items()
        },
        "measured_by": measures_version(),
    }
