"""Explains ERMCC's trace records (docs/protocols/ermcc.md, "Trace")."""

from tiercast_lab.results.explain.sentences import Clause, Sentences

explanation = Sentences(
    Clause(
        "ermcc.cr",
        "sender",
        "the congestion representative (CR) is {cr:node}, chosen with an average TRAC of "
        "{mu:rate} (deviation {sigma:rate}) and a round trip of {rtt_us:ms}, where the longest "
        "was {max_rtt_us:ms}; T_max was {t_max:.2f} s",
        when="valid",
    ),
    Clause("ermcc.cr", "sender", "there is no congestion representative (CR)", when="!valid"),
    Clause(
        "ermcc.cut",
        "sender",
        "the last cut, to {rate_Bps:rate}, followed a congestion report of {cr:node}: it got "
        "{omega:rate} before the loss (TRAC; on average {mu:rate}, deviation {sigma:rate}), "
        "round trip {rtt_us:ms}",
    ),
    Clause(
        "ermcc.increase",
        "sender",
        "the last rise, to {rate_Bps:rate}, followed a round trip of {rtt_us:ms} without a cut",
    ),
    Clause(
        "ermcc.trac",
        "receiver",
        "its last loss event was reported: TRAC {omega:rate}, on average {mu:rate} "
        "(the CR's: {mu_hat:rate})",
        when="sent",
    ),
    Clause(
        "ermcc.trac",
        "receiver",
        "its report of the last loss event was suppressed: TRAC {omega:rate}, on average "
        "{mu:rate}, is not below the CR's {mu_hat:rate} by more than {sigma_hat:rate}",
        when="!sent",
    ),
)
