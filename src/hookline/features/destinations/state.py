"""Tell how destinations stand: the state of the lane, what waits there since when, and what fails, as deliver wrote it
down."""

from __future__ import annotations

import time
from typing import Literal, NamedTuple

import msgspec

from hookline.api.listing import COUNTED_MAX
from hookline.api.services import Services
from hookline.connections.model import Destination, LaneConfig
from hookline.connections.state import Stored
from hookline.database.location import location_of
from hookline.events.timestamps import iso
from hookline.features.fleet.service import role_metrics
from hookline.features.insights.service import series_log
from hookline.features.notices.conditions.finding import NEXT_PROBE
from hookline.insights.series import Recent
from hookline.journal.opening import open_reader
from hookline.journal.port import JournalError, Reader
from hookline.journal.reading import Lost, read_on
from hookline.journal.record import Record
from hookline.outcomes import positions
from hookline.outcomes.delivery import Deliveries
from hookline.outcomes.reader import DeliverReader
from hookline.route.decision import not_routed_reason

WINDOW_SECONDS = 300
FAILING_SHARE = 0.1
FAILURES_MIN = 3
"""A destination is failing when as many of its requests in the window have failed, and such a share of them."""
RECENT_ATTEMPTS_MAX = 500
"""Failed attempts looked at for each destination's latest one."""


class Failure(NamedTuple):
    """A destination's latest failed attempt."""

    outcome: str
    http_status: int | None
    error: str | None
    at: str


class Health(NamedTuple):
    """Hold what waits for a destination and what it did not get, each counted up to ``COUNTED_MAX``.

    ``detached`` lanes stand apart from the live stream."""

    detached: bool = False
    retrying: int = 0
    dead_letters: int = 0
    failure: Failure | None = None


def is_failing(recent: Recent, retrying: int) -> bool:
    """Return whether a destination that does not get everything gets too little of it."""
    if not retrying and recent.not_delivered <= 0:
        return False
    requests = recent.delivered + recent.failures
    return not recent.delivered or recent.failures >= max(FAILURES_MIN, FAILING_SHARE * requests)


def health_of(deliver: DeliverReader, lanes: dict[str, int]) -> dict[str, Health]:
    """Return the health of destinations, given the lane number of each that is enabled.

    Before deliver's first start every destination is simply well.
    """
    detached = deliver.lanes_apart()
    failures = deliver.attempts.latest_failures(RECENT_ATTEMPTS_MAX)
    return {
        destination: Health(
            detached=lane in detached,
            retrying=deliver.retry_count(lane, COUNTED_MAX),
            dead_letters=deliver.dead_letters.kept(destination, most=COUNTED_MAX),
            failure=Failure(*latest[:3], iso(latest.at_ms)) if (latest := failures.get(lane)) else None,
        )
        for destination, lane in lanes.items()
    }


ATTEMPTS_MAX = 10_000
"""Failed requests looked at, the newest ones; where there are more, counts are of these."""
CAUSES_MAX = 50
EXAMPLE_CHARACTERS = 500


class FailureCause(msgspec.Struct, frozen=True, rename="camel"):
    """Failed requests that ended alike; ``example`` is what the newest of them was answered, or why there was none."""

    outcome: str
    http_status: int | None
    count: int
    example: str | None
    url: str | None
    first_at: str
    last_at: str


class Causes(NamedTuple):
    """The causes, most frequent first, and whether every failure of the time was looked at."""

    causes: list[FailureCause]
    complete: bool


def causes_of(deliver: DeliverReader, destination: str, since_ms: int) -> Causes:
    """Return the causes of what failed from a time on."""
    groups = deliver.attempts.failure_groups(destination, since_ms, ATTEMPTS_MAX)
    causes: list[FailureCause] = []
    for group in groups[:CAUSES_MAX]:
        # Looked up by itself: reading every answer, only to show one of them, would take most of the time.
        example, url = deliver.attempts.example(destination, group, EXAMPLE_CHARACTERS)
        first_at, last_at = iso(group.first_ms), iso(group.last_ms)
        cause = FailureCause(group.outcome, group.http_status, group.failures, example or None, url, first_at, last_at)
        causes.append(cause)
    return Causes(causes, sum(group.failures for group in groups) < ATTEMPTS_MAX)


SCANNED_MAX = 20_000
"""Records looked at to count what waits; where more lie ahead, their number is an upper bound."""

State = Literal["healthy", "failing", "open", "pausing", "paused", "gone", "draining", "disabled"]
"""``failing`` is judged over some minutes, not by the last answer. ``pausing``: asked for, and deliver has not heard of
it yet. ``draining``: disabled, and still getting what was accepted before."""


class PausedSince(msgspec.Struct, frozen=True):
    """Since when a destination is paused, by whom, and why."""

    since: str
    by: Literal["person", "hookline"]
    reason: str


class Waiting(msgspec.Struct, frozen=True, rename="camel"):
    """Hold what has not been delivered yet: ``events`` never tried, ``retrying`` tried and failed.

    ``events`` is exact, or with ``exact`` false the most it can be. ``oldest_at`` is when the oldest of them came in.
    """

    events: int
    exact: bool
    retrying: int
    oldest_at: str | None


class WaitsFor(msgspec.Struct, frozen=True):
    """Hold what has to come before anything of what waits is sent, and when it is due; null where that is not known
    here.

    ``probe``: the breaker is open, and the receiver is asked with one event. ``retry``: all that waits was tried, and
    the first of it is tried again.
    """

    what: Literal["probe", "retry"]
    until: str | None


class DestinationState(msgspec.Struct, frozen=True, rename="camel"):
    """The answer of ``destinations/{id}/pause`` and ``resume``, and the beginning of that of ``metrics``."""

    id: str
    state: State
    paused: PausedSince | None
    waiting: Waiting
    waits_for: WaitsFor | None
    dead_letters: int


def state_of(services: Services, stored: Stored[Destination]) -> DestinationState:
    """Look it up; reads the journal where something waits, so not on an event loop."""
    id, settings = stored.object.id, services.settings
    recent = series_log(services).recent(WINDOW_SECONDS, int(time.time()), id).get(id, Recent())
    deliveries = Deliveries(settings.data_path, location_of(settings, "deliver"))
    journal = open_reader(settings.data_path / "journal")
    try:
        current = _read(deliveries, journal, stored, recent)
        lane = stored.lane
        due_ms = None if lane is None or current.waiting.events else deliveries.rows.next_retry_ms(lane.number)
    finally:
        deliveries.close()
        journal.close()
    return msgspec.structs.replace(current, waits_for=_waits_for(services, current, due_ms))


def next_probes(services: Services) -> dict[str, str]:
    """Return when each receiver with an open breaker is asked next, as far as the deliver process here knows."""
    deliver = role_metrics(services).reports().get("deliver")
    found = deliver.by_label(NEXT_PROBE) if deliver is not None else {}
    return {id: iso(int(seconds * 1000)) for id, seconds in found.items()}


def _waits_for(services: Services, current: DestinationState, due_ms: int | None) -> WaitsFor | None:
    """``due_ms`` is when the first retry is due, where nothing else waits."""
    if current.state == "open":
        return WaitsFor("probe", next_probes(services).get(current.id))
    if due_ms is None or current.state in ("paused", "pausing", "gone"):
        return None
    at_ms = due_ms - services.store.steady_ms() + services.store.now_ms()
    return WaitsFor("retry", iso(at_ms))


def _read(deliveries: Deliveries, journal: Reader, stored: Stored[Destination], recent: Recent) -> DestinationState:
    destination, lane = stored.object, stored.lane
    buried = deliveries.rows.dead_letters.kept(destination.id)
    if lane is None:
        return DestinationState(destination.id, "disabled", None, Waiting(0, True, 0, None), None, buried)
    states: list[str] = []
    count, exact, oldest = 0, True, deliveries.rows.oldest_retry_ms(lane.number)
    for partition in journal.partitions():
        progress = deliveries.progress(lane.number, partition)
        states.append(progress.state)
        more, all_counted, first_ms = _count(journal, destination, lane, partition, progress.next_offset)
        undone = list(positions.to_offsets(progress.undone))
        count, exact = count + more + len(undone), exact and all_counted
        oldest = _earlier(oldest, first_ms, *(_received(journal, partition, offset) for offset in undone[:1]))
    retrying = deliveries.rows.retry_count(lane.number)
    waiting = Waiting(count, exact, retrying, None if oldest is None else iso(oldest))
    pause = lane.paused
    paused = None if pause is None else PausedSince(iso(pause.since), pause.by, pause.reason)
    failing = is_failing(recent, waiting.retrying)
    state = "draining" if lane.until is not None else _state(paused is not None, states, failing)
    return DestinationState(destination.id, state, paused, waiting, None, buried)


def _state(paused: bool, states: list[str], failing: bool) -> State:
    if paused:
        return "paused" if "paused" in states else "pausing"
    known: tuple[State, ...] = ("gone", "open")
    return next((each for each in known if each in states), "failing" if failing else "healthy")


def _count(
    journal: Reader, destination: Destination, lane: LaneConfig, partition: int, start: int
) -> tuple[int, bool, int | None]:
    """Return how many records from ``start`` on belong to the lane, whether that is exact, and when the first came
    (ms)."""
    end = journal.end(partition)
    start = max(start, journal.start(partition))
    count, seen, first_ms = 0, 0, None
    lost: list[Lost] = []
    try:
        for group in read_on(journal, partition, start, end, lost.append):
            for offset, record in enumerate(group.records, group.first_offset):
                if _waits(record, destination, lane, partition, offset):
                    count += 1
                    first_ms = record.received_at if first_ms is None else first_ms
            seen += len(group.records)
            if seen >= SCANNED_MAX:
                rest = end - group.next_offset
                return count + rest, rest == 0, first_ms
    except JournalError:  # brokers are away: whatever of it can be delivered is at most this
        return end - start, False, first_ms
    return count, not lost, first_ms


def _waits(record: Record, destination: Destination, lane: LaneConfig, partition: int, offset: int) -> bool:
    if record.rejection is not None or record.erased:
        return False
    return not_routed_reason(record, destination, lane, partition, offset) is None


def _received(journal: Reader, partition: int, offset: int) -> int | None:
    record = journal.get(partition, offset)
    return None if record is None else record.received_at


def _earlier(*times_ms: int | None) -> int | None:
    return min((each for each in times_ms if each is not None), default=None)
