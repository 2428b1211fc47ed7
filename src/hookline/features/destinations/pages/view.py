"""Show destinations with their states and figures, as the overview and their own pages do."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from hookline.api.services import Services
from hookline.connections.model import Destination, SecretSetting
from hookline.connections.rotation import running_rotations, secret_of
from hookline.connections.state import Stored
from hookline.features.destinations.state import (
    ACCEPTS_NOTHING,
    TROUBLED,
    DestinationState,
    State,
    is_halted,
    states_of,
)
from hookline.features.setup.snippets import host_of
from hookline.telemetry.time_buckets import TIME_BUCKET_SECONDS, read_time_buckets
from hookline.web.lists import destination_href

SIGNATURES: dict[SecretSetting, str] = {"sharedSecret": "X-Signature", "standardWebhooks": "Standard Webhooks"}
"""What people know the ways of signing by."""
MARKS: dict[State, tuple[str, str, str]] = {
    "healthy": ("good", "●", "Healthy"),
    "degraded": ("warn", "▲", "Degraded"),
    "unreachable": ("dead", "■", "Unreachable"),
    "erroring": ("dead", "■", "Erroring"),
    "refusing": ("dead", "■", "Refusing"),
    "throttling": ("dead", "■", "Throttling"),
    "gone": ("dead", "■", "Refusing"),
    "catching_up": ("wait", "◔", "Catching up"),
    "pausing": ("warn", "▲", "Pausing"),
    "paused": ("warn", "▲", "Paused"),
    "draining": ("wait", "◔", "Draining"),
    "disabled": ("off", "○", "Disabled"),
}
"""How each state is shown: as which kind, with which shape and word."""


RATE_SECONDS = 60
"""How long a time bucket counts for the rate of now: a report has three of ten seconds, and comes a moment later."""


class OverlapView(NamedTuple):
    """A secret that rotates: what it signs, and until when the old one is good too."""

    name: str
    until: str


class DestinationView(NamedTuple):
    """One destination and how it is doing: ``standing`` holds its state and figures, the rest is how they are shown."""

    id: str
    name: str
    hosts: Sequence[str]
    sources: Sequence[str]
    signed: Sequence[str]
    overlaps: Sequence[OverlapView]
    kind: str
    shape: str
    word: str
    is_halted: bool
    is_troubled: bool
    standing: DestinationState


class DestinationRow(NamedTuple):
    """One destination of a list, and how many events it gets per second."""

    view: DestinationView
    href: str
    per_second: float


def destination_views(services: Services, destinations: Sequence[Stored[Destination]]) -> list[DestinationView]:
    """Return every destination with its state and figures; reads the journal, so not on an event loop."""
    now_ms = services.store.now_ms()
    states = states_of(services, destinations)
    return [_destination_view(stored, state, now_ms) for stored, state in zip(destinations, states, strict=True)]


def _destination_view(stored: Stored[Destination], standing: DestinationState, now_ms: int) -> DestinationView:
    destination = stored.object
    kind, shape, word = MARKS[standing.state]
    return DestinationView(
        id=destination.id,
        name=destination.name,
        hosts=[host_of(webhook.url) for webhook in destination.settings.webhooks],
        sources=destination.sources,
        signed=[name for setting, name in SIGNATURES.items() if secret_of(destination.settings, setting) is not None],
        overlaps=[OverlapView(SIGNATURES[each.setting], each.until) for each in running_rotations(destination, now_ms)],
        kind=kind,
        shape=shape,
        word=f"{word}{_because(standing)}",
        is_halted=is_halted(standing),
        is_troubled=standing.state in TROUBLED,
        standing=standing,
    )


def _because(standing: DestinationState) -> str:
    """Return what is said beside the word: the answer, or the share that fails."""
    if standing.state == "degraded":
        return f" ({standing.failing_share:.0%} failing)" if standing.failing_share else ""
    status = standing.problem.http_status if standing.problem is not None else None
    return f" ({status})" if standing.state in ACCEPTS_NOTHING and status is not None else ""


def destination_rows(services: Services, destinations: Sequence[Stored[Destination]]) -> list[DestinationRow]:
    """Return the rows of a list; reads the journal, so not on an event loop."""
    per_second = rates(services.settings.data_path)
    return [
        DestinationRow(view, destination_href(view.id), per_second.get(view.id, 0.0))
        for view in destination_views(services, destinations)
    ]


def rates(data_path: Path, clock: Callable[[], float] = time.time) -> dict[str, float]:
    """Return how many events each destination got per second over the last reports; one that is missing got none. What
    a deliver process reported that is no longer there says nothing of now."""
    now_seconds = int(clock())
    time_buckets = [each for each in read_time_buckets(data_path / "run") if now_seconds - each.at <= RATE_SECONDS]
    seconds = len(time_buckets) * TIME_BUCKET_SECONDS
    delivered: Counter[str] = Counter()
    for time_bucket in time_buckets:
        for id, each in time_bucket.destinations.items():
            delivered[id] += each.delivered
    return {id: count / seconds for id, count in delivered.items()}
