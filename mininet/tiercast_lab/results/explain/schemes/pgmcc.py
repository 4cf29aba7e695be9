"""Explains PGMCC's trace records (docs/protocols/pgmcc.md, "Trace")."""

from tiercast_lab.results.explain.sentences import Clause, Sentences

explanation = Sentences(
    Clause(
        "pgmcc.window",
        "sender",
        "the window is {w:.1f} packets with {tokens:.1f} tokens; the acker is {acker:node}, with a "
        "loss of {p:%} and a round trip of {rtt_us:ms}; so far {cuts} cuts, {timeouts} time-outs, "
        "{acks} acknowledgements, {naks} NAKs",
    ),
    *(
        Clause("pgmcc.acker", "sender", f"{{acker:node}} {how} (loss {{p:%}})", when=f"reason={n}")
        for n, how in (
            (0, "was elected acker: there was none"),
            (1, "became acker, slower than the one before"),
            (2, "was the acker and has left; there is none"),
            (3, "was the acker and is silent; there is none"),
        )
    ),
)
