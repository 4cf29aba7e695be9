"""Explains SIM's trace records (docs/protocols/sim.md, "Trace")."""

from __future__ import annotations

from tiercast_lab.results.explain.snapshot import Row, Snapshot


def explanation(snapshot: Snapshot) -> list[str]:
    """The last adjustment of the receiver's top layer with the reports behind it, the announced
    menu, and the receiver's own last report."""
    lines = []
    subscription = snapshot.last("subscription", snapshot.receiver)
    top = -1 if subscription is None else int(subscription["top"])
    layers = snapshot.session.layers
    for rank in range(top, -1, -1):
        if (text := _group(snapshot, rank, layers)) is not None:
            lines.append(text)
    if (menu := snapshot.last("sim.menu", snapshot.sender)) is not None:
        lines.append(_menu(menu, layers))
    if (sent := snapshot.last("sim.notification", snapshot.receiver)) is not None:
        state = "congested" if sent["congested"] else "not congested"
        lines.append(
            f"it last answered at {sent['time_s']:.2f} s, {state} with top layer {sent['top']:g}: "
            f"{sent['packets']:g} packets of the present rate, {sent['marked']:g} marked, "
            f"{sent['lost']:g} lost"
        )
    if (round_ := snapshot.last("sim.round", snapshot.sender)) is not None:
        heard = round_["reports"] + round_["missing"]
        lines.append(
            f"the sender's round that ended at {round_['time_s']:.2f} s heard "
            f"{round_['reports']:g} of {heard:g} children; longest round trip "
            f"{round_['rtt_max_us'] / 1e3:.0f} ms"
        )
    return lines


def _group(snapshot: Snapshot, rank: int, layers: int) -> str | None:
    """How the layer's rate was last adjusted, and by which rule  // SIM 3.1"""
    now = snapshot.last("sim.group", snapshot.sender, rank=rank)
    if now is None:
        return None
    before = snapshot.last("sim.group", snapshot.sender, back=2, rank=rank)
    rate = _change(now, before)
    layer = f"layer {rank}"
    if not now["reports"]:
        return f"{layer} is nobody's top layer, so nobody judges it: its rate {rate}"
    if rank == 0:
        rule = "one congested report is enough at the bottom"
    elif rank == layers - 1:
        rule = "all reports must say so at the top"
    else:
        menu = snapshot.last("sim.menu", snapshot.sender)
        rule = "the majority decides" if menu and menu["active"] else "one report is enough"
    state = "congested" if now["congested"] else "not congested"
    return (
        f"{layer} is {state}, by {now['congested_reports']:g} of {now['reports']:g} reports "
        f"({rule}): its rate {rate}"
    )


def _change(now: Row, before: Row | None) -> str:
    rate = f"{8 * now['rate_Bps'] / 1e6:.3f} Mbit/s at {now['time_s']:.2f} s"
    if before is None:
        return f"began at {rate}"
    old = f"{8 * before['rate_Bps'] / 1e6:.3f}"
    if now["rate_Bps"] == before["rate_Bps"]:
        return f"stayed at {rate}"
    return f"{'fell' if now['rate_Bps'] < before['rate_Bps'] else 'rose'} from {old} to {rate}"


def _menu(menu: Row, layers: int) -> str:
    reach = (
        f"receivers reach {8 * menu['min_Bps'] / 1e6:.2f} to {8 * menu['max_Bps'] / 1e6:.2f} Mbit/s"
    )
    if not menu["active"]:
        return f"the menu was inactive at {menu['time_s']:.1f} s, its last time ({reach})"
    limits = ", ".join(
        f"{8 * menu[f'limit_{rank}_Bps'] / 1e6:.2f} Mbit/s for {rank + 1} layers"
        for rank in range(1, layers - 1)
    )
    return f"the menu is active and limits the rate to {limits} ({reach})"
