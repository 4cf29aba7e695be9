"""Plots and report are made only from stored rows, and the same rows give the same bytes."""

from __future__ import annotations

import io
import re
import shutil
from html.parser import HTMLParser

import matplotlib.image
import numpy as np
import polars as pl
import pytest
from rich.console import Console
from tiercast_lab.base.errors import InputError
from tiercast_lab.measures import Rows
from tiercast_lab.results.storage import StoredRun, load_run
from tiercast_lab.show.panel_data import panel_data
from tiercast_lab.show.panels import Panel, Series
from tiercast_lab.show.plots import write_plots
from tiercast_lab.show.run_panels import all_panels
from tiercast_lab.show.run_report import write_report
from tiercast_lab.show.tables.runs import result_tables
from tiercast_lab.show.traced_report import title_of
from tiercast_lab.study.marking_results import FOUND
from tiercast_lab.study.traced_law import TracedLaw


def test_report_is_remade_byte_for_byte(stored, tmp_path) -> None:
    report = write_report(stored)
    write_plots(stored)
    copy = tmp_path / "copy"
    shutil.copytree(stored.directory, copy, ignore=shutil.ignore_patterns("plots", "report.html"))
    again = write_report(load_run(copy))
    write_plots(load_run(copy))
    assert again.read_bytes() == report.read_bytes()
    plots = sorted((stored.directory / "plots").glob("*.png"))
    assert len(plots) == 7
    for plot in plots:
        assert (copy / "plots" / plot.name).read_bytes() == plot.read_bytes()


def test_pictures_show_lines(stored) -> None:
    write_plots(stored)
    for panel in all_panels(stored):
        pixels = matplotlib.image.imread(stored.directory / "plots" / f"{panel.key}.png")
        for series in panel.series:
            wanted = [int(series.colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
            close = abs(pixels[:, :, :3] - wanted).max(axis=2) < 0.02
            # A line crosses the picture, so it has more pixels than its label.
            assert close.sum() > 150, f"{panel.key}: no line of {series.label}"


def test_panels_hold_the_stored_figures(stored) -> None:
    panels = {panel.key: panel for panel in all_panels(stored)}
    rates = panels["a-layer-rates"]
    assert [series.label for series in rates.series] == ["1 layer", "2 layers"]
    assert rates.series[1].y[-1] == pytest.approx(6.0)
    assert [(r.y, r.label) for r in rates.references] == [(6.0, "paper: 6")]
    assert panels["c-subscriptions"].series[1].y[-1] == 3
    labels = [series.label for series in panels["d-received-rates"].series]
    assert labels == ["h3 (1Mbit/s)", "h4 (6Mbit/s)"]
    assert panels["b-menu"].series[2].y[-1] == pytest.approx(4.0)  # limit_1_Bps: 5e5


def with_rows(run: StoredRun, **frames: pl.DataFrame) -> StoredRun:
    changed = StoredRun(run.directory, run.summary)
    changed.__dict__["rows"] = Rows({**run.rows, **frames})
    return changed


def test_a_title_is_no_formula(stored) -> None:
    title = "gain $\\frac{a$ per receiver"
    write_plots(StoredRun(stored.directory, stored.summary | {"title": title}))
    assert (stored.directory / "plots/figure.png").stat().st_size > 10_000


def test_charts_have_small_and_large_values_as_they_are() -> None:
    values = np.array([1.38888889e-4, 4.62962963e-5, 0.0, np.nan, 123.456789, 4.2e9])
    panel = Panel("key", "title", "unit", [Series("one", np.arange(6) / 3, values, "#000000")])
    (series,) = panel_data(panel)["series"]
    assert series["y"] == [1.38889e-4, 4.62963e-5, 0.0, None, 123.457, 4.2e9]
    assert series["x"] == [0.0, 0.3333, 0.6667, 1.0, 1.3333, 1.6667]


def test_an_efficiency_above_1_stays_in_its_chart(stored) -> None:
    """A link that makes copies of all packets: receivers count each twice."""
    twice = stored.rows["received"].with_columns(pl.col("bytes") * 2)
    for run, top in ((stored, 1.1), (with_rows(stored, received=twice), 2.0)):
        panel = {panel.key: panel for panel in all_panels(run)}["e-efficiency"]
        assert panel.y_max == pytest.approx(top)


def test_a_run_without_a_receiver_has_its_charts_all_the_same(stored) -> None:
    (session,) = stored.summary["network"]["sessions"]
    for receiver in session["receivers"].values():
        receiver["absences"] = [[0.0, 20.0]]
    panels = {panel.key: panel for panel in all_panels(stored)}
    assert panels["e-efficiency"].y_max == 1.1


def test_a_scheme_with_one_rate_has_panels_of_its_own(beside_tcp) -> None:
    panels = {panel.key: panel for panel in all_panels(beside_tcp)}
    assert list(panels) == [
        *("rates-receivers", "rates-tcp", "rates-sender", "queues"),
        *("single.rate-rate_Bps", "single.rate-rtt_us"),  # `limiting` and `loss` never change
    ]
    assert [s.label for s in panels["rates-receivers"].series] == ["h3", "h4", "h5", "h6"]
    # h3 has the 1 Mbit/s of 1-3; h4 a third of 0-1, which has 6 Mbit/s and two flows; h5 and h6 all
    # of 0-2.
    assert [r.y for r in panels["rates-receivers"].references] == [1.0, 2.0, 6.0]
    beside = panels["rates-tcp"].series
    assert [s.label for s in beside] == ["session (mean)", "tcp1", "tcp2"]
    assert [s.y[-1] for s in beside] == pytest.approx([2.0, 2.0, 1.0])
    assert [s.y[-1] for s in panels["rates-sender"].series] == pytest.approx([2.0, 2.0])
    assert [s.label for s in panels["queues"].series] == ["0>1", "0>2", "1>3"]
    variable = panels["single.rate-rtt_us"]
    assert (variable.y_label, variable.series[0].label) == ("ms", "h0")
    assert variable.series[0].x.tolist() == [*range(1, 20, 2), 20.0]
    assert variable.series[0].y[:3] == pytest.approx([1.0, 3.0, 5.0])
    html = write_report(beside_tcp).read_text()
    assert "single.rate: rtt" in html and "tcp ratio" in html
    write_plots(beside_tcp)
    for key in panels:
        assert (beside_tcp.directory / "plots" / f"{key}.png").exists()


def test_sequence_numbers_have_no_panel_and_flows_begin_at_their_start(beside_tcp) -> None:
    traced = beside_tcp.rows["single.rate"]
    numbers = (4_255_306_169 + traced["time_s"] * 1000).cast(int).alias("seq")
    # As in virtual time, the first row of a flow comes a second after its start.
    tcp = beside_tcp.rows["tcp"].filter(pl.col("time_s").is_between(0.999, 20.0))
    run = with_rows(beside_tcp, **{"single.rate": traced.with_columns(numbers), "tcp": tcp})
    panels = {panel.key: panel for panel in all_panels(run)}
    assert "single.rate-rtt_us" in panels and "single.rate-seq" not in panels
    assert panels["rates-tcp"].series[1].y == pytest.approx(np.full(40, 2.0))


def test_every_session_is_drawn(stored) -> None:
    received = stored.rows["received"]
    second = received.filter(pl.col("agent") == "h3").with_columns(pl.lit("h3.s7").alias("agent"))
    network = stored.summary["network"]
    (first,) = network["sessions"]
    h3 = first["receivers"]["h3"] | {"absences": [[10.0, 15.0]]}
    other = first | {"session": 7, "scheme": "single", "receivers": {"h3.s7": h3}}
    summary = stored.summary | {"network": network | {"sessions": [first, other]}}
    run = StoredRun(stored.directory, summary)
    run.__dict__["rows"] = Rows({**stored.rows, "received": pl.concat([received, second])})
    panels = {panel.key: panel for panel in all_panels(run)}
    labels = [series.label for series in panels["rates-sessions"].series]
    assert labels == ["session 1 (sim)", "session 7 (single)"]
    # 1, 6, 6 and 6 Mbit/s; h3's 1 again.
    rates = [series.y for series in panels["rates-sessions"].series]
    assert [rate[-1] for rate in rates] == pytest.approx([4.75, 1.0])
    assert np.isnan(rates[1][20:30]).all() and not np.isnan(rates[1][30:]).any()  # it is absent


def test_sim_beside_tcp_has_two_panels_more(stored) -> None:
    flow = {"kind": "tcp", "rival": True, "start_s": 0, "stop_s": 20, "packet_size": 1000}
    flows = {"tcp1": flow | {"directions": ["0>1"]}}
    summary = {**stored.summary, "network": {**stored.summary["network"], "flows": flows}}
    more = StoredRun(stored.directory, summary)
    keys = [panel.key for panel in all_panels(more)]
    assert keys[:6] == [panel.key for panel in all_panels(stored)]
    assert keys[6:] == ["rates-tcp", "queues"]


def test_the_table_of_links_tells_who_dropped_and_what_was_marked(beside_tcp) -> None:
    html = write_report(beside_tcp).read_text()
    table = html[html.index("<h2>Links</h2>") : html.index("All measures")]
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in table.split("<tr>")[1:]]
    # Each second 750 packets leave and 3 find the queue full, for 20 s; 2 wait.
    assert rows[-1] == ["0&gt;1", "priority", "15,062", "15,000", "60", "0", "2", "9"]
    assert rows[0][-1] == "marked, session 1"


def test_report_stands_alone(stored) -> None:
    html = write_report(stored).read_text()
    references = []

    class Collector(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            references.extend(v for k, v in attrs if k in ("src", "href") and v)

    Collector().feed(html)
    assert all(reference.startswith("data:") for reference in references)
    assert not re.search(r"@import|url\(", html)
    for text in ("A small tree", "cumulative rate, 2 layers", "./tiercast run small", "met"):
        assert text in html


def test_the_report_links_to_the_captures(stored) -> None:
    assert "Captures" not in write_report(stored).read_text()
    there, back = ({"frames": 50, "missed": missed, "full": False} for missed in (0, 2))
    capture = {"link": "1-3", "file": "captures/1-3.pcapng", "cpu_s": None}
    captures = [capture | {"directions": {"1>3": there, "3>1": back}}]
    html = write_report(StoredRun(stored.directory, stored.summary | {"captures": captures}))
    text = html.read_text()
    assert '<a href="captures/1-3.pcapng">1-3</a>' in text
    assert "1&gt;3 50 frames, 3&gt;1 50 frames, 2 missed" in text


def test_a_run_that_expects_nothing_shows_what_was_measured(stored) -> None:
    command = ["./tiercast", "run", "mine.yaml", "--results", "/data/mine"]
    summary = stored.summary | {"expected": [], "command": command, "window_s": [5.0, 12.0]}
    html = write_report(StoredRun(stored.directory, summary)).read_text()
    assert "The experiment expects nothing" in html and "Paper against" not in html
    assert "measured from 5 to 12 s" in html and "the experiment's. Orange" in html
    assert f"./tiercast report /data/mine/{summary['run']} " in html
    figure = summary | {"experiment": summary["experiment"] | {"figure": {"x": "n"}}}
    html = write_report(StoredRun(stored.directory, figure)).read_text()
    assert "This is one run of a figure" in html and "expects nothing" not in html
    console = Console(width=100, file=io.StringIO())
    console.print(result_tables(summary))
    shown = console.file.getvalue()
    assert "measured, from 5 to 12 s" in shown and "paper" not in shown
    assert "session throughput" in shown and "h3" not in shown


def test_other_folders_are_refused(tmp_path) -> None:
    with pytest.raises(InputError, match="summary.json"):
        load_run(tmp_path)
    (tmp_path / "summary.json").write_text("{}")
    with pytest.raises(InputError, match="format None; valid: 2"):
        load_run(tmp_path)
    (tmp_path / "summary.json").write_text('{"format": 1}')
    with pytest.raises(InputError, match="format 1, of an earlier version; run it again; valid: 2"):
        load_run(tmp_path)
    (tmp_path / "summary.json").write_text("{")
    with pytest.raises(InputError, match="not JSON"):
        load_run(tmp_path)


def test_what_is_left_out_of_a_panel_is_said(beside_tcp) -> None:
    network = beside_tcp.summary["network"]
    (session,) = network["sessions"]
    one = session["receivers"]["h3"]
    receivers = {
        f"h{node}": one | {"node": node, "directions": [f"0>{node}"], "path": ["x"]}
        for node in range(3, 15)
    }
    for receiver in receivers.values():
        receiver["bottleneck"] = "x"
    network = network | {"sessions": [session | {"receivers": receivers}]}
    summary = beside_tcp.summary | {"network": network}
    panels = {one.key: one for one in all_panels(StoredRun(beside_tcp.directory, summary))}
    assert panels["rates-receivers"].title == "Received rates of the session (8 of 12 receivers)"
    assert panels["queues"].title.endswith(" (8 of 12 links)")
    assert [series.label for series in panels["queues"].series][:2] == ["0>3", "0>4"]
    assert panels["queues"].series[-1].label == "0>10"


@pytest.mark.parametrize(
    ("rate", "kind", "title"),
    [(4_000_000, "red", "1>2, 4Mbit/s: red"), (0, "", "1>2: no marking")],
)
def test_a_traced_direction_is_drawn_with_its_rate_and_marking(
    rate: int, kind: str, title: str
) -> None:
    assert title_of(TracedLaw("1>2", rate, kind, 1.0, 0, {}, FOUND, [])) == title
