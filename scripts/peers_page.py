"""Writes docs/peers.md from stored runs of experiments/peers-*.yaml.

usage: .venv/bin/python scripts/peers_page.py RUN...   (folders below results/)
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / folder) for folder in ("build/python", "controller", "mininet")]
from tiercast_lab.base.errors import LabError  # noqa: E402
from tiercast_lab.measures import Rows  # noqa: E402
from tiercast_lab.measures.rows import increase  # noqa: E402
from tiercast_lab.results.storage import StoredRun, load_run  # noqa: E402

PAGE = ROOT / "docs/peers.md"
# In the order of the table: by congestion control of TCP, or scheme.
RIVALS = {
    "reno": "TCP Reno", "cubic": "TCP CUBIC", "bbr": "TCP BBR", "ermcc": "ERMCC", "mlda": "MLDA",
    "rla": "RLA", "mdpcc": "MDP-CC", "tfmcc": "TFMCC", "sim": "SIM",
}  # fmt: skip
RECEIVES = {"NORM": "tiercast-norm receive", "UFTP": "uftpd"}  # in a receiver's command line


@dataclass(frozen=True)
class Side:
    """What a peer and its rival had on one bottleneck of a run: rates in bit/s of IP bytes,
    feedback of all three receivers in packets/s, what the fourth one waited in s. None: there is
    none."""

    rate: float
    feedback: float
    waited: float | None
    rival_rate: float
    rival_feedback: float | None
    rival_waited: float | None


def rival_of(run: StoredRun) -> str:
    flows = [one for one in run.summary["experiment"]["traffic"] if one["kind"] == "tcp"]
    return str(flows[0]["congestion_control"]) if flows else run.scheme


def sides(run: StoredRun) -> dict[str, Side]:
    """Both bottlenecks of a run, by peer. Raises LabError if the run is none of peers-*.yaml, or
    cannot be believed."""
    experiment = run.summary["experiment"]
    entries = [one for one in experiment.get("traffic", []) if one["kind"] == "command"]
    receivers: dict[str, list[str]] = {peer: [] for peer in RECEIVES}
    late: dict[str, str] = {}
    for number, one in enumerate(entries, 1):
        for peer, text in RECEIVES.items():
            if text in one["run"]:
                name = f"command{number}"
                if "start" in one:
                    late[peer] = name
                else:
                    receivers[peer].append(name)
    if late.keys() != RECEIVES.keys() or any(len(some) != 3 for some in receivers.values()):
        raise LabError(f"{run.directory}: not a run of experiments/peers-*.yaml")
    if run.summary["verdict"] in ("invalid", "incomplete"):
        raise LabError(f"{run.directory}: {run.summary['verdict']}: {'; '.join(run.reasons)}")
    start, end = map(float, run.summary["window_s"])
    result = {}
    for index, peer in enumerate(RECEIVES):
        rows = [run.rows.of("command", name) for name in receivers[peer]]
        rates = [8 * increase(one, "rx_bytes", start, end) / (end - start) for one in rows]
        packets = sum(increase(one, "tx_packets", start, end) for one in rows)
        wait = _norm_waited(run.directory / f"logs/{late[peer]}.log") if peer == "NORM" else None
        result[peer] = Side(
            sum(rates) / len(rates), packets / (end - start), wait, *_rival(run, index)
        )
    return result


def _norm_waited(log: Path) -> float | None:
    said = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return next((float(one["waited_s"]) for one in said if one["event"] == "first"), None)


def _rival(run: StoredRun, index: int) -> tuple[float, float | None, float | None]:
    """Rate, feedback and wait of the rival at a bottleneck."""
    start, end = map(float, run.summary["window_s"])

    def rate(rows: pl.DataFrame) -> float:
        return 8.0 * increase(rows, "bytes", start, end) / (end - start)

    if any(one["kind"] == "tcp" for one in run.summary["experiment"]["traffic"]):
        return rate(run.rows.of("tcp", f"tcp{index + 1}")), None, None
    session = run.summary["network"]["sessions"][index]
    absent = {name: one["absences"] for name, one in session["receivers"].items()}
    there = [name for name, away in absent.items() if not any(stop > 1 for _, stop in away)]
    (newcomer,) = absent.keys() - there
    rates = [rate(run.rows.of("received", name)) for name in there]
    suffix = f"_s{session['session']}" if index else ""
    feedback = run.summary["measures"][f"feedback_rate{suffix}"]["value"]
    return sum(rates) / len(rates), feedback, _session_waited(run.rows, newcomer)


def _session_waited(rows: Rows, name: str) -> float | None:
    joins = rows.of("join", name)
    return None if joins.is_empty() else float(joins["latency_us"][0]) / 1e6


def table(peer: str, runs: dict[str, list[Side]]) -> str:
    lines = [
        f"| beside | {peer}, kbit/s | the other, kbit/s | {peer} / the other | feedback of {peer}, "
        "packets/s | of the other | "
        + (f"wait of a fourth receiver of {peer}, ms | of the other |" if peer == "NORM" else ""),
    ]
    lines = [lines[0].rstrip(), "|---" * (lines[0].count("|") - 1) + "|"]
    for rival, some in runs.items():
        cells = [
            RIVALS[rival],
            _mean([one.rate / 1e3 for one in some]),
            _mean([one.rival_rate / 1e3 for one in some]),
            _ratios([one.rate / one.rival_rate for one in some]),
            _mean([one.feedback for one in some], digits=1),
            _mean([one.rival_feedback for one in some], digits=1),
        ]
        if peer == "NORM":
            cells += [
                _mean([None if s is None else 1e3 * s for s in waits])
                for waits in ([one.waited for one in some], [one.rival_waited for one in some])
            ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _mean(values: Iterable[float | None], digits: int = 0) -> str:
    known = [value for value in values if value is not None]
    return f"{sum(known) / len(known):.{digits}f}" if known else "–"


def _ratios(values: Sequence[float]) -> str:
    mean = f"**{sum(values) / len(values):.2f}**"
    return mean if len(values) == 1 else f"{mean} ({min(values):.2f}–{max(values):.2f})"


def page(runs: Sequence[StoredRun]) -> str:
    of_rival: dict[str, list[StoredRun]] = {rival: [] for rival in RIVALS}
    for run in runs:
        of_rival[rival_of(run)].append(run)
    found = {rival: [sides(one) for one in some] for rival, some in of_rival.items() if some}
    machine, versions = runs[0].summary["machine"], runs[0].summary["versions"]
    dates = sorted({run.summary["started"][:10] for run in runs})
    commands = sorted({_command(run) for run in runs})
    text = PAGE.read_text()
    for peer in RECEIVES:
        text = _between(
            text, peer, table(peer, {r: [one[peer] for one in s] for r, s in found.items()})
        )
    facts = (
        f"{' and '.join(dates)}, {machine['cores']} cores of {machine['cpu']}, "
        f"{machine['distribution']}, kernel {versions['kernel'].partition('-')[0]}; "
        f"{len(runs)} runs, seed {', '.join(map(str, sorted({r.summary['seed'] for r in runs})))}:"
    )
    return _between(text, "runs", "\n".join([facts, "", *(f"    {one}" for one in commands)]))


def _command(run: StoredRun) -> str:
    """How the user started it, without where it was stored."""
    given = " ".join(run.summary["command"])
    return re.sub(r" --results[= ]\S+", "", given)


def _between(text: str, name: str, new: str) -> str:
    """The text with what stands between the marks of this name replaced."""
    begin, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise LabError(f"{PAGE}: no marks {begin.strip()} and {end.strip()}")
    return before + begin + new + end + after


def main() -> int:
    if not sys.argv[1:]:
        print(__doc__)
        return 2
    try:
        PAGE.write_text(page([load_run(Path(one)) for one in sys.argv[1:]]))
    except LabError as error:
        print(f"peers_page: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
