"""Explains TFMCC's trace records (docs/protocols/tfmcc.md, "Trace")."""

from tiercast_lab.results.explain.sentences import Clause, Sentences

explanation = Sentences(
    Clause(
        "tfmcc.rate",
        "sender",
        "the rate is {x:rate}, as {clr:node}, the current limiting receiver (CLR), asks for "
        "{x_r:rate}; its round trip is {rtt_us:ms}, the longest {r_max:.2f} s",
        when="!slow_start",
    ),
    Clause(
        "tfmcc.rate",
        "sender",
        "the rate is {x:rate}, in slow start; {clr:node} asks for {x_r:rate}, longest round trip "
        "{r_max:.2f} s",
        when="slow_start",
    ),
    Clause(
        "tfmcc.clr",
        "sender",
        "{clr:node} became the CLR with {x_r:rate}, when the rate was {x:rate}",
        when="valid",
    ),
    Clause("tfmcc.clr", "sender", "there is no current limiting receiver (CLR)", when="!valid"),
    Clause(
        "tfmcc.report",
        "receiver",
        "it last reported TCP's rate as {x_r:rate}, at a loss event rate of {p:%} and a round trip "
        "of {rtt_us:ms}; it got {x_recv:rate}",
    ),
)
