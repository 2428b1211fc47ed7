"""Show sources and destinations on the overview, and the way of the events between them with counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hookline.api.services import Services, deliver_reader
from hookline.connections.model import Destination, SecretSetting, Source
from hookline.connections.rotation import running_rotations, secret_of
from hookline.connections.state import Stored
from hookline.features.destinations.state import WINDOW_SECONDS, Failure, Health, health_of, is_failing, next_probes
from hookline.features.fleet.metrics import RoleReport
from hookline.features.fleet.service import fleet_log, role_metrics
from hookline.features.insights.service import series_log
from hookline.features.notices.conditions.finding import BREAKER_OPEN
from hookline.features.setup.snippets import Snippet, few_of_source, host_of
from hookline.insights.series import Recent
from hookline.web.rendering import milliseconds, number

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
    healths = health_of(deliver_reader(services), lanes)
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


class Station(NamedTuple):
    """One stop on the way, with its count."""

    name: str
    value: str
    note: str
    state: str


class Aside(NamedTuple):
    """A number beside the way: what waits, failed or was left out."""

    kind: str
    shape: str
    value: str
    word: str


def the_way(reports: Mapping[str, RoleReport]) -> tuple[list[Station], list[Aside]]:
    """Return the four stations and the numbers beside them; counts are since the roles started."""
    nothing = RoleReport("", False, {})
    collect, deliver = reports.get("collect", nothing), reports.get("deliver", nothing)
    accepted = collect.number("hookline_collect_accepted_total")
    read = deliver.number("hookline_deliver_read_total")
    routed = max(0, read - collect.number("hookline_collect_rejected_total"))  # which are kept, and read over
    lag = deliver.number("hookline_deliver_lag_events")
    delivered = deliver.number("hookline_deliver_delivered_total")
    failures = deliver.number("hookline_deliver_failures_total")
    behind = f"{number(lag)} behind" if lag else "nothing behind"
    stations = [
        Station("Accepted", number(accepted), "durable on disk", _reached(accepted)),
        Station("Routed", number(routed), behind, "wait" if lag else _reached(routed)),
        Station("Sent", number(delivered + failures), _share(failures, delivered + failures), _reached(delivered)),
        Station("Delivered", number(delivered), _latency(deliver), _reached(delivered)),
    ]
    return stations, _asides(collect, deliver)


def _reached(count: float) -> str:
    return "good" if count else "off"


def _asides(collect: RoleReport, deliver: RoleReport) -> list[Aside]:
    items = (
        ("wait", "◔", deliver.number("hookline_deliver_queued"), "in flight"),
        ("warn", "▲", deliver.number("hookline_deliver_retry_rows"), "retrying"),
        ("dead", "■", deliver.number("hookline_deliver_dead_letters_total"), "not delivered"),
        ("dead", "■", collect.number("hookline_collect_rejected_total"), "rejected"),
        ("off", "○", deliver.number("hookline_deliver_duplicates_total"), "duplicates dropped"),
    )
    return [Aside(kind, shape, number(value), word) for kind, shape, value, word in items if value]


def _share(failures: float, requests: float) -> str:
    return f"{failures / requests:.1%} failed" if failures and requests else "none failed"


def _latency(deliver: RoleReport) -> str:
    """Return the median from acceptance to the receiver's answer, as far as the buckets tell."""
    histogram = deliver.values.get("hookline_deliver_latency_seconds")
    if not isinstance(histogram, dict):
        return ""
    buckets = histogram.get("buckets", {})
    half, seen = sum(buckets.values()) / 2, 0
    for bound, count in buckets.items():
        seen += count
        if seen >= half > 0 and bound != "+Inf":
            return f"p50 ≤ {milliseconds(float(bound) * 1000)}"
    return "to receivers" if seen == 0 else "p50 over 5 s"
