"""Show sources on the overview, and the way of the events from them to the destinations with counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from hookline.connections.model import Source
from hookline.features.destinations.figures import Snapshot
from hookline.features.fleet.metrics import RoleReport
from hookline.features.setup.snippets import Snippet, few_of_source
from hookline.telemetry.metrics import PROCESS_STARTED
from hookline.web.rendering import Station, iso_seconds, number


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


def source_view(source: Source, url: str) -> SourceView:
    """Return one source."""
    kind, shape, word = ("good", "●", "enabled") if source.enabled else ("off", "○", "disabled")
    snippets = few_of_source(source.write_keys[0], url) if source.write_keys else []
    keys, batch_bytes = source.write_keys, source.batch_bytes
    return SourceView(source.id, source.name, source.type, kind, shape, word, keys, batch_bytes, snippets)


class Aside(NamedTuple):
    """A number beside the way: what waits, failed or was left out."""

    kind: str
    shape: str
    value: str
    word: str


class Way(NamedTuple):
    """A line of stops that all count the same, with numbers beside it. ``since`` is from when on it counts, or of when
    the numbers are."""

    title: str
    note: str
    since: str | None
    stations: Sequence[Station]
    asides: Sequence[Aside]


def the_ways(reports: Mapping[str, RoleReport], snapshot: Snapshot) -> list[Way]:
    """Return the way of the events up to the routing, and that of the deliveries which come of them: one event may be
    one for each of six destinations, or none."""
    nothing = RoleReport("", False, {})
    return [_events(reports.get("collect", nothing), reports.get("deliver", nothing)), _deliveries(snapshot)]


def _events(collect: RoleReport, deliver: RoleReport) -> Way:
    accepted = collect.number("hookline_collect_accepted_total")
    lag = deliver.number("hookline_deliver_lag_events")
    started = collect.number(PROCESS_STARTED)
    stations = [
        Station("Accepted", number(accepted), "durable on disk", _reached(accepted)),
        Station("To route", number(lag), "behind what is accepted" if lag else "all are routed", _waiting(lag)),
    ]
    asides = (
        ("dead", "■", collect.number("hookline_collect_rejected_total"), "rejected"),
        ("off", "○", deliver.number("hookline_deliver_duplicates_total"), "duplicates dropped"),
    )
    since = iso_seconds(started) if started else None
    return Way("Events", "since collect started", since, stations, _shown(asides))


def _deliveries(snapshot: Snapshot) -> Way:
    every = snapshot.figures.values()
    queued, retrying = sum(each.queued for each in every), sum(each.retrying for each in every)
    delivered, dead = sum(each.delivered for each in every), sum(each.dead_letters for each in every)
    exact = all(each.queued_exact for each in every)
    stations = [
        Station("Queued", f"{'' if exact else '≤ '}{number(queued)}", "not sent yet", "wait" if queued else "off"),
        Station("Retrying", number(retrying), "failed, sent again", "warn" if retrying else "off"),
        Station("Delivered", number(delivered), "accepted by receivers, all time", _reached(delivered)),
        Station("Not delivered", number(dead), "kept as dead letters", "dead" if dead else "off"),
    ]
    return Way("Deliveries", "as of", snapshot.as_of, stations, ())


def _reached(count: float) -> str:
    return "good" if count else "off"


def _waiting(count: float) -> str:
    return "wait" if count else "good"


def _shown(items: Iterable[tuple[str, str, float, str]]) -> list[Aside]:
    return [Aside(kind, shape, number(value), word) for kind, shape, value, word in items if value]
