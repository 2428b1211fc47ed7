"""Moments to look at: reports, destinations with lanes, and deliver's database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hookline.connections.model import Destination, LaneConfig, Pause, Source, Webhook, WebhookSettings
from hookline.connections.notifications import Notification
from hookline.connections.state import Stored
from hookline.database.connection import Connection
from hookline.database.location import DatabaseLocation
from hookline.database.open import open_deliver
from hookline.features.fleet.metrics import RoleReport
from hookline.features.notices.conditions.finding import Finding, Moment, OpenNotice

NOW_MS = 1_760_000_000_000
HOUR_MS = 3_600_000


def report(role: str, fresh: bool = True, **values: Any) -> dict[str, RoleReport]:
    """What one role reports, by role."""
    return {role: RoleReport(role, fresh, values)}


def moment(
    reports: dict[str, RoleReport] | None = None,
    *ids: str,
    now_ms: int = NOW_MS,
    notices: dict[tuple[str, str], OpenNotice] | None = None,
    sources: Sequence[str] = (),
    paused: Pause | None = None,
    open_elsewhere: frozenset[str] | None = None,
    rules: Sequence[dict[str, Any]] = (),
    connected: str = "",
) -> Moment:
    """A moment with these destinations enabled, connected to one source or none: the first has lane 1, and so on."""
    destinations = [
        Stored(
            _destination(id, connected),
            1,
            None,
            LaneConfig(number=number, sources={connected: {0: 0}} if connected else {}, paused=paused),
        )
        for number, id in enumerate(ids, 1)
    ]
    known = [Stored(Source(id=id, name=id), 1) for id in sources]
    return Moment(now_ms, reports or {}, destinations, known, notices, open_elsewhere, [rule(**each) for each in rules])


def rule(**given: Any) -> Notification:
    """A notification rule."""
    return msgspec.convert({"id": "ops", "name": "Ops", "to": {"email": ["a@b.example"]}, **given}, Notification)


def notice(
    count: int = 1, opened_at_ms: int = NOW_MS, last_seen_at_ms: int = NOW_MS, since_ms: int | None = None
) -> OpenNotice:
    """An open notice."""
    return OpenNotice(1, "", count, opened_at_ms, last_seen_at_ms, since_ms)


def strong(found: Sequence[Finding] | None) -> list[tuple[str, str]]:
    """Kind and subject of what would open a notice."""
    return [(each.kind, each.subject) for each in found or () if not each.weak]


def deliver_db(location: DatabaseLocation) -> Connection:
    """Deliver's database, for writing."""
    return open_deliver(location)


def _destination(id: str, connected: str) -> Destination:
    settings = WebhookSettings(webhooks=(Webhook(url="https://crm.example.com/"),))
    return Destination(id=id, name=id, settings=settings, sources=(connected,) if connected else ())
