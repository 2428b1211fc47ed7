"""Show a dead letter as people see it, and find where the events of dead letters lie, rows or no rows."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import NamedTuple

import msgspec

from hookline.connections.model import Destination, LaneConfig, Offsets
from hookline.events.timestamps import iso
from hookline.journal.port import Reader
from hookline.journal.reading import read_on
from hookline.journal.record import Record
from hookline.outcomes.progress import BUCKET_SHIFT
from hookline.outcomes.reader import DeliverReader, SavedRange
from hookline.outcomes.results import Results
from hookline.outcomes.rows import PAGE_ROWS, FinalAttempt, SavedDeadLetter
from hookline.replays.dead_letters import DeadLetterFilter
from hookline.replays.model import replay_id


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An event that was not delivered to a destination, and why. ``replay`` is set if a replay could not deliver it."""

    id: int
    destination: str
    source: str
    type: str
    event: str | None
    message_id: str
    partition: int
    offset: int
    status: str
    attempts: int
    at: str
    outcome: str | None = None
    http_status: int | None = None
    error: str | None = None
    replay: str | None = None


def dead_letter_of(row: SavedDeadLetter) -> DeadLetter:
    """Return what deliver saved as people see it."""
    values = row._asdict()
    lane = values.pop("replay_lane")
    values["at"] = iso(row.at)
    return DeadLetter(**values, replay=None if lane is None else replay_id(lane))


PLACES_MAX = 1_000_000
"""Events in one replay of dead letters; ask again for the rest."""

Places = dict[int, set[int]]


class Past(NamedTuple):
    """Hold what control knows of a destination's lanes: which are those of replays, and the states of its own, each
    with the journal's ends when it ended."""

    replays: frozenset[int] = frozenset()
    streams: Sequence[tuple[LaneConfig, Offsets | None]] = ()

    def had(self, lane: int, record: Record, partition: int, offset: int) -> bool:
        """Return whether an event that goes to the destination was in the stream of a lane."""
        for config, ended in self.streams:
            # Of what is aimed at it, an earlier version did not write down where the lane began.
            start = config.sources.get(record.source) if record.to is None else config.since or {}
            if config.number == lane and start is not None and offset >= start.get(partition, 0):
                ends = ended if config.until is None else config.until
                if ends is None or offset < ends.get(partition, 0):
                    return True
        return False


def dead_letter_places(
    deliver: DeliverReader,
    results: Results,
    journal: Reader,
    wanted: DeadLetterFilter,
    destination: Destination,
    past: Past,
    due: Callable[[], bool],
) -> Generator[None, None, Places]:
    """Find the offsets by partition; yields whenever ``due`` says so.

    A filter that is only of a destination and a time asks for every dead letter: then the letters whose
    rows have made room for newer ones, and what was discarded when the destination was disabled, belong to it too.
    """
    found: Places = {}
    for partition, offset in deliver.dead_letters.positions(wanted, PLACES_MAX):
        found.setdefault(partition, set()).add(offset)
    if wanted != DeadLetterFilter(destination=wanted.destination, since_ms=wanted.since_ms):
        return found
    known = _Settled(deliver, results, past.replays)
    if deliver.dead_letters.is_full(destination.id):
        for attempt in deliver.attempts.final_ones(destination.id, wanted.since_ms or 0, PAGE_ROWS):
            is_open = deliver.retry_attempt(*attempt) is not None
            if not (is_open or known.has(attempt)) and sum(map(len, found.values())) < PLACES_MAX:
                found.setdefault(attempt.partition, set()).add(attempt.offset)
            if due():
                yield
    for lost in deliver.ranges_discarded(destination.id, wanted.since_ms or 0):
        for offset, record in _kept(journal, lost):
            attempt = FinalAttempt(lost.lane, lost.partition, offset)
            # A range has what others sent as well, and by an earlier version all that came before a retry row.
            its = past.had(lost.lane, record, lost.partition, offset)
            if its and not known.has(attempt) and sum(map(len, found.values())) < PLACES_MAX:
                found.setdefault(lost.partition, set()).add(offset)
            if due():
                yield
    return found


class _Settled:
    """Say whether a lane, or a replay, delivered an event, or a person discarded it; asked for many of one bucket in
    turn."""

    def __init__(self, deliver: DeliverReader, results: Results, replays: frozenset[int]) -> None:
        self._deliver = deliver
        self._results = results
        self._replays = replays
        self._key: tuple[int, int, int] | None = None
        self._offsets: frozenset[int] = frozenset()

    def has(self, attempt: FinalAttempt) -> bool:
        lane, partition, bucket = key = attempt.lane, attempt.partition, attempt.offset >> BUCKET_SHIFT
        if key != self._key:
            self._key, self._offsets = key, self._results.delivered({lane, *self._replays}, partition, bucket)
        return attempt.offset in self._offsets or self._deliver.dead_letters.of_event(*attempt) == "discarded"


def _kept(journal: Reader, lost: SavedRange) -> Iterator[tuple[int, Record]]:
    """Yield what can still be read of a stretch, with its offsets."""
    offset = max(lost.first_offset, journal.start(lost.partition))
    end = min(lost.last_offset + 1, journal.end(lost.partition))
    for group in read_on(journal, lost.partition, offset, end):
        for at, record in enumerate(group.records, group.first_offset):
            if offset <= at < end:
                yield at, record
