"""Explains RLM's trace records (docs/protocols/rlm.md, "Trace")."""

from tiercast_lab.results.explain.sentences import Clause, Sentences

explanation = Sentences(
    *(
        Clause(
            "rlm.state",
            "receiver",
            f"it is in state {state}, with {{level}} layers; it takes {{t_detect_s:.1f}} s "
            "(deviation {t_detect_var_s:.1f} s) for a failed join to show",
            when=f"state={number}",
        )
        for number, state in (
            (0, "S (steady)"),
            (1, "H (it waits after a loss, so as not to react to a short one)"),
            (2, "M (it measures the loss)"),
            (3, "D (it has dropped a layer)"),
        )
    ),
    Clause(
        "rlm.join",
        "receiver",
        "its last join experiment was for level {level}; the join timer there is {t_join_s:.1f} s",
    ),
    Clause(
        "rlm.failure",
        "receiver",
        "its last experiment that failed was its own, at level {level}: the join timer there is "
        "{t_join_s:.1f} s",
        when="own",
    ),
    Clause(
        "rlm.failure",
        "receiver",
        "it last learned from another's failed experiment, at level {level}: the join timer there "
        "is {t_join_s:.1f} s",
        when="!own",
    ),
    Clause(
        "rlm.announcement",
        "sender",
        "the last join experiment that was announced is that of {receiver:node}, for level {level}",
    ),
)
