"""``/api/v1/status``: what is wrong now, on one screen."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import msgspec
from litestar import get

from hookline.api.handlers import FromServices
from hookline.api.services import Services
from hookline.features.destinations.figures import figures_log
from hookline.features.destinations.state import TROUBLED, DestinationState, states_of
from hookline.features.fleet.service import STANDING_BY, WORKING, whole_machine
from hookline.features.issues.service import issue_store
from hookline.features.notices.log import Notice
from hookline.features.notices.service import notice_log

NOTICES_MAX = 50
CALM = ("healthy", "catching_up", "disabled", "draining")


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """The state at one moment. ``ok`` is false while a process does not work, a receiver does not accept its events, or
    a notice above severity info is open that nobody has acknowledged. ``destinations``: those that are not healthy, or
    have queued, retrying or undelivered events, worst first. ``destinationsCount`` counts all destinations,
    ``openIssues`` the open issues. ``roles``: for each process of this machine, ``working`` or what is wrong.
    ``notices``: the open ones that nobody has acknowledged, the most severe first, at most 50.
    """

    ok: bool
    as_of: str
    roles: Mapping[str, str]
    destinations: Sequence[DestinationState]
    destinations_count: int
    open_issues: int
    notices: Sequence[Notice]


@get("/status", needs="viewer")
async def get_status(services: FromServices) -> Status:
    """Return what is wrong now: processes, destinations, issues and notices."""
    return await asyncio.to_thread(status_of, services)


def status_of(services: Services) -> Status:
    """Look it up; reads the journal, so not on an event loop."""
    stored = services.store.destinations()
    snapshot = figures_log(services).look()
    states = states_of(services, stored)
    shown = [each for each in states if each.state not in CALM or each.figures.open or each.figures.dead_letters]
    notices = notice_log(services).worst(NOTICES_MAX)  # so that no number of lesser ones hides what is wrong
    roles = whole_machine(services).look(WORKING if services.ready else "not_ready").roles
    ok = (
        all(role in (WORKING, STANDING_BY) for role in roles.values())
        and not any(each.state in TROUBLED for each in states)
        and all(each.severity == "info" for each in notices)
    )
    return Status(
        ok=ok,
        as_of=snapshot.as_of,
        roles=roles,
        destinations=sorted(shown, key=lambda each: (each.state not in TROUBLED, -each.figures.open, each.id)),
        destinations_count=len(states),
        open_issues=issue_store(services).counts()["open"],
        notices=notices,
    )
