"""How the two ends of a TCP flow work, beyond its congestion control: a kernel's, or ns-2's."""

from __future__ import annotations

from typing import NamedTuple

# The congestion controls that virtual time has, by Linux's names: those of ns-3.
OF_NS3 = (
    "bbr",
    "bic",
    "cubic",
    "dctcp",
    "highspeed",
    "htcp",
    "hybla",
    "illinois",
    "lp",
    "reno",
    "scalable",
    "vegas",
    "veno",
    "westwood",
    "yeah",
)
SCALABLE = "dctcp"  # the one whose rate is inverse to the share of marks (RFC 9331, 4.3)


class TcpSender(NamedTuple):
    """How a sender works. In Mininet it is the kernel's, and has the initial window alone."""

    initial_window: int  # packets
    rate_reduction: bool  # RFC 6937; False: a loss halves the window at once
    reno_recovery: bool  # without SACK a partial acknowledgement ends fast recovery
    restart_timer: bool  # at fast retransmit, and at every partial acknowledgement
    limited_transmit: bool  # RFC 3042
    whole_packets: bool  # half of a window of 23 packets is 11
    clock_tick: int  # of the round-trip clock, ns
    min_timeout: int  # ns
    min_above_rtt: bool = False  # it bounds what is added to the mean round trip, not the sum
    connect_timeout: int = 3_000_000_000  # ns, until the first SYN is repeated; doubles; ns-3's
    data_retries: int = 6  # time-outs in a row after which it gives up; ns-3's


class TcpStack(NamedTuple):
    sack: bool
    delayed_acks: bool
    window: int | None  # packets; None: no limit
    sender: TcpSender
    ack_delay: int | None = None  # ns, of delayed acknowledgements; None: a kernel's, and ns-3's


LINUX = TcpStack(
    sack=True,
    delayed_acks=True,
    window=None,
    sender=TcpSender(
        initial_window=10,  # RFC 6928
        rate_reduction=True,
        reno_recovery=False,
        restart_timer=False,
        limited_transmit=True,
        whole_packets=False,
        clock_tick=0,
        min_timeout=200_000_000,  # tcp_set_rto(), TCP_RTO_MIN
        min_above_rtt=True,
        connect_timeout=1_000_000_000,  # TCP_TIMEOUT_INIT
        data_retries=15,  # tcp_retries2
    ),
    ack_delay=40_000_000,  # TCP_DELACK_MIN
)
STACKS: dict[str, TcpStack] = {
    # In virtual time the least time-out is RFC 6298's: with a bound of 200 ms, as long as ns-3
    # delays acknowledgements, a window of one packet never grew again.
    "kernel": LINUX._replace(
        sender=LINUX.sender._replace(
            min_timeout=1_000_000_000,
            min_above_rtt=False,
            connect_timeout=3_000_000_000,
            data_retries=6,
        ),
        ack_delay=None,
    ),
    "linux": LINUX,
    # ns-2's Agent/TCP/Reno and Agent/TCPSink of 1997 to 2000 (tcl/lib/ns-default.tcl, tcp.cc,
    # tcp-reno.cc). Later defaults are others: an initial window of 2, limited transmit and a least
    # time-out of 1 s (2001), 0.2 s and ticks of 10 ms (2004), halves of packets (2006).
    "ns2": TcpStack(
        sack=False,  # Agent/TCP/Sack1 has it
        delayed_acks=False,  # Agent/TCPSink/DelAck has them
        window=20,  # window_
        sender=TcpSender(
            initial_window=1,  # windowInit_
            rate_reduction=False,
            reno_recovery=True,
            restart_timer=True,  # reset_rtx_timer(), newtimer()
            limited_transmit=False,  # singledup_
            whole_packets=True,  # slowdown(): int(window() / 2)
            clock_tick=100_000_000,  # tcpTick_
            min_timeout=200_000_000,  # two ticks: rtt_timeout()
            data_retries=1_000_000,  # it never gives up
        ),
    ),
}
