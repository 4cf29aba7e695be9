"""Explains RLC's trace records (docs/protocols/rlc.md, "Trace")."""

from tiercast_lab.results.explain.sentences import Clause, Sentences

explanation = Sentences(
    Clause(
        "rlc.join",
        "receiver",
        "it last joined level {level} at a synchronization point, having lost nothing since the "
        "one before",
    ),
    Clause(
        "rlc.leave",
        "receiver",
        "its last loss made it fall to level {level}, and then be deaf to losses for {deaf_s:g} s",
    ),
)
