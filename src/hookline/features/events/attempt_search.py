"""A destination's attempts with what a person wants to know of each: the event, the URL, the replay."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from hookline.events.timestamps import iso
from hookline.features.destinations.service import DestinationPast
from hookline.features.events.log import EventLog
from hookline.journal.record import Record
from hookline.outcomes.results import AttemptFilter, AttemptLog, Key, LoggedAttempt, id_of
from hookline.replays.predicate import event_name

SEARCH_SECONDS_MAX = 1.0


class ShownAttempt(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One request to one URL. ``source``, ``type``, ``event`` and ``messageId`` are null when the event is no longer
    stored; ``error`` is the beginning of a failed answer's body, or why there was no answer."""

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
        self._urls: dict[tuple[int, int], str] = {}
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
        """Its event, None when it is no longer stored."""
        return self._events.record_at(attempt.partition, attempt.offset)

    def url(self, attempt: LoggedAttempt) -> str:
        """Return the URL; of results in blocks it is the one of that number in the settings of then."""
        if attempt.url is not None:
            return attempt.url
        index = attempt.url_index or 0
        # One look for each minute: settings change seldom, and a page has many attempts.
        key = attempt.at_ms // 60_000, index
        if key not in self._urls:
            then = self._past.at(self._destination, attempt.at_ms, attempt.lane)
            webhooks = then.settings.webhooks if then is not None else ()
            self._urls[key] = webhooks[index].url if index < len(webhooks) else ""
        return self._urls[key]

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
        )
