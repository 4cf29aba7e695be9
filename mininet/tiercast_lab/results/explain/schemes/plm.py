"""Explains PLM's trace records (docs/protocols/plm.md, "Trace")."""

from tiercast_lab.results.explain.sentences import Clause, Sentences

explanation = Sentences(
    Clause(
        "plm.join",
        "receiver",
        "it last went up to level {level}: every pair of the check period left room for "
        "{share_Bps:rate}",
    ),
    Clause(
        "plm.drop",
        "receiver",
        "it last fell to level {level} as a pair left room for {share_Bps:rate} alone",
    ),
    Clause("plm.loss", "receiver", "it last fell to level {level} as it lost {l:%}"),
)
