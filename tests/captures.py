"""Reads a run's captures with tshark and our dissector."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from pathlib import Path

import polars as pl
from tiercast_wire.messages import MESSAGES

from .checkout import ROOT

DISSECTOR = ROOT / "tools/wire/tiercast.lua"
OF_NO_SESSION = (-1, -1)
COLUMNS = ("frame.interface_name", "tiercast.group.session", "tiercast.group.rank")
COLUMNS += ("tiercast.error", "_ws.col.Info", "frame.time_epoch", "frame.len", "frame.cap_len")

Counts = dict[str, Counter[tuple[int, int]]]


def frames(capture: Path, home: Path) -> list[dict[str, str]]:
    """One row of COLUMNS for each frame."""
    command = ["tshark", "-X", f"lua_script:{DISSECTOR}", "-r", str(capture), "-T", "fields"]
    command += ["-E", "separator=;", "-E", "occurrence=f"]
    for column in COLUMNS:
        command += ["-e", column]
    # Without the settings and plugins of the user who runs this.
    environment = {**os.environ, "HOME": str(home), "WIRESHARK_CONFIG_DIR": str(home)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return [dict(zip(COLUMNS, line.split(";"), strict=True)) for line in done.stdout.splitlines()]


def counted(found: list[dict[str, str]]) -> Counts:
    """The frames by direction, session and layer."""
    result: Counts = {}
    for one in found:
        session, rank = one["tiercast.group.session"], one["tiercast.group.rank"]
        place = (int(session), int(rank)) if session else OF_NO_SESSION
        result.setdefault(one["frame.interface_name"], Counter())[place] += 1
    return result


def in_rows(rows: Path, link: str) -> Counter[tuple[int, int]]:
    """What the last rows say has arrived at the end of a link: entered, and not dropped."""
    last = (
        pl.read_parquet(rows / "port.session.parquet")
        .filter(pl.col("link") == link)
        .sort("time_s")
        .unique(["session", "layer"], keep="last")
    )
    dropped = ("queue_drops", "policy_drops", "pruned", "down_drops", "link_losses")
    there = [name for name in dropped if name in last.columns]
    arrived = last.with_columns(
        arrived=pl.col("entered")
        - pl.sum_horizontal(*there)
        + (pl.col("duplicated") if "duplicated" in last.columns else 0)
    )
    counts = {(s, n): count for s, n, count in arrived["session", "layer", "arrived"].rows()}
    return Counter({place: round(count) for place, count in counts.items() if count})


def received(rows: Path, link: str) -> int:
    """The packets that came in through the port of a direction: they took the link the other
    way."""
    port = pl.read_parquet(rows / "port.parquet").filter(pl.col("link") == link).sort("time_s")
    return round(port["rx_packets"][-1])


def longest_header() -> int:
    """Bytes of the longest headers of any scheme, from the Ethernet header on."""
    longest = 0
    for message in MESSAGES:
        count = message.record_count
        records = 0 if count is None or count.most is None else count.most * message.record_bytes
        longest = max(longest, message.fixed_bytes + records)
    return 14 + 20 + 8 + longest
