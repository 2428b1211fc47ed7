"""Sources and destinations as the overview shows them: keys and lines to paste, and how each receiver is doing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hookline.api.services import Services
from hookline.connections.model import Destination, SecretSetting, Source
from hookline.connections.rotation import running_rotations, secret_of
from hookline.connections.state import Stored
from hookline.features.destinations.health import WINDOW_SECONDS, Failure, Health, is_failing
from hookline.features.destinations.service import destination_health
from hookline.features.destinations.state import next_probes
from hookline.features.fleet.service import fleet_log, role_metrics
from hookline.features.insights.service import series_log
from hookline.features.notices.conditions.finding import BREAKER_OPEN
from hookline.features.setup.snippets import Snippet, few_of_source, host_of
from hookline.insights.series_log import Recent

SIGNATURES: dict[SecretSetting, str] = {"sharedSecret": "X-Signature", "standardWebhooks": "Standard Webhooks"}
"""What people know the ways of signing by."""
TOO_MANY_REQUESTS = 429
SERVER_ERRORS = 500


class SourceView(NamedTuple):
    """One source with its lines to paste."""

    id: str
    name: str
    type: str
    kind: str
    shape: str
    word: str
    keys: Sequence[str]
    batch_bytes: int
    snippets: Sequence[Snippet]


class OverlapView(NamedTuple):
    """A secret that rotates: what it signs, and until when the old one is good too."""

    name: str
    until: str


class DestinationView(NamedTuple):
    """One destination and how it is doing. ``asked_at``: the next probe, while the breaker is open."""

    id: str
    name: str
    hosts: Sequence[str]
    sources: Sequence[str]
    signed: Sequence[str]
    overlaps: Sequence[OverlapView]
    kind: str
    shape: str
    word: str
    retrying: int
    dead_letters: int
    problem: Failure | None
    asked_at: str | None


def source_view(source: Source, url: str) -> SourceView:
    """Return one source."""
    kind, shape, word = ("good", "●", "enabled") if source.enabled else ("off", "○", "off")
    snippets = few_of_source(source.write_keys[0], url) if source.write_keys else []
    keys, batch_bytes = source.write_keys, source.batch_bytes
    return SourceView(source.id, source.name, source.type, kind, shape, word, keys, batch_bytes, snippets)


def destination_views(services: Services, destinations: Sequence[Stored[Destination]]) -> list[DestinationView]:
    """Return every destination with its health."""
    lanes = {stored.object.id: stored.lane.number for stored in destinations if stored.lane is not None}
    healths = destination_health(services).of_lanes(lanes)
    deliver = role_metrics(services).reports().get("deliver")
    here = {id for id, value in deliver.by_label(BREAKER_OPEN).items() if value} if deliver else set()
    open_breakers, probes = here | fleet_log(services).open_breakers, next_probes(services)
    now_ms = services.store.now_ms()
    recent = series_log(services).recent(WINDOW_SECONDS, now_ms // 1000)
    views: list[DestinationView] = []
    for stored in destinations:
        id, health = stored.object.id, healths.get(stored.object.id)
        state = _destination_state(stored, health, id in open_breakers, recent.get(id, Recent()))
        views.append(_destination_view(stored, health or Health(), state, probes.get(id), now_ms))
    return views


def _destination_view(
    stored: Stored[Destination], health: Health, state: tuple[str, str, str], probe: str | None, now_ms: int
) -> DestinationView:
    destination = stored.object
    kind, shape, word = state
    return DestinationView(
        id=destination.id,
        name=destination.name,
        hosts=[host_of(webhook.url) for webhook in destination.settings.webhooks],
        sources=destination.sources,
        signed=[name for setting, name in SIGNATURES.items() if secret_of(destination.settings, setting) is not None],
        overlaps=[OverlapView(SIGNATURES[each.setting], each.until) for each in running_rotations(destination, now_ms)],
        kind=kind,
        shape=shape,
        word=word,
        retrying=health.retrying,
        dead_letters=health.dead_letters,
        problem=health.failure if kind in ("warn", "dead") else None,
        asked_at=probe if kind == "dead" else None,
    )


def _destination_state(
    stored: Stored[Destination], health: Health | None, breaker_open: bool, recent: Recent
) -> tuple[str, str, str]:
    if not stored.object.enabled or stored.lane is None or health is None:
        return "off", "○", "Off"
    if stored.lane.paused is not None:
        because = f" ({stored.lane.paused.reason})" if stored.lane.paused.reason else ""
        return "warn", "▲", f"Paused{because}"
    if breaker_open:
        return "dead", "■", _receiver_word(health.failure)
    if is_failing(recent, health.retrying):
        share = recent.failures / max(1, recent.delivered + recent.failures)
        return "warn", "▲", f"Degraded ({share:.0%} failing)" if recent.failures else "Degraded"
    if health.detached:
        return "wait", "◔", "Catching up"
    return "good", "●", "Healthy"


def _receiver_word(failure: Failure | None) -> str:
    """Name what a receiver does whose breaker is open, from its latest failed attempt."""
    if failure is None or failure.http_status is None:
        return "Unreachable"
    if failure.http_status == TOO_MANY_REQUESTS:
        verb = "Throttling"
    else:
        verb = "Erroring" if failure.http_status >= SERVER_ERRORS else "Refusing"
    return f"{verb} ({failure.http_status})"
