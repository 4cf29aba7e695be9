"""Explains TFMCC's trace records (docs/protocols/tfmcc.md, "Trace")."""

from tiercast_lab.results.explain.sentences import Clause, Sentences

explanation = Sentences(
    Clause(
        "tfmcc.rate",
        "sender",
        "the rate is {x_Bps:rate}, as {clr:node}, the current limiting receiver (CLR), asks for "
        "{x_r_Bps:rate}; its round trip is {rtt_us:ms}, the longest {r_max_s:.2f} s",
        when="!slow_start",
    ),
    Clause(
        "tfmcc.rate",
        "sender",
        "the rate is {x_Bps:rate}, in slow start; {clr:node} asks for {x_r_Bps:rate}, longest "
        "round trip {r_max_s:.2f} s",
        when="slow_start",
    ),
    Clause(
        "tfmcc.clr",
        "sender",
        "{clr:node} became the CLR with {x_r_Bps:rate}, when the rate was {x_Bps:rate}",
        when="valid",
    ),
    Clause("tfmcc.clr", "sender", "there is no current limiting receiver (CLR)", when="!valid"),
    Clause(
        "tfmcc.report",
        "receiver",
        "it last reported TCP's rate as {x_r_Bps:rate}, at a loss event rate of {p:%} and a round "
        "trip of {rtt_us:ms}; it got {x_recv_Bps:rate}",
    ),
)
