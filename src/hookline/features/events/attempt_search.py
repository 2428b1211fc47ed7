"""A destination's attempts with what a person wants to know of each: the event, the URL, the replay."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from hookline.api.services import Services, deliver_reader
from hookline.events.timestamps import iso
from hookline.features.destinations.service import DestinationPast, destination_past
from hookline.features.events.log import EventLog
from hookline.features.events.service import attempt_log, event_log
from hookline.journal.record import Record
from hookline.outcomes.outcome import Outcome
from hookline.outcomes.request_urls import RequestUrls
from hookline.outcomes.results import AttemptFilter, AttemptLog, Key, LoggedAttempt, id_of
from hookline.replays.dead_letters import DeadLetterFilter
from hookline.replays.predicate import event_name

SEARCH_SECONDS_MAX = 1.0
NEWEST: Key = (1 << 62, 0, 0, 0, 0)
"""Before every attempt."""


class ShownAttempt(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One request to one URL. ``source``, ``type``, ``event`` and ``messageId`` are null if the event is no longer
    stored. ``error`` is the beginning of the answer's body, or why there was no answer. ``remark`` is what a
    destination of a kind without requests said when it accepted the event."""

    id: str
    at: str
    message_id: str | None
    source: str | None
    type: str | None
    event: str | None
    number: int
    url: str
    outcome: str
    http_status: int | None
    error: str | None
    milliseconds: int
    next_at: str | None
    replay: str | None
    remark: str | None = None


class ShownPage(NamedTuple):
    """Attempts, and where the next ones begin."""

    attempts: Sequence[ShownAttempt]
    after: str | None


class AttemptSearch:
    """One search for one destination; on the event log's thread."""

    def __init__(self, log: AttemptLog, past: DestinationPast, events: EventLog, destination: str) -> None:
        self._log = log
        self._past = past
        self._events = events
        self._destination = destination
        self._urls: dict[int, RequestUrls | None] = {}
        self._changes = past.changes(destination)
        self.lanes = past.lanes(destination)
        """The replay of each lane, None for the destination's own."""

    def page(self, wanted: AttemptFilter, url: str | None, limit: int, before: Key) -> ShownPage:
        """Return the newest that are meant, at most ``limit``."""
        deadline = time.monotonic() + SEARCH_SECONDS_MAX
        page = self._log.newest(
            self._destination,
            self.lanes,
            wanted,
            limit,
            before,
            takes=lambda attempt: url is None or self.url(attempt) == url,
            due=lambda: time.monotonic() > deadline,
        )
        after = None if page.after is None else id_of(page.after)
        return ShownPage([self.shown(each) for each in page.attempts], after)

    def get(self, key: Key) -> LoggedAttempt | None:
        """Return one attempt."""
        return self._log.get(self._destination, self.lanes, key)

    def record(self, attempt: LoggedAttempt) -> Record | None:
        """Return its event, None when that is no longer stored or was erased: what stands there now is no text."""
        record = self._events.record_at(attempt.partition, attempt.offset)
        return None if record is None or record.erased else record

    def url(self, attempt: LoggedAttempt) -> str:
        """Return the URL; of results in blocks it is the one of that number in the settings of then."""
        if attempt.url is not None:
            return attempt.url
        urls = self._urls_then(attempt)
        if urls is None:
            return ""
        return urls.of(attempt.url_index or 0, self.record(attempt) if urls.asks_event else None)

    def shown(self, attempt: LoggedAttempt) -> ShownAttempt:
        """Return the attempt with its event."""
        record = self.record(attempt)
        return ShownAttempt(
            id=attempt.id,
            at=iso(attempt.at_ms),
            message_id=record.message_id if record is not None else None,
            source=record.source if record is not None else None,
            type=record.type if record is not None else None,
            event=event_name(record) or None if record is not None else None,
            number=self._log.number(attempt),
            url=self.url(attempt),
            outcome=attempt.outcome,
            http_status=attempt.http_status,
            error=attempt.error,
            milliseconds=attempt.milliseconds,
            next_at=None if attempt.next_at_ms is None else iso(attempt.next_at_ms),
            replay=self.lanes.get(attempt.lane),
            remark=self._remark(attempt),
        )

    def _urls_then(self, attempt: LoggedAttempt) -> RequestUrls | None:
        # One look for all between two changes: settings change seldom, and a page has many attempts.
        key = bisect_right(self._changes, attempt.at_ms)
        if key not in self._urls:
            then = self._past.at(self._destination, attempt.at_ms, attempt.lane)
            self._urls[key] = None if then is None else RequestUrls(then)
        return self._urls[key]

    def _remark(self, attempt: LoggedAttempt) -> str | None:
        urls = self._urls_then(attempt) if attempt.outcome == Outcome.SUCCESS else None
        return self._log.remark(attempt) if urls is not None and urls.is_sink else None


def attempt_search(services: Services, destination: str) -> AttemptSearch:
    """Return the search for the attempts of a destination."""
    return AttemptSearch(attempt_log(services), destination_past(services), event_log(services), destination)


async def last_ending(services: Services, destination: str) -> str:
    """Return a sentence on the last event that left a destination's queue, and when; empty if none is known.

    It is for whoever asks to try what has just been delivered.
    """
    success = AttemptFilter(Outcome.SUCCESS)
    page = await event_log(services).run(lambda: attempt_search(services, destination).page(success, None, 1, NEWEST))
    wanted = DeadLetterFilter(destination=destination)
    letters = await event_log(services).run(lambda: deliver_reader(services).dead_letters.newest(1, None, wanted))
    endings = [(each.at, "was delivered") for each in page.attempts]
    endings += [(iso(each.at), "became a dead letter") for each in letters]
    return "The last one {1} at {0}.".format(*max(endings)) if endings else ""
