"""Runs of made-up rows, with the value of each measure computed by hand.

In most of these runs the receivers come and go, to check that an absent one never counts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import polars as pl
from tiercast_lab.measures import Context, Rows
from tiercast_lab.measures.context import Bottleneck, Flow, Receiver, Session

from . import test_windows
from .test_windows import beside


class HandMade(NamedTuple):
    rows: Rows
    context: Context
    expected: dict[str, float | None]


def table(*columns: str, rows: list[tuple]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["time_s", "agent", *columns], orient="row")


def received(rows: list[tuple[float, str, float]]) -> pl.DataFrame:
    """Rows that only have bytes."""
    return table("bytes", rows=rows).with_columns(packets=0, lost=0, marked=0)


def context(*sessions: Session, window: tuple[float, float] = (10.0, 20.0), **more) -> Context:
    return Context(window, sessions[0], sessions, **more)


def always(rate: float) -> tuple[tuple[float, float], ...]:
    return ((0.0, rate),)


# ---- two sessions with layers; receivers come and go ----------------------------------------

# In session 1, h3 is present throughout, h4 is absent during 14..18 s, h5 joins at 16 s, and h6
# left at 8 s: together they are present for 10 + 6 + 4 + 0 = 20 s of the window. Session 2 starts
# at 12 s; h4.s2 leaves at 17 s.
LAYERED = HandMade(
    Rows(
        {
            "received": table(
                *("bytes", "packets", "lost", "marked"),
                rows=[
                    (10.0, "h3", 5e5, 500, 9, 90),
                    (15.0, "h3", 7.5e5, 750, 9, 90),  # 0.4 Mbit/s
                    (20.0, "h3", 1.5e6, 1500, 19, 290),  # 1.2 Mbit/s
                    (10.0, "h4", 0.0, 0, 0, 0),
                    (14.0, "h4", 1e6, 1000, 20, 100),  # 2 Mbit/s
                    (20.0, "h4", 1.5e6, 1500, 30, 100),  # since 18 s: 2 Mbit/s
                    (18.0, "h5", 2.5e5, 250, 60, 0),  # since 16 s: 1 Mbit/s
                    (20.0, "h5", 5e5, 500, 60, 0),
                    (8.0, "h6", 7e6, 7000, 0, 0),
                    (20.0, "h6", 9e6, 9000, 500, 2000),  # it is absent
                    (20.0, "h3.s2", 1.5e6, 1500, 0, 150),  # since 12 s: 1.5 Mbit/s
                    (17.0, "h4.s2", 1.25e5, 125, 5, 0),  # since 12 s: 0.2 Mbit/s
                ],
            ),
            "subscription": table(
                "top",
                rows=[
                    (0.0, "h3", 0),
                    (13.0, "h3", 1),
                    (15.0, "h3", 1),  # no change
                    (0.0, "h4", 1),
                    (14.0, "h4", -1),
                    (18.0, "h4", 0),
                    (19.0, "h4", 1),
                    (16.0, "h5", 0),
                    (0.0, "h6", 1),  # it never reported that it left
                    (12.0, "h3.s2", 0),
                    (12.0, "h4.s2", 0),
                    (16.0, "h4.s2", -1),
                ],
            ),
            "layer": table(
                *("rank", "sent_bytes"),
                rows=[
                    (10.0, "h0", 0, 1e6),
                    (20.0, "h0", 0, 2e6),
                    (10.0, "h0", 1, 0.0),
                    (20.0, "h0", 1, 2.5e6),
                    (12.0, "h0.s2", 0, 0.0),
                    (20.0, "h0.s2", 0, 1e6),
                ],
            ),
            "join": table(
                *("rank", "latency_us"),
                rows=[
                    (1.0, "h6", 0, 9e5),
                    (13.0, "h3", 1, 3e4),
                    (18.1, "h4", 0, 5e4),
                    (19.1, "h4", 1, 7e4),
                    (2.0, "h3.s2", 0, 6e4),  # none in the window, so those of the whole run count
                ],
            ),
            "feedback": table(
                "accepted",
                rows=[
                    (10.0, "h0", 40),
                    (20.0, "h0", 90),
                    (12.0, "h0.s2", 0),
                    (20.0, "h0.s2", 4),
                ],
            ),
            "feedback.refused": table(
                *("non_member", "impersonated", "implausible"),
                rows=[
                    (4.0, "h0", 2, 0, 1),
                    (10.0, "h0", 2, 0, 1),
                    (15.0, "h0", 2, 3, 4),
                    (25.0, "h0", 9, 9, 9),
                    (19.0, "h0.s2", 0, 0, 7),
                ],
            ),
            "port": table(
                *("port", "link", "queue_packets", "max_queue_packets"),
                *("entered", "queue_drops", "policy_drops", "down_drops", "link_losses"),
                *("left", "marked"),
                rows=[
                    (10.0, "s1", 1, "1>3", 8, 500, 100, 5, 10, 0, 1, 80, 10),
                    (14.0, "s1", 1, "1>3", 22, 30, 200, 8, 20, 3, 1, 150, 14),
                    (20.0, "s1", 1, "1>3", 0, 30, 250, 15, 40, 3, 7, 180, 30),
                    (12.0, "s1", 2, "1>4", 6, 9, 0, 0, 0, 0, 0, 0, 0),
                    (15.0, "s1", 2, "1>4", 99, 99, 40, 5, 0, 0, 0, 30, 3),  # nobody is present
                    (19.0, "s1", 2, "1>4", 4, 8, 50, 5, 0, 0, 2, 40, 4),
                    # Its queues count nothing.
                    (10.0, "s2", 1, "2>6", 0, 0, None, None, 0, None, None, 0, 0),
                    (12.0, "s2", 1, "2>6", 50, 55, None, None, 7, None, None, 40, 4),
                ],
            ),
            "port.session": table(
                *("port", "link", "session", "layer", "left", "marked"),
                rows=[
                    (10.0, "s1", 1, "1>3", 1, 0, 100, 10),
                    (20.0, "s1", 1, "1>3", 1, 0, 180, 20),
                    # Its first row covers the time after 10 s.
                    (20.0, "s1", 1, "1>3", 1, 1, 20, 10),
                    (20.0, "s1", 1, "1>3", 2, 0, 50, 5),
                    (12.0, "s1", 1, "1>3", 2, 0, 10, 1),
                    (20.0, "s1", 1, "1>3", -1, -1, 90, 90),
                    (20.0, "s1", 2, "1>4", 1, 0, 10, 4),
                ],
            ),
        }
    ),
    context(
        Session(
            1,
            "h0",
            2,
            {
                "h3": Receiver(3, always(2e6), (Bottleneck(0.0, "1>3"),)),
                "h4": Receiver(
                    4,
                    ((0.0, 4e6), (15.0, 2e6)),
                    (Bottleneck(0.0, "1>4"),),
                    absences=((14.0, 18.0),),
                ),
                "h5": Receiver(5, always(1e6), (Bottleneck(0.0, "1>3"),), absences=((0.0, 16.0),)),
                "h6": Receiver(6, always(1e6), (Bottleneck(0.0, "2>6"),), absences=((8.0, 30.0),)),
            },
            round_trip=0.04,
        ),
        Session(
            2,
            "h0.s2",
            1,
            {
                "h3.s2": Receiver(3, always(3e6), absences=((0.0, 12.0),)),
                "h4.s2": Receiver(4, always(2e6), absences=((0.0, 12.0), (17.0, 30.0))),
            },
            round_trip=0.1,
            start=12.0,
        ),
        links=("1>3", "1>4", "2>6"),
    ),
    {
        "cumulative_rate_1": 0.8e6,  # 1e6 B in 10 s
        "cumulative_rate_2": 2.8e6,  # and 2.5e6 B
        "cumulative_rate_1_s2": 1e6,  # 1e6 B in the 8 s of the window for which it is present
        "subscribers_1": 2.0,  # 10 + 6 + 4 s of 10
        "subscribers_2": 1.2,  # h3 from 13 on, h4 until 14 and from 19 on: 7 + 4 + 1 s
        "subscribers_1_s2": 12 / 8,  # h3.s2 for 8 s, h4.s2 until 16: 4 s
        "efficiency": 0.6,  # (10 * 0.4 + 4 * 2/4 + 2 * 2/2 + 4 * 1) / 20
        "efficiency_s2": 4.5 / 13,  # (8 * 1.5/3 + 5 * 0.2/2) / 13
        # h3 at 13, h4 at 14, 18 and 19 s; h5's first join does not count
        "instability": 4 * 0.04 / 20,
        "instability_s2": 1 * 0.1 / 13,
        "loss": 100 / 3100,  # 10 + 30 + 60 lost, 1000 + 1500 + 500 received
        "loss_s2": 5 / 1630,
        "marked": 300 / 3000,  # 200 + 100 + 0
        "marked_s2": 150 / 1625,
        "join_latency_p50": 0.05,
        "join_latency_p99": 0.07,
        "join_latency_p99_s2": 0.06,
        "feedback_rate": 5.0,
        "feedback_rate_s2": 0.5,  # 4 in 8 s
        "feedbacks": 50.0,
        "feedbacks_s2": 4.0,
        "feedback_refused": 6.0,  # 3 were before the window
        "feedback_refused_s2": 7.0,
        "mean_queue": 8.0,  # 8, 22 and 0 at 1>3, 6 and 4 at 1>4 while h4 is present
        "longest_queue": 99.0,  # at any port; 500 was before the window
        "queue_drops": 15 / 200,  # 10 of 150 at 1>3, 5 of 50 at 1>4
        "queue_drops_1>3": 10 / 150,
        "queue_drops_2>6": None,
        "policy_drops": 30 / 200,
        "policy_drops_1>3": 30 / 150,
        "policy_drops_2>6": None,
        "link_marks": 28 / 180,  # 20 of 100 at 1>3, 4 of 40 at 1>4, 4 of 40 at 2>6
        "link_marks_1>3": 20 / 100,
        "link_marks_2>6": 4 / 40,
        "link_losses": 11 / 200,  # 3 found 1>3 down, 6 and 2 were lost on the wires
        "link_losses_1>3": 9 / 150,
        "link_losses_2>6": None,
        "marked_1>3": 20 / 100,  # 10 of 80 in layer 0, 10 of 20 in layer 1
        "marked_1>3_s2": 4 / 40,
        "marked_1>4": 4 / 10,
        "marked_2>6": None,
        "session_throughput": 1.2e6,  # 1e6 + 1.5e6 + 0.5e6 B in 20 s
        "session_throughput_s2": 1e6,  # 1.5e6 + 0.125e6 B in 13 s
        "other_throughput": 1e6,
        # From 12 s on: h3 0.9e6 B in 8 s, h4 1e6 in 4, h5 0.5e6 in 4.
        "other_throughput_s2": 1.2e6,
        "other_ratio": 1.2,
        "other_ratio_s2": 1 / 1.2,
        "receiver_rate_h3": 0.8e6,
        "receiver_rate_h4": 2e6,  # 1.5e6 B in 6 s
        "receiver_rate_h5": 1e6,
        "receiver_rate_h6": None,
        "receiver_rate_h4.s2": 0.2e6,
        "level_h3": 1.7,  # one for 3 s, two for 7 s
        "level_h4": 11 / 6,  # two for 4 s, one for 1 s, two for 1 s
        "level_h6": None,
        "level_h4.s2": 4 / 5,
        "rate_variation_h3": 0.5,  # five seconds at 0.4 and five at 1.2 Mbit/s: 0.8 +- 0.4
        "rate_variation_h4": 0.0,
        "rate_variation_h6": None,
    },
)

# ---- a session beside TCP -------------------------------------------------------------------

# tcp1 and tcp2 share h3's bottleneck, tcp3 shares h4's; h5 has no rivals. All flows are present
# until 18 s, h4 until 14 s.
FLOWS = {
    "tcp1": Flow("tcp", 0.0, 20.0, 1000),
    "tcp2": Flow("tcp", 0.0, 18.0, 1000),
    "tcp3": Flow("tcp", 0.0, 20.0, 1000),
    "tcp4": Flow("tcp", 20.0, 40.0, 1000),  # never present in the window
    "tcp5": Flow("tcp", 0.0, 20.0, 1000, rival=False),  # background
}
BESIDE_TCP = HandMade(
    Rows(
        {
            "received": received(
                rows=[
                    (10.0, "h3", 0.0),
                    (18.0, "h3", 1e6),  # 1 Mbit/s
                    (20.0, "h3", 9e6),
                    (10.0, "h4", 0.0),
                    (14.0, "h4", 1.5e6),  # 3 Mbit/s
                    (20.0, "h4", 9e6),
                    (10.0, "h3.s2", 0.0),
                    (18.0, "h3.s2", 4e6),  # 4 Mbit/s
                ],
            ),
            "tcp": table(
                "bytes",
                rows=[
                    (10.0, "tcp1", 0.0),
                    (18.0, "tcp1", 1e6),  # 1 Mbit/s
                    (20.0, "tcp1", 7e6),
                    (10.0, "tcp2", 0.0),
                    (18.0, "tcp2", 3e6),  # 3 Mbit/s
                    (20.0, "tcp2", 3e6),
                    (10.0, "tcp3", 0.0),
                    (14.0, "tcp3", 1e6),  # 2 Mbit/s while h4 is present
                    (18.0, "tcp3", 1.5e6),  # 1.5 Mbit/s in all
                    (20.0, "tcp3", 9e6),
                    (10.0, "tcp5", 0.0),
                    (20.0, "tcp5", 9e9),
                ],
            ),
            "tcp.sender": table(
                *("sent_packets", "retransmitted"),
                rows=[
                    (10.0, "tcp1", 5, 1),
                    (20.0, "tcp1", 105, 2),
                    (10.0, "tcp2", 0, 0),
                    (20.0, "tcp2", 60, 7),
                    (10.0, "tcp3", 0, 0),
                    (20.0, "tcp3", 40, 0),
                ],
            ).with_columns(cwnd=1.0, rtt_us=1.0),
        }
    ),
    context(
        Session(
            1,
            "h0",
            1,
            {
                "h3": Receiver(3, always(2e6), bottlenecks=beside("tcp1", "tcp2", "tcp4")),
                "h4": Receiver(
                    4, always(2e6), bottlenecks=beside("tcp3"), absences=((14.0, 40.0),)
                ),
                "h5": Receiver(5, always(2e6)),
                "h6": Receiver(6, always(2e6), bottlenecks=beside("tcp1"), absences=((0.0, 40.0),)),
            },
            round_trip=0.04,
        ),
        Session(
            2, "h0.s2", 1, {"h3.s2": Receiver(3, always(2e6), bottlenecks=beside("tcp1"))}, 0.04
        ),
        flows=FLOWS,
    ),
    {
        "receiver_tcp_ratio_h3": 1 / 2,  # 1, against a mean of 1 and 3
        "receiver_tcp_ratio_h4": 3 / 2,
        "receiver_tcp_ratio_h5": None,
        "receiver_tcp_ratio_h6": None,
        "receiver_tcp_ratio_h3.s2": 4 / 7,  # only beside tcp1, which stays until 20 s
        "tcp_ratio": (8 * 1 / 2 + 4 * 3 / 2) / 12,
        "tcp_ratio_s2": 4 / 7,
        "tcp_ratio_to_worst": 3 / 2,  # h4 beside tcp3
        "tcp_ratio_to_best": 1 / 3,  # h3 beside tcp2
        # 1e6 + 1.5e6 + 0 + 4e6 B in 8 + 4 + 8 + 8 s, against a mean of 1, 3 and 1.5 Mbit/s.
        "sessions_tcp_ratio": (8 * 6.5 / 28) / (5.5 / 3),
        "tcp_throughput": 5.5e6 / 3,
        "tcp_worst": 1e6,
        "tcp_best": 3e6,
        "tcp_worst_s2": 5.6e6,  # only tcp1: 7e6 B in 10 s
        "tcp_retransmitted": 8 / 200,
        "tcp_retransmitted_s2": 1 / 100,
    },
)

# ---- UDP ------------------------------------------------------------------------------------

# h3's bottleneck is beside tcp1 until 14 s, and then beside tcp2: 1 against 2 Mbit/s, and 2 against
# 1. What a flow gets elsewhere, or at another time, does not count.
MOVED = HandMade(
    Rows(
        {
            "received": received(
                rows=[(10.0, "h3", 0.0), (14.0, "h3", 0.5e6), (20.0, "h3", 2e6)],
            ),
            "tcp": table(
                "bytes",
                rows=[
                    (10.0, "tcp1", 0.0),
                    (14.0, "tcp1", 1e6),
                    (20.0, "tcp1", 9e6),
                    (10.0, "tcp2", 0.0),
                    (14.0, "tcp2", 8e6),
                    (20.0, "tcp2", 8.75e6),
                ],
            ),
            "port": pl.DataFrame(
                [(12.0, "1>3", 5), (16.0, "1>3", 50), (12.0, "2>3", 60), (16.0, "2>3", 7)],
                schema=["time_s", "link", "queue_packets"],
                orient="row",
            ).with_columns(agent=pl.lit("s1"), port=1, max_queue_packets=None, entered=None),
        }
    ),
    context(
        Session(
            1,
            "h0",
            1,
            {
                "h3": Receiver(
                    3,
                    always(2e6),
                    (Bottleneck(0.0, "1>3", ("tcp1",)), Bottleneck(14.0, "2>3", ("tcp2",))),
                )
            },
            0.04,
        ),
        flows={name: Flow("tcp", 0.0, 20.0, 1000) for name in ("tcp1", "tcp2")},
    ),
    {
        "tcp_ratio": (4 * 1 / 2 + 6 * 2) / 10,
        "receiver_tcp_ratio_h3": (4 * 1 / 2 + 6 * 2) / 10,
        "tcp_ratio_to_worst": 2.0,
        "tcp_ratio_to_best": 1 / 2,
        "tcp_worst": 8 * 8.75e6 / 10,
        "mean_queue": (5 + 7) / 2,
    },
)

UDP = HandMade(
    Rows(
        {
            "udp": table(
                *("bytes", "packets", "sent_bytes", "sent_packets"),
                rows=[
                    (10.0, "udp1", 1e6, 1000, 1e6, 1000),
                    (15.0, "udp1", 1.5e6, 1500, 1.6e6, 1600),
                    (20.0, "udp1", 1.5e6, 1500, 1.6e6, 1600),
                    (12.0, "udp2", 0.0, 0, 0.0, 0),
                    (20.0, "udp2", 1e6, 1000, 1.4e6, 1400),
                ],
            ),
        }
    ),
    context(
        Session(1, "h0", 1, {"h3": Receiver(3, always(2e6))}, 0.04),
        flows={
            "udp1": Flow("udp", 5.0, 15.0, 1000, rival=False),
            "udp2": Flow("udp", 12.0, 30.0, 1000, rival=False),
            "udp3": Flow("udp", 25.0, 30.0, 1000, rival=False),
        },
    ),
    {
        "udp_throughput": 1.2e6,  # 0.5e6 + 1e6 B in 10 s
        "udp_throughput_udp1": 0.8e6,  # in the 5 s for which it is present
        "udp_throughput_udp2": 1e6,  # in 8 s
        "udp_throughput_udp3": None,
        "udp_sent": 1.6e6,
        "udp_sent_udp2": 1.4e6,
        "udp_loss": 500 / 2000,
        "udp_loss_udp1": 100 / 600,
        "udp_loss_udp3": None,
    },
)

# ---- the receivers that a sender follows --------------------------------------------------------

# h3 has the worst path until 12 s, h4 until 20, both from 20 to 30, and then h3; h5 has a worse one
# but leaves before anything changes. GRTTs are 0.25, 0.5 and 0.4 s.
MDPCC = HandMade(
    Rows(
        {
            "mdpcc.loss_event": table(
                rows=[
                    (11.0, "h4"),
                    (12.2, "h5"),
                    (12.5, "h3"),
                    (13.0, "h4"),
                    (13.5, "h4"),
                    (21.0, "h3"),
                    (30.5, "h3"),
                ]
            ),
            "mdpcc.rate": table(
                *("clr", "grtt_us"),
                rows=[
                    (11.0, "h0", 4.0, 1e6),
                    (13.2, "h0", 3.0, 2e5),
                    (13.4, "h0.s2", 4.0, 1e6),
                    (14.0, "h0", 4.0, 3e5),
                    (21.5, "h0", 4.0, 5e5),
                    (30.4, "h0", 3.0, 4e5),
                    (31.0, "h0", 4.0, 4e5),
                    (31.5, "h0", 3.0, 4e5),
                ],
            ),
            "mdpcc.representatives": table(
                "count",
                rows=[(9.0, "h0", 5.0), (15.0, "h0", 2.0), (20.0, "h0", 3.0), (15.0, "h0.s2", 9.0)],
            ),
        }
    ),
    context(
        Session(
            1,
            "h0",
            1,
            {
                "h3": Receiver(3, ((0.0, 1e6), (12.0, 2e6), (20.0, 1e6))),
                "h4": Receiver(4, ((0.0, 2e6), (12.0, 1e6), (30.0, 2e6))),
                "h5": Receiver(5, always(5e5), absences=((5.0, 60.0),)),
            },
            0.04,
        ),
        window=(10.0, 40.0),
    ),
    {
        # From 12 to 14 s, at 4 a second; from 20 to 21.5 s at 2; from 30 to 30.4 s at 2.5.
        "clr_delay": 8.0,
        # From 13 to 14 s; from 21 to 21.5 s; from 30.5 to 31.5 s.
        "clr_delay_since_loss": 4.0,
        "representatives": 5.0,  # since 9 s
    },
)

ERMCC = HandMade(
    Rows(
        {
            "ermcc.trac": table(
                "sent",
                rows=[
                    (5.0, "h3", 1.0),
                    (12.0, "h3", 1.0),
                    (13.0, "h3", 0.0),
                    (14.0, "h4", 0.0),
                    (15.0, "h4", 0.0),
                    (15.0, "h4.s2", 1.0),
                    (16.0, "h3", 0.0),
                ],
            ),
        }
    ),
    context(
        Session(
            1,
            "h0",
            1,
            {
                "h3": Receiver(3, always(2e6)),
                "h4": Receiver(4, always(2e6), absences=((15.0, 30.0),)),
            },
            0.04,
        )
    ),
    {
        "feedback_suppressed": 4.0,
        "suppression": 4 / 5,
        # One report; 5 loss events at 1.5 receivers (h4 is present for half of the window).
        "feedback_of_one": 1 / (5 / 1.5),
    },
)

PGMCC = HandMade(
    Rows(
        {
            "pgmcc.window": table(
                "naks",
                rows=[(10.0, "h0", 1), (20.0, "h0", 4), (10.0, "h0.s2", 0), (20.0, "h0.s2", 9)],
            )
        }
    ),
    context(
        Session(1, "h0", 1, {"h3": Receiver(3, always(2e6))}, 0.04),
        Session(2, "h0.s2", 1, {"h3.s2": Receiver(3, always(2e6))}, 0.04),
    ),
    {"naks": 3.0, "naks_s2": 9.0},
)


def represented(kind: str, **columns: list[int]) -> HandMade:
    """The representative is h3 from 2 s, h4 from 12 s, nobody from 14 s, h4 again from 15 s, h3
    from 18 s. h4 is absent until 11 s, h5 from 16 s."""
    rows = pl.DataFrame(
        {
            "time_s": [2.0, 12.0, 14.0, 15.0, 18.0, 3.0],
            "agent": ["h0"] * 5 + ["h0.s2"],
            **columns,
        }
    )
    receivers = {
        "h3": Receiver(3, always(2e6)),
        "h4": Receiver(4, always(2e6), absences=((0.0, 11.0),)),
        "h5": Receiver(5, always(2e6), absences=((16.0, 40.0),)),
        "h6": Receiver(6, always(2e6), absences=((0.0, 40.0),)),
    }
    return HandMade(
        Rows({kind: rows}),
        context(Session(1, "h0", 1, receivers, 0.1)),
        {
            "representative_switches": 2.0,
            "representative_share_h3": 0.4,
            "representative_share_h4": 5 / 9,  # 2 + 3 of 9 s
            "representative_share_h5": 0.0,
            "representative_share_h6": None,
            "representative_delay_h3": 0.0,
            "representative_delay_h4": 1.0,  # from 11 to 12 s
            "representative_delay_h5": 6.0,  # never, so all of its time
            "representative_delay_h6": None,
        },
    )


RUNS = {
    "layered": LAYERED,
    "beside TCP": BESIDE_TCP,
    "UDP": UDP,
    "MDP-CC": MDPCC,
    "ERMCC": ERMCC,
    "PGMCC": PGMCC,
    "ERMCC's CR": represented("ermcc.cr", cr=[3, 4, 4, 4, 3, 9], valid=[1, 1, 0, 1, 1, 1]),
    "TFMCC's CLR": represented("tfmcc.clr", clr=[3, 4, 4, 4, 3, 9], valid=[1, 1, 0, 1, 1, 1]),
    "MDP-CC's CLR": represented("mdpcc.rate", clr=[3, 4, -1, 4, 3, 9], grtt_us=[9] * 6),
    "PGMCC's acker": represented(
        "pgmcc.acker", acker=[3, 4, 4, 4, 3, 9], reason=[0, 1, 3, 0, 1, 1]
    ),
    "RLA": HandMade(test_windows.ROWS, test_windows.CONTEXT, test_windows.EXPECTED),
    "a path that moves": MOVED,
    "RLA's windows": HandMade(
        test_windows.TOGETHER,
        replace(test_windows.CONTEXT, flows={}),
        test_windows.EXPECTED_TOGETHER,
    ),
}
