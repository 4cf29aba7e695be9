"""Explains MLDA's trace records (docs/protocols/mlda.md, "Trace")."""

from tiercast_lab.results.explain.sentences import Clause, Sentences

explanation = Sentences(
    Clause(
        "mlda.layers",
        "sender",
        "the sender's report set the base layer to {R_1_Bps:rate}: {reports} receivers had "
        "reported, from {r_min_Bps:rate} ({slowest:node}) to {r_max_Bps:rate}; longest round trip "
        "{max_rtt_us:ms}",
    ),
    Clause(
        "mlda.cut",
        "sender",
        "{receiver:node} last lowered the base layer, from {r_1_Bps:rate} to its "
        "{r_j_Bps:rate} (loss {l:%}, round trip {rtt_us:ms})",
    ),
    Clause(
        "mlda.estimate",
        "receiver",
        "it reckons its fair share at {r_j_Bps:rate} ({r_before_Bps:rate} before): of {x} layers "
        "({C_x_Bps:rate}) it got {received_Bps:rate} with a loss of {l:%}, round trip {rtt_us:ms}; "
        "one layer more would be {C_next_Bps:rate}",
        when="C_next_Bps",
    ),
    Clause(
        "mlda.estimate",
        "receiver",
        "it reckons its fair share at {r_j_Bps:rate} ({r_before_Bps:rate} before): of all {x} "
        "layers ({C_x_Bps:rate}) it got {received_Bps:rate} with a loss of {l:%}, round trip "
        "{rtt_us:ms}",
        when="!C_next_Bps",
    ),
    Clause(
        "mlda.report",
        "receiver",
        "its report of {r_j_Bps:rate} was suppressed by that of {suppressed_by:node}",
        when="suppressed_by",
    ),
    Clause("mlda.report", "receiver", "it reported {r_j_Bps:rate}", when="!suppressed_by"),
)
