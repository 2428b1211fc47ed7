"""Where the events of dead letters lie: those that have a row, those whose row has gone, and discarded stretches."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

from hookline.connections.model import Destination
from hookline.features.dead_letters.service import DeadLetterLog, FinalAttempt, LostRange
from hookline.journal.port import Reader
from hookline.journal.reading import read_on
from hookline.outcomes.buckets import Buckets
from hookline.outcomes.progress import BUCKET_SHIFT
from hookline.replays.dead_letters import DeadLetterFilter

PLACES_MAX = 1_000_000
"""Events in one replay of dead letters; ask again for the rest."""

Places = dict[int, set[int]]


def dead_letter_places(
    log: DeadLetterLog,
    buckets: Buckets,
    journal: Reader,
    wanted: DeadLetterFilter,
    destination: Destination,
    due: Callable[[], bool],
) -> Generator[None, None, Places]:
    """Find the offsets by partition; yields whenever ``due`` says so.

    A filter that is only of a destination and a time asks for every dead letter: then the letters whose
    rows have made room for newer ones, and what was discarded when the destination was disabled, belong to it too.
    """
    found: Places = {}
    for partition, offset in log.places(wanted, PLACES_MAX):
        found.setdefault(partition, set()).add(offset)
    if wanted != DeadLetterFilter(destination=wanted.destination, since_ms=wanted.since_ms):
        return found
    known = _Delivered(buckets)
    if log.is_full(destination.id):
        for attempt in log.final_attempts(destination.id, wanted.since_ms or 0):
            if not known.has(attempt) and not log.is_retried(attempt):
                found.setdefault(attempt.partition, set()).add(attempt.offset)
            if due():
                yield
    for lost in log.discarded_ranges(destination.id, wanted.since_ms or 0):
        for offset in _kept(journal, lost):
            attempt = FinalAttempt(lost.lane, lost.partition, offset)
            if not known.has(attempt) and sum(map(len, found.values())) < PLACES_MAX:
                found.setdefault(lost.partition, set()).add(offset)
            if due():
                yield
    return found


class _Delivered:
    """Whether a lane delivered an event, asked for many of one bucket in turn."""

    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets
        self._key: tuple[int, int, int] | None = None
        self._offsets: frozenset[int] = frozenset()

    def has(self, attempt: FinalAttempt) -> bool:
        key = attempt.lane, attempt.partition, attempt.offset >> BUCKET_SHIFT
        if key != self._key:
            self._key, self._offsets = key, self._buckets.delivered(*key)
        return attempt.offset in self._offsets


def _kept(journal: Reader, lost: LostRange) -> Iterator[int]:
    """Yield the offsets of a stretch that can still be read."""
    offset = max(lost.first_offset, journal.start(lost.partition))
    end = min(lost.last_offset + 1, journal.end(lost.partition))
    for group in read_on(journal, lost.partition, offset, end):
        yield from range(group.first_offset, min(group.next_offset, end))
