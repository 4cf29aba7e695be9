"""Explains RLA's trace records (docs/protocols/rla.md, "Trace")."""

from tiercast_lab.results.explain.sentences import Clause, Sentences

explanation = Sentences(
    Clause(
        "rla.window",
        "sender",
        "the window is {cwnd:.1f} packets (average {awnd:.1f}), {under_way} under way; "
        "{num_trouble_rcvr} of {receivers} receivers are troubled; longest round trip "
        "{srtt_max_us:ms}; so far {signals} congestion signals, {randomized_cuts} randomised and "
        "{forced_cuts} forced cuts, {timeouts} time-outs",
    ),
    *(
        Clause(
            "rla.signal",
            "sender",
            f"the last congestion signal, of {{receiver:node}}, {reaction}: window now "
            "{cwnd:.1f} packets",
            when=f"reaction={number}",
        )
        for number, reaction in (
            (1, "is a rare one and was not listened to"),
            (2, "was drawn not to be listened to (probability of a cut {pthresh:%})"),
            (3, "cut the window, as drawn (probability {pthresh:%})"),
            (4, "forced a cut, since the last one was long ago"),
        )
    ),
    Clause(
        "rla.signal",
        "about",
        "at its own newest signal: {congestion_interval:.0f} packets between its signals on "
        "average, {min_congestion_interval:.0f} at the most congested receiver; its round trip "
        "{srtt_us:ms}",
    ),
    Clause("rla.member", "about", "the sender no longer hears it", when="change=2"),
    Clause("rla.member", "about", "the sender has dropped it as too slow", when="change=3"),
)
