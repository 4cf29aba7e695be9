"""What each scheme's own trace records say about a receiver's rate, in plain language.

The one place that knows the meaning of records: docs/protocols/<scheme>.md lists them. An entry
of EXPLANATIONS is a function from a Look (look.py) to lines. For most schemes it is `told(...)`
over a table of clauses: which kind of record, whose, and a sentence with its fields in it.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tiercast_lab.results.explain.look import Look, Row


class _Sentence(string.Formatter):
    """Format specifications: ms (from us), rate (from bytes/s), node (a receiver's id), % and g.

    A field that a record lacks is "unknown"; a node that is no receiver is "none".
    """

    def __init__(self, look: Look) -> None:
        self.look = look

    def get_value(self, key: int | str, args: Any, kwargs: Mapping[str, Any]) -> Any:
        return kwargs.get(str(key))

    def format_field(self, value: Any, format_spec: str) -> str:
        if value is None:
            return "unknown"
        if format_spec == "ms":
            return f"{value / 1e3:.0f} ms"
        if format_spec == "rate":
            return f"{8 * value / 1e6:.3f} Mbit/s"
        if format_spec == "node":
            return self.look.receiver_name(value) or "none"
        if format_spec == "%":
            return f"{100 * value:.2f} %"
        return format(value, format_spec or ".4g")


@dataclass(frozen=True)
class Clause:
    """`say` about the newest record of a kind: of the sender, of the receiver, or the sender's with
    the receiver's id in the field `receiver` ("about"). `when`: "field", which must not be 0;
    "!field", which must be; or "field=3"."""

    kind: str
    by: Literal["sender", "receiver", "about"]
    say: str
    when: str = ""

    def applies(self, row: Row) -> bool:
        if not self.when:
            return True
        field, equals, value = self._condition()
        if equals:
            return row.get(field) == float(value)
        return bool(row.get(field)) != self.when.startswith("!")

    @property
    def fields(self) -> set[str]:
        names = {name for _, name, _, _ in string.Formatter().parse(self.say) if name}
        return names | ({self._condition()[0]} if self.when else set())

    def _condition(self) -> tuple[str, str, str]:
        return self.when.removeprefix("!").partition("=")


@dataclass(frozen=True)
class Told:
    clauses: tuple[Clause, ...]

    def __call__(self, look: Look) -> list[str]:
        lines = []
        for clause in self.clauses:
            agent = look.receiver if clause.by == "receiver" else look.sender
            equal = {"receiver": float(look.facts["node"])} if clause.by == "about" else {}
            row = look.last(clause.kind, agent, **equal)
            if row is not None and clause.applies(row):
                said = _Sentence(look).vformat(clause.say, (), row)
                lines.append(f"{said} [{clause.kind}, {row['time_s']:.2f} s]")
        return lines


def told(*clauses: Clause) -> Told:
    return Told(clauses)


# ---- SIM (docs/protocols/sim.md, "Trace") -------------------------------------------------------


def _sim(look: Look) -> list[str]:
    """Its top layer's last adjustment with the reports behind it, the menu, its own last answer."""
    lines = []
    subscription = look.last("subscription", look.receiver)
    top = -1 if subscription is None else int(subscription["top"])
    layers = look.session.layers
    for rank in range(top, -1, -1):
        if (text := _sim_group(look, rank, layers)) is not None:
            lines.append(text)
    if (menu := look.last("sim.menu", look.sender)) is not None:
        lines.append(_sim_menu(menu, layers))
    if (sent := look.last("sim.notification", look.receiver)) is not None:
        state = "congested" if sent["congested"] else "not congested"
        lines.append(
            f"it last answered at {sent['time_s']:.2f} s, {state} with top layer {sent['top']:g}: "
            f"{sent['packets']:g} packets of the present rate, {sent['marked']:g} marked, "
            f"{sent['lost']:g} lost"
        )
    if (round_ := look.last("sim.round", look.sender)) is not None:
        heard = round_["reports"] + round_["missing"]
        lines.append(
            f"the sender's round that ended at {round_['time_s']:.2f} s heard "
            f"{round_['reports']:g} of {heard:g} children; longest round trip "
            f"{round_['rtt_max_us'] / 1e3:.0f} ms"
        )
    return lines


def _sim_group(look: Look, rank: int, layers: int) -> str | None:
    """How the layer's rate was adjusted last, and by which rule  // SIM 3.1"""
    now = look.last("sim.group", look.sender, rank=rank)
    if now is None:
        return None
    before = look.last("sim.group", look.sender, back=2, rank=rank)
    rate = _sim_change(now, before)
    layer = f"layer {rank}"
    if not now["reports"]:
        return f"{layer} is nobody's top layer, so nobody judges it: its rate {rate}"
    if rank == 0:
        rule = "one congested report is enough at the bottom"
    elif rank == layers - 1:
        rule = "all reports must say so at the top"
    else:
        menu = look.last("sim.menu", look.sender)
        rule = "the majority decides" if menu and menu["active"] else "one report is enough"
    state = "congested" if now["congested"] else "not congested"
    return (
        f"{layer} is {state}, by {now['congested_reports']:g} of {now['reports']:g} reports "
        f"({rule}): its rate {rate}"
    )


def _sim_change(now: Row, before: Row | None) -> str:
    rate = f"{8 * now['rate_Bps'] / 1e6:.3f} Mbit/s at {now['time_s']:.2f} s"
    if before is None:
        return f"began at {rate}"
    old = f"{8 * before['rate_Bps'] / 1e6:.3f}"
    if now["rate_Bps"] == before["rate_Bps"]:
        return f"stayed at {rate}"
    return f"{'fell' if now['rate_Bps'] < before['rate_Bps'] else 'rose'} from {old} to {rate}"


def _sim_menu(menu: Row, layers: int) -> str:
    reach = f"receivers reach {8 * menu['min'] / 1e6:.2f} to {8 * menu['max'] / 1e6:.2f} Mbit/s"
    if not menu["active"]:
        return f"the menu was inactive at {menu['time_s']:.1f} s, its last time ({reach})"
    limits = ", ".join(
        f"{8 * menu[f'limit_{rank}'] / 1e6:.2f} for {rank + 1} layers"
        for rank in range(1, layers - 1)
        if menu.get(f"limit_{rank}") is not None
    )
    return f"the menu is active and limits the rate to {limits} Mbit/s ({reach})"


# ---- tables: docs/protocols/<scheme>.md, "Trace" ------------------------------------------------

_ERMCC = told(
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


_RLA = told(
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

_MLDA = told(
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

_MDPCC = told(
    *(
        Clause(
            "mdpcc.rate",
            "sender",
            f"the rate {decision}; goal {{goal_rate_Bps:rate}} by {{clr:node}}, the current "
            "limiting representative (CLR): loss {loss:%}, round trip {rtt_us:ms}; "
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

_TFMCC = told(
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

_PGMCC = told(
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

_RLM = told(
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

_RLC = told(
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

_PLM = told(
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


EXPLANATIONS: dict[str, Callable[[Look], list[str]]] = {
    "ermcc": _ERMCC,
    "mdpcc": _MDPCC,
    "mlda": _MLDA,
    "pgmcc": _PGMCC,
    "plm": _PLM,
    "rla": _RLA,
    "rlc": _RLC,
    "rlm": _RLM,
    "sim": _sim,
    "tfmcc": _TFMCC,
}
