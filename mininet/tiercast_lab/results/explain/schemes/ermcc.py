"""Explains ERMCC's trace records (docs/protocols/ermcc.md, "Trace")."""

from tiercast_lab.results.explain.sentences import Clause, Sentences

explanation = Sentences(
    Clause(
        "ermcc.cr",
        "sender",
        "the congestion representative (CR) is {cr:node}, chosen with an average TRAC of "
        "{mu_Bps:rate} (deviation {sigma_Bps:rate}) and a round trip of {rtt_us:ms}, where the "
        "longest was {max_rtt_us:ms}; T_max was {t_max_s:.2f} s",
        when="valid",
    ),
    Clause("ermcc.cr", "sender", "there is no congestion representative (CR)", when="!valid"),
    Clause(
        "ermcc.cut",
        "sender",
        "the last cut, to {rate_Bps:rate}, followed a congestion report of {cr:node}: it got "
        "{omega_Bps:rate} before the loss (TRAC; on average {mu_Bps:rate}, deviation "
        "{sigma_Bps:rate}), round trip {rtt_us:ms}",
    ),
    Clause(
        "ermcc.increase",
        "sender",
        "the last rise, to {rate_Bps:rate}, followed a round trip of {rtt_us:ms} without a cut",
    ),
    Clause(
        "ermcc.trac",
        "receiver",
        "its last loss event was reported: TRAC {omega_Bps:rate}, on average {mu_Bps:rate} "
        "(the CR's: {mu_hat_Bps:rate})",
        when="sent",
    ),
    Clause(
        "ermcc.trac",
        "receiver",
        "its report of the last loss event was suppressed: TRAC {omega_Bps:rate}, on average "
        "{mu_Bps:rate}, is not below the CR's {mu_hat_Bps:rate} by more than {sigma_hat_Bps:rate}",
        when="!sent",
    ),
)
