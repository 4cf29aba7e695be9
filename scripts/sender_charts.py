"""Draws sender-*.svg: the results of bench_sender.py, and for `make charts` those in
docs/images."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.typing import RcKeyType  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
SIZE = (7.2, 3.8)  # inches
# The same rows give the same bytes.
STABLE: dict[RcKeyType, Any] = {"svg.hashsalt": "tiercast", "svg.fonttype": "none", "font.size": 9}
COLOURS = ("#1f6fb4", "#d2691e", "#2e8b57")
LIMIT_STYLES = {"bare_loop": ":", "testpmd": "--"}


def packets(results: dict[str, Any]) -> Figure:
    """Packets/s over the number of layers on net_null, one line per packet size, beside the
    machine's limits."""
    figure, axes = plt.subplots(figsize=SIZE, layout="constrained")
    rows = [row for row in results["throughput"] if row["device"] == "net_null"]
    for colour, size in zip(COLOURS, sorted({row["size"] for row in rows}), strict=False):
        line = [(row["layers"], row["packets_per_s"] / 1e6) for row in rows if row["size"] == size]
        axes.plot(*zip(*line, strict=True), "o-", color=colour, label=f"tiercast-send, {size} B")
        for name, style in LIMIT_STYLES.items():
            limit = results["limits"][str(size)][name]["packets_per_s"] / 1e6
            axes.axhline(limit, color=colour, ls=style, lw=1, alpha=0.7)
    axes.plot([], [], ":", color="grey", label="bare loop, unpaced")
    axes.plot([], [], "--", color="grey", label="dpdk-testpmd txonly")
    axes.set(xscale="log", xlabel="layers", ylabel="million packets/s, one core", ylim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, ncols=2)
    return figure


def gaps(results: dict[str, Any]) -> Figure:
    """Gap error over the rate, for tiercast-send and the bare loop, measured in turns."""
    figure, axes = plt.subplots(figsize=SIZE, layout="constrained")
    rows = results["gaps"]
    rates = [row["rate"] for row in rows]
    for colour, name, label in zip(
        COLOURS, ("sender", "bare_loop"), ("tiercast-send", "bare loop"), strict=False
    ):
        for quantile, style in (("p50_ns", ":"), ("p99_ns", "o-"), ("p999_ns", "--")):
            values = [max(row[name][quantile], 1) for row in rows]
            axes.plot(rates, values, style, color=colour, label=f"{label} {quantile[:-3]}")
    axes.set(xscale="log", yscale="log", xlabel="packets/s of one layer", ylabel="gap error, ns")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, ncols=2)
    return figure


def draw(results: dict[str, Any], folder: Path) -> list[Path]:
    written = []
    with plt.rc_context(STABLE):
        for name, make in (("packets", packets), ("gaps", gaps)):
            figure = make(results)
            path = folder / f"sender-{name}.svg"
            figure.savefig(path, metadata={"Date": None})
            plt.close(figure)
            written.append(path)
    return written


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, nargs="?", default=ROOT / "results/bench/sender.json")
    parser.add_argument("--folder", type=Path, default=ROOT / "docs/images")
    options = parser.parse_args()
    for drawn in draw(json.loads(options.results.read_text()), options.folder):
        print(drawn)
