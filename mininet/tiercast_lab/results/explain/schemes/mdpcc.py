"""Explains MDP-CC's trace records (docs/protocols/mdpcc.md, "Trace")."""

from tiercast_lab.results.explain.sentences import Clause, Sentences

explanation = Sentences(
    *(
        Clause(
            "mdpcc.rate",
            "sender",
            f"the rate {decision}; goal {{goal_rate_Bps:rate}} by {{clr:node}}, the current "
            "limiting receiver (CLR): loss {loss:%}, round trip {rtt_us:ms}; "
            "GRTT {grtt_us:ms}",
            when=f"reason={number}",
        )
        for number, decision in (
            (1, "is {tx_rate_Bps:rate}, in slow start"),
            (2, "rose to {tx_rate_Bps:rate}, since the goal is above it"),
            (3, "fell to {tx_rate_Bps:rate}, since the goal is below it"),
            (4, "is {tx_rate_Bps:rate}: the CLR was not heard for {timeout_us:ms}"),
            (5, "is {tx_rate_Bps:rate}, and there is nothing to send"),
        )
    ),
    Clause(
        "mdpcc.representatives",
        "sender",
        "of {count} representatives {clr:node} has the lowest rate, {clr_rate_Bps:rate}",
    ),
    Clause(
        "mdpcc.report",
        "receiver",
        "its last report said: TCP's rate {rate_Bps:rate} at a loss event rate of {loss:%} and a "
        "round trip of {rtt_us:ms}; it got {received_Bps:rate}",
    ),
    Clause(
        "mdpcc.report_suppressed",
        "receiver",
        "its last report that was suppressed gave way to that of {by:node}",
    ),
    Clause(
        "mdpcc.loss_event",
        "receiver",
        "its last loss event: {lost} packets lost, {marked} marked; loss event rate {loss:%}",
    ),
)
