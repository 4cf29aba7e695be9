"""The goals of `make bench-sender` beside what was measured, and the table that it prints."""

from __future__ import annotations

from typing import Any

FEEDBACK_KINDS = ("sound", "forged")
LAB_PACKETS_PER_S = 750


def goals(results: dict[str, Any]) -> list[dict[str, Any]]:
    """The goals with the measured figures. Goals without a figure are left out."""
    found: list[dict[str, Any]] = []

    def judge(goal: str, measured: float, met: bool) -> None:
        found.append({"goal": goal, "measured": measured, "met": bool(met)})

    reached = {(r["layers"], r["size"]): r["packets_per_s"] for r in results.get("throughput", [])}
    for layers, wanted in ((1000, 20e6), (100_000, 14.88e6)):
        if (layers, 64) in reached:
            measured = reached[layers, 64]
            judge(f"{wanted / 1e6:g} M packets/s of 64 bytes, paced, over {layers:,} layers",
                  measured, measured >= wanted)  # fmt: skip
    for row in results.get("two_cores", []):
        judge(f"two cores, {row['layers']:,} layers: at least 1.9 times one core's packets/s",
              row["ratio"], row["ratio"] >= 1.9)  # fmt: skip
    for row in results.get("gaps", []):
        judge(f"gap error p99 at {row['rate']:,.0f} packets/s at most 1.5 times the bare loop's",
              row["p99_ratio"], row["p99_ratio"] <= 1.5)  # fmt: skip
    for row in results.get("rate_errors", []):
        judge(f"{row['packets_per_s'] / 1e6:g} M packets/s over {row['layers']:,} layers: rate of "
              f"each within 0.1 % or a packet over {row['seconds']:.0f} s",
              row["worst"], row["layers_off"] == 0)  # fmt: skip
    for cores in ("two cores", "one core") if "feedback" in results else ():
        feedback = results["feedback"][cores]
        for kind in FEEDBACK_KINDS:
            one = feedback[kind]
            lost = one["refused"] + one["feedback_ring_full"]
            judge(f"{cores}, 1 M {kind} feedback packets/s: share lost",
                  lost / max(one["offered"], 1), lost <= 0.001 * one["offered"])  # fmt: skip
            ratio = feedback[f"{kind}_late_p99_ratio"]
            judge(f"{cores}, lateness p99 with 1 M {kind} feedback packets/s at most doubled",
                  ratio, ratio <= 2)  # fmt: skip
    if "lab" in results:
        lab = results["lab"]
        for what, key, most in (("packets lost", "lost", 0),
                                ("lateness p99, us", "late_p99_us", 2000),
                                ("tiercast-send's share of a CPU", "sender_cpu", 0.2),
                                ("tiercast-host's share of a CPU", "host_cpu", 0.1)):  # fmt: skip
            judge(f"a lab's pair at {LAB_PACKETS_PER_S} packets/s: {what}, at most {most}",
                  lab[key], lab[key] <= most)  # fmt: skip
    return found


def table(results: dict[str, Any]) -> str:
    lines = ["", "packets/s of one core, paced (bare loop and testpmd: unpaced)"]
    for size, limits in results.get("limits", {}).items():
        figures = (f"{name} {one['packets_per_s'] / 1e6:.1f} M" for name, one in limits.items())
        lines.append(f"  {size:>5} B " + "  ".join(figures))
    for row in [*results.get("throughput", []), *results.get("ring_throughput", [])]:
        lines.append(f"  {row['size']:>5} B {row['device']:>9} {row['layers']:>7} layers "
                     f"{row['packets_per_s'] / 1e6:8.2f} M")  # fmt: skip
    for row in results.get("two_cores", []):
        one, other, two = (row[name]["packets_per_s"] / 1e6 for name in ("one", "other", "two"))
        lines.append(f"  {row['layers']:>7} layers on net_null: one core "
                     f"{(one + other) / 2:.2f} M, "
                     f"two {two:.2f} M: x {row['ratio']:.2f}")  # fmt: skip
    lines.append("gap error, ns             bare p50    p99   p99.9   sender p50    p99   p99.9")
    for row in results.get("gaps", []):
        columns = "".join(f"{row[name][quantile]:10.0f}" for name in ("bare_loop", "sender")
                          for quantile in ("p50_ns", "p99_ns", "p999_ns"))  # fmt: skip
        lines.append(f"  {row['rate']:>12,.0f} packets/s {columns}   x {row['p99_ratio']:.2f}")
    lines.append("goals")
    for goal in results["goals"]:
        lines.append(f"  {'met' if goal['met'] else 'NOT':4}{goal['goal']}: {goal['measured']:.4g}")
    return "\n".join(lines)
