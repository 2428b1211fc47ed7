"""What a checkpoint will write besides the positions: collected in memory, committed in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from hookline.deliver.lanes.delivery import Moved, moved_mask
from hookline.outcomes.reader import NEVER_MS
from hookline.replays.dead_letters import DeadLetterAction
from hookline.replays.offset_set import OffsetSet


class RetryRow(NamedTuple):
    """A delivery that failed and is to be tried again; it refers to the journal, the body is not copied."""

    lane: int
    partition: int
    offset: int
    attempt: int
    first_at_ms: int
    due_ms: int
    urls: int
    """Bit i set: URL i is to be tried again; above them what ``Delivery.urls`` has, and ``ASKED_TO_WAIT``."""


Kind = Literal["first_due", "oldest", "overdue", "probe", "row"]


class Look(NamedTuple):
    """A question about a lane's retry rows; ``position`` where it is about the row of one event."""

    kind: Kind
    lane: int
    position: int = -1


Looks = Mapping[Look, tuple[int, ...]]
"""Questions with their values: those of the condition, and how many rows are wanted at most."""

Answers = Mapping[Look, list[RetryRow]]


class AttemptRow(NamedTuple):
    """One attempt that did not succeed."""

    partition: int
    offset: int
    lane: int
    destination: str
    number: int
    url: str
    at_ms: int
    outcome: str
    http_status: int | None
    error: str
    milliseconds: int
    next_at_ms: int | None
    head: str | None = None
    """Status line and headers of the receiver's answer."""
    cause: int | None = None
    """The number of its cause (``outcomes.cause``)."""


class RemarkRow(NamedTuple):
    """Hold what a sink said of an event that it accepted."""

    lane: int
    partition: int
    offset: int
    remark: str


class NewsRow(NamedTuple):
    """Hold what a sink said of itself."""

    destination: str
    at_ms: int
    sentence: str


class DeadLetterRow(NamedTuple):
    """A delivery that failed, expired or was discarded."""

    lane: int
    destination: str
    partition: int
    offset: int
    message_id: str
    source: str
    type: str
    status: str
    attempts: int
    at_ms: int
    outcome: str | None
    http_status: int | None
    error: str | None
    event: str | None = None
    """The event's name, as people look for it."""
    first_at_ms: int | None = None
    """When it was tried first, by the service's own clock; its window goes on from there if it is called back."""
    cause: int | None = None
    """That of its last attempt."""


class RangeRow(NamedTuple):
    """One status for every event of a lane in ``[first_offset, last_offset]`` that has none of its own."""

    lane: int
    destination: str
    partition: int
    first_offset: int
    last_offset: int
    status: str
    at_ms: int
    reason: str
    with_retries: bool = False
    """Whether it begins with the lane's first retry row in the partition, where that comes before it."""


class Requeue(NamedTuple):
    """Dead letters of the run that opened a breaker, given up at ``since_ms`` or later, go back to waiting: it was not
    those events' fault. Without ``refusals`` those that the receiver refused one by one stay."""

    lane: int
    since_ms: int
    refusals: bool = False


class LaneRow(NamedTuple):
    """Say where a lane stands that is not simply at the shared reader's position."""

    lane: int
    partition: int
    next_offset: int
    state: str
    blob: bytes


class FilterRow(NamedTuple):
    """Which filters decide about a lane's events: those of a connections version, from an offset and a time on.

    ``version`` 0 closes a lane: what lies behind was never decided about.
    """

    lane: int
    partition: int
    offset: int
    version: int
    at_ms: int


class CheckpointRow(NamedTuple):
    """Say where a partition's shared reader stands, and what is open in the lanes attached to it."""

    partition: int
    next_offset: int
    version: int
    blob: bytes


class BlockRow(NamedTuple):
    """The results since the last checkpoint (``progress.py`` has the format); ``at_ms`` is before the time of none."""

    partition: int
    first_offset: int
    last_offset: int
    at_ms: int
    entries: bytes


class ReplayRow(NamedTuple):
    """Hold what has become of a replay; how much it delivered, and what failed, is counted from rows of events."""

    lane: int
    state: str
    at_ms: int
    ended_ms: int | None = None
    reason: str | None = None


class ReplayedRow(NamedTuple):
    """An event that a replay delivered: it counts for that, and is no dead letter any more."""

    lane: int
    partition: int
    offset: int
    destination: str


class ErasureRow(NamedTuple):
    """Hold what deliver keeps about the events of ``rows`` is to go; ``retries`` are the rows that were closed for it.
    The last one for an erasure notes all its ``positions`` as erased."""

    request: int
    asked_ms: int
    round: int
    retries: int
    rows: Sequence[tuple[int, int]]
    """Partition and offset of each."""
    positions: dict[int, OffsetSet]


class Batch:
    """Everything the next checkpoint writes."""

    def __init__(self) -> None:
        self.attempts: list[AttemptRow] = []
        self.remarks: list[RemarkRow] = []
        self.news: list[NewsRow] = []
        self.retries: dict[tuple[int, int, int], RetryRow] = {}
        self.settled: set[tuple[int, int, int]] = set()
        """Retry rows to delete, as (lane, partition, offset)."""
        self.dead_letters: list[DeadLetterRow] = []
        self.requeues: list[Requeue] = []
        self.requeue_urls: dict[int, str] = {}
        """By lane with fan-out ``all``: its URLs as JSON. Those that took an event are not asked again."""
        self.requeued: dict[int, int] = {}
        """How many came back, by lane: filled in when the batch is written."""
        self.shifts: list[tuple[int, int, int]] = []
        """(ms, lane, partition): the time a lane was paused does not count for the window of its retry rows."""
        self.reordered: list[tuple[int, int, int, int]] = []
        """(due ms of what waited for its turn, latest due ms of the others, lane, latest due ms)"""
        self.moved_urls: list[tuple[int, int, Moved]] = []
        """(lane, partition, where its URLs stood): retry rows name them by where they stand."""
        self.ranges: list[RangeRow] = []
        self.lanes: dict[tuple[int, int], LaneRow] = {}
        self.lanes_gone: set[tuple[int, int]] = set()
        self.lanes_ended: set[int] = set()
        self.checkpoints: list[CheckpointRow] = []
        self.blocks: list[BlockRow] = []
        self.recovered_ms: int | None = None
        """When the oldest result was that an earlier process left to be saved; None: there is none."""
        self.delivered: dict[tuple[str, int], int] = {}
        """How many of the results in the blocks delivered an event at first hand, by destination and partition."""
        self.filters: list[FilterRow] = []
        self.today = 0
        """Days since the epoch by the service's own clock, by which usage is old; filled in when it is gathered."""
        self.usage: dict[tuple[int, str, int], list[int]] = {}
        """Events read, and how many of them filters kept from every destination, by (day since the epoch, source,
        partition)."""
        self.replays: dict[int, ReplayRow] = {}
        self.parts_done: list[tuple[int, int, int]] = []
        """(at ms, lane, partitions): a worker's part of a replay is done; with that of so many partitions all of it."""
        self.replayed: list[ReplayedRow] = []
        self.actions: list[DeadLetterAction] = []
        """What people want of dead letters and of events that wait for another try."""
        self.versions: list[tuple[int, int, int]] = []
        """(partition, version, offset): connections version in force from this offset on."""
        self.erasures: list[ErasureRow] = []
        self.erased: list[tuple[int, int, int, int, int]] = []
        """(at ms, request, asked ms, round, parts): erasures of which nothing is left, once so many parts are done."""
        self.epochs: dict[int, int] = {}
        """By partition, where deliver is many processes: the batch may be written only while it is owned by these."""
        self.looks: dict[Look, tuple[int, ...]] = {}
        """What is asked about retry rows: it is read when the batch is written."""
        self.found: Answers = {}
        """The answers: filled in then."""
        self.counts: set[int] = set()
        """Lanes whose rows are to be counted when the batch is written."""
        self.counted: dict[int, int] = {}
        """How many they have: filled in then."""
        self.log_emptied: bool | None = None
        """After an erasure was written: whether the write-ahead log holds nothing of it any more."""

    def retry(self, row: RetryRow) -> None:
        """Keep or move a retry row."""
        key = row[:3]
        self.settled.discard(key)
        self.retries[key] = row

    def settle(self, lane: int, partition: int, offset: int) -> None:
        """The delivery needs no retry row any more."""
        key = (lane, partition, offset)
        self.retries.pop(key, None)
        self.settled.add(key)

    def shift(self, lane: int, partition: int, paused_ms: int) -> None:
        """Move the first attempts of a lane's retry rows in a partition by the time it was paused."""
        self.shifts.append((paused_ms, lane, partition))
        for key, row in self.retries.items():
            if row.lane == lane and row.partition == partition:
                self.retries[key] = row._replace(first_at_ms=row.first_at_ms + paused_ms)

    def reorder(self, lane: int, now_ms: int, latest_ms: int) -> None:
        """The lane keeps an order from now on, or no longer: what waited for its turn is due, and nothing waits longer
        than until ``latest_ms``: its user's others would wait as well."""
        self.reordered.append((now_ms, latest_ms, lane, latest_ms))
        for key, row in self.retries.items():
            if row.lane == lane and row.due_ms > latest_ms:
                self.retries[key] = row._replace(due_ms=now_ms if row.due_ms >= NEVER_MS else latest_ms)

    def move_urls(self, lane: int, partition: int, moved: Moved) -> None:
        """The URLs of a lane stand elsewhere now, for its rows in a partition."""
        self.moved_urls.append((lane, partition, moved))
        for key, row in self.retries.items():
            if row.lane == lane and row.partition == partition:
                self.retries[key] = row._replace(urls=moved_mask(row.urls, moved))

    @property
    def rewritten(self) -> set[int]:
        """Return the lanes whose rows say something else once it is written."""
        moved, reordered = {lane for lane, *_ in self.moved_urls}, {lane for _, _, lane, _ in self.reordered}
        return moved | reordered | {lane for _, lane, _ in self.shifts}

    def leave_out(self, lost: Callable[[int], bool]) -> None:
        """Take out what is of partitions that somebody else owns; what it is about is that owner's to find out."""
        self.attempts = [row for row in self.attempts if not lost(row.partition)]
        self.remarks = [row for row in self.remarks if not lost(row.partition)]
        self.dead_letters = [row for row in self.dead_letters if not lost(row.partition)]
        self.ranges = [row for row in self.ranges if not lost(row.partition)]
        self.checkpoints = [row for row in self.checkpoints if not lost(row.partition)]
        self.blocks = [row for row in self.blocks if not lost(row.partition)]
        self.delivered = {key: count for key, count in self.delivered.items() if not lost(key[1])}
        self.filters = [row for row in self.filters if not lost(row.partition)]
        self.erasures = [
            row._replace(
                rows=[each for each in row.rows if not lost(each[0])],
                positions={each: positions for each, positions in row.positions.items() if not lost(each)},
            )
            for row in self.erasures
        ]
        self.versions = [row for row in self.versions if not lost(row[0])]
        self.shifts = [row for row in self.shifts if not lost(row[2])]
        self.replayed = [row for row in self.replayed if not lost(row.partition)]
        self.settled = {key for key in self.settled if not lost(key[1])}
        self.lanes_gone = {key for key in self.lanes_gone if not lost(key[1])}
        self.retries = {key: row for key, row in self.retries.items() if not lost(key[1])}
        self.lanes = {key: row for key, row in self.lanes.items() if not lost(key[1])}
        self.moved_urls = [each for each in self.moved_urls if not lost(each[1])]
        self.usage = {key: counts for key, counts in self.usage.items() if not lost(key[2])}
        self.epochs = {partition: epoch for partition, epoch in self.epochs.items() if not lost(partition)}

    @property
    def empty(self) -> bool:
        """Return whether there is nothing to write."""
        return not any(vars(self).values())
