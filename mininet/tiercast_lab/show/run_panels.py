"""Chooses the panels of a run: its scheme's own or those of any scheme."""

from __future__ import annotations

from tiercast_lab.base.by_name import module_of
from tiercast_lab.results.storage import StoredRun
from tiercast_lab.show import scheme_panels
from tiercast_lab.show.panels import (
    Panel,
    beside_tcp,
    queues,
    sending_rates,
    session_rates,
    sessions,
    subscriptions,
    variables,
)


def all_panels(run: StoredRun) -> list[Panel]:
    """The main panels and, for a scheme without panels of its own, what its cores traced."""
    if not run.context.sessions:
        return main_panels(run)
    own = module_of(scheme_panels.__name__, run.scheme)
    return main_panels(run) + ([] if own else variables(run))


def main_panels(run: StoredRun) -> list[Panel]:
    if not run.context.sessions:
        return [queues(run)]
    more = [sessions(run)] if len(run.context.sessions) > 1 else []
    if own := module_of(scheme_panels.__name__, run.scheme):
        panels: list[Panel] = own.main_panels(run) + more
        return panels + ([beside_tcp(run), queues(run)] if run.context.rivals else [])
    panels = [session_rates(run)]
    if run.context.rivals:
        panels.append(beside_tcp(run))
    panels.append(sending_rates(run))
    if run.context.session.layers > 1:
        panels.append(subscriptions(run, "Receivers subscribed to each layer"))
    return [*panels, queues(run), *more]
