"""The journal port: all that callers use of a journal, and what they may rely on, whatever stores the records.

A data folder has one journal for good. ``opening.py`` chooses its **backend**, which gives out everything else:
readers, what an event loop reads by, the appender, and answers while nothing runs.

The journal is a set of partitions, numbered from 0. A partition is an ordered sequence of records; each record has an
**offset**, an integer that starts at 0, grows by exactly one per record and is never used twice. Records of one user
go to one partition (``partition_of``), so they are read in the order in which they were acknowledged.

There are two backends: files of one machine (``local/``) and a topic of Kafka (``kafka/``). A topic keeps the rule of
offsets as long as only idempotent producers without transactions write to it; where offsets or records are missing all
the same, readers hear of it as of damage.

**Appending.** ``append`` takes records for any partitions and returns once every one of them is durable: a crash of
the process, or of the machine, after that cannot lose them. Records of one call and one partition get consecutive
offsets in the order given, as long as the appender is the topic's only one; beside others they keep their order.
Concurrent calls share one synchronisation of the disk. When it raises, nothing may be
acknowledged: some records of the call may still turn up later (after a crash the journal keeps what it had written),
so a resend must carry the same messageId, by which a reader recognises it. ``JournalFull`` is temporary and leaves
the journal usable, and so is its kind ``JournalAway``, where brokers did not confirm in time: nothing is known then of
what they stored. ``JournalFailed`` is final for this process: a failed synchronisation is never tried again,
because the operating system may have dropped the pages it failed to write. The process must exit and open the
journal anew, from what the disk really holds.

**Reading.** ``end(partition)`` is the offset one past the last durable record; ``start(partition)`` the oldest one
still kept. ``read`` yields whole groups from an offset on and never yields a record at or past ``end``: what a reader
sees is durable. A group is a run of consecutive records that were written together; its size is bounded by
``GROUP_RECORDS_MAX`` and ``GROUP_BYTES_MAX``. Readers keep their own position; the journal knows none of them. Reading
below ``start`` raises ``OffsetExpired`` with the offset to go on from: retention wins, never silently. A reader may
wait for brokers, ``limit_wait`` says how long. An event loop must not, so it follows partitions by a ``Follower`` and
looks records up by ``Lookups``: both answer at once, with what has come, and call back when more has.

**Damage.** Where the disk lost records that may have been acknowledged, their offsets stay, and what is intact behind
them is read as ever: damage stops what is damaged, nothing else. ``read`` alone raises ``JournalCorrupt``, with the
offset to go on from, for those who read on must put on record what they passed over; ``read_on`` of ``reading.py`` is
how. Everything else (``get``, ``get_all``, ``find``, ``holding``, ``read_backwards``) leaves out what cannot be read.
Opening a journal cuts only what has nothing intact behind it, keeps that aside, and says so, as it says which records
are damaged.

**Retention** drops whole groups of old records from the front, by age and by bytes. **Erasure** makes readers see a
record as ``erased``: its offset stays, its content does not. A local journal overwrites it in place, so that it is gone
from the disk; on Kafka its bytes stay where they are until retention drops them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple, Protocol

from hookline.journal.record import Record
from hookline.settings import Retention, Settings

GROUP_RECORDS_MAX = 2_500
GROUP_BYTES_MAX = 4 * 1024 * 1024
LOOP_WAIT_SECONDS = 0.25
"""How long a read may hold up an event loop; after one that was in vain, none is tried for ``LOOP_REST_SECONDS``."""
LOOP_REST_SECONDS = 2.0

Done = Callable[[BaseException | None], None]
"""Called once: with None when everything is durable, else with the error."""


class JournalError(Exception):
    """The journal could not do what was asked."""

    code = "journal_error"


class JournalFull(JournalError):
    """There is no room on the disk; nothing was stored. Temporary: try again after ``retry_after_seconds``."""

    code = "journal_full"
    retry_after_seconds = 5


class JournalBusy(JournalFull):
    """More is waiting for the disk than may wait; nothing of this call was stored. Temporary, like a full disk."""

    code = "journal_busy"
    retry_after_seconds = 1


class JournalAway(JournalFull):
    """Those who store the records do not acknowledge, or cannot be reached for reading. Temporary, like a full disk,
    but whether records of a failed append were stored is open."""

    code = "journal_away"


class JournalFetching(JournalAway):
    """Hold what was asked for is being fetched: nobody waits for it here, and asked again in a moment it is there."""


class JournalFailed(JournalError):
    """The disk refused a write or a synchronisation; this process must stop appending and exit."""

    code = "journal_failed"


class JournalUnusable(JournalError):
    """The journal that the settings name cannot be this data folder's; starting again does not help."""

    code = "journal_unusable"


class JournalTooNew(JournalError):
    """A newer version of Hookline wrote this journal."""

    code = "journal_too_new"


class JournalLocked(JournalError):
    """Another server already appends for this data folder."""

    code = "data_folder_in_use"


class OffsetExpired(JournalError):
    """The offset asked for is older than what is kept; ``start`` is the oldest one that can be read."""

    code = "offset_expired"

    def __init__(self, start: int) -> None:
        super().__init__(f"records below offset {start} are no longer kept")
        self.start = start

    @property
    def next_offset(self) -> int:
        """Return where reading may go on."""
        return self.start


class JournalCorrupt(JournalError):
    """Records that were durable cannot be read any more: from ``offset``, where the damage begins, up to
    ``next_offset``, where reading may go on."""

    code = "journal_corrupt"

    def __init__(self, segment: str, offset: int, next_offset: int, is_missing: bool = False) -> None:
        what = f"is missing, from offset {offset} on" if is_missing else f"is damaged at offset {offset}"
        super().__init__(
            f"journal segment {segment} {what}; reading can go on at offset {next_offset}. "
            "Check the disk, and restore the segment from a copy if there is one"
        )
        self.segment = segment
        self.is_missing = is_missing
        self.offset = offset
        self.next_offset = next_offset


class Group(NamedTuple):
    """Consecutive records: ``records[i]`` has offset ``first_offset + i``; ``size_bytes`` is what they take on disk."""

    first_offset: int
    records: list[Record]
    size_bytes: int

    @property
    def next_offset(self) -> int:
        """Return the offset after the last record of the group."""
        return self.first_offset + len(self.records)

    def below(self, offset: int) -> Group:
        """Return the part of the group before an offset; its size is that of the whole."""
        return self._replace(records=self.records[: max(offset - self.first_offset, 0)])


class Lookups(Protocol):
    """Hold what an event loop reads by, beside its place at the journal's end. Where it would have to wait it raises
    JournalFetching instead; ``start`` may then be what it was a moment ago."""

    def start(self, partition: int) -> int:
        """Return the oldest offset still kept."""

    def read(self, partition: int, offset: int) -> Iterator[Group]:
        """As a ``Reader``'s."""

    def get(self, partition: int, offset: int) -> Record | None:
        """As a ``Reader``'s."""


class Reader(Lookups, Protocol):
    """A view of the whole journal for reading; cheap to open, safe beside one appender in another process."""

    def partitions(self) -> range:
        """Return the partition numbers."""

    def start(self, partition: int) -> int:
        """Return the oldest offset still kept."""

    def end(self, partition: int) -> int:
        """Return one past the last durable record."""

    def read(self, partition: int, offset: int) -> Iterator[Group]:
        """Yield the groups from ``offset`` to the end as it is now; the first one begins exactly at ``offset``.

        Raise OffsetExpired when ``offset`` is below ``start``, ValueError when it is past ``end``, JournalCorrupt
        where the disk lost something.
        """

    def get(self, partition: int, offset: int) -> Record | None:
        """Return the record at ``offset``, or None when it is not (or no longer) kept, or cannot be read any more."""

    def get_all(self, partition: int, offsets: Iterable[int]) -> Iterator[tuple[int, Record]]:
        """Yield the records at these offsets, ascending, each with its offset; leave out what is not kept and what
        cannot be read any more."""

    def find(self, partition: int, fingerprint: bytes, start: int, end: int) -> Iterator[int]:
        """Yield the offsets in ``[start, end)`` whose record has the fingerprint, oldest first."""

    def limit_wait(self, wait_seconds: float = LOOP_WAIT_SECONDS, rest_seconds: float = LOOP_REST_SECONDS) -> None:
        """Wait only so long for an answer from now on, by default so that others on an event loop hardly notice; for
        ``rest_seconds`` after one that did not come ask nothing, and raise JournalAway at once."""

    def close(self) -> None:
        """Give back files, memory maps and connections."""


class SearchableReader(Reader, Protocol):
    """A reader that also goes backwards and looks into raw bytes: for those who look something up."""

    def read_backwards(self, partition: int, before_offset: int) -> Iterator[Group]:
        """Yield the groups below ``before_offset``, newest group first, records of a group oldest first.

        The first one ends exactly at ``before_offset``, or at the end when that is smaller.
        """

    def holding(self, partition: int, texts: Sequence[bytes], start: int, end: int) -> Iterator[Group]:
        """Yield the groups in ``[start, end)`` that hold one of these texts in their raw bytes, oldest first; of the
        first and last group the records in the range."""


class Follower(Protocol):
    """Hold what an event loop follows the ends of partitions by. It never waits: more has come when it calls back."""

    def begin(self) -> None:
        """Begin to follow."""

    def follow(self, partition: int, end: int) -> None:
        """Follow a partition that ends here now, once it is read."""

    def leave(self, partition: int) -> None:
        """Follow a partition no longer."""

    def end(self, partition: int) -> int:
        """Return one past the last durable record, as far as is known; raise JournalError once it can follow no more,
        and only starting again may help."""

    def read(self, partition: int, offset: int) -> Iterator[Group]:
        """Yield the groups from ``offset`` on that have come; raise OffsetExpired and JournalCorrupt as a ``Reader``
        does, once such a position is met."""


class LoopReaders(NamedTuple):
    """Hold what an event loop reads by: partitions in order, and single records beside."""

    follower: Follower
    lookups: Lookups
    keep: Callable[[int, int, Record], None] | None
    """Have a record at hand, by partition and offset, that will be asked for again; None where all are at hand."""
    close: Callable[[], None]
    """Let go of threads and connections; idempotent."""


class Needed(NamedTuple):
    """Hold what lanes still wait for: by partition the first offset that working lanes want, and the first that held
    ones want. Of what is younger than ``young_ms`` nothing goes that working lanes want; a partition that is not named
    they want all of.
    """

    working: Mapping[int, int]
    held: Mapping[int, int]
    young_ms: int


class Appender(Protocol):
    """The one writer of a journal's partitions for a data folder."""

    erases_in_thread: bool
    """Whether ``erase`` may wait for brokers, and so is called in a thread; on the loop otherwise."""

    @property
    def bounded(self) -> BoundedBytes | None:
        """Return the bytes that whoever appends keeps within ``retention.bytes``; None where brokers see to that."""

    def open(self, was_there: Callable[[], object] = lambda: False) -> None:
        """Find or make what stores the records: before it they are refused. ``was_there`` says whether somebody knows
        records of it, and is asked where there is nothing: then it is lost, and not made anew. Raise JournalAway, and
        try again, while brokers do not answer. May wait, so call it in a thread."""

    def state(self) -> str:
        """Ask whether records can be stored, and return why not, empty when they can; by it ``append`` refuses at once
        until the next answer. May wait, so call it in a thread."""

    def ends(self) -> dict[int, int]:
        """Return the durable end of every partition, as far as this process has moved it or found it."""

    def append_soon(self, records: Sequence[Record], done: Done) -> None:
        """Append without a future: ``done`` is called later on the loop, with None once durable or with the error.

        Without records it is called once everything that was appended before is answered.
        """

    async def append(self, records: Sequence[Record]) -> None:
        """Store the records durably; see the module's text for order, errors and what a failure means."""

    def erase(self, partition: int, offsets: Sequence[int]) -> int:
        """Erase the records at these offsets; return how many were there. Durable on return."""

    def retain(self, now_ms: int) -> int:
        """Drop what retention no longer keeps, ``now_ms`` by the service's own clock; return how much: bytes of a
        local journal, records on Kafka."""

    async def close(self) -> None:
        """Finish what is being written and let go of the journal; idempotent."""


class BoundedBytes(Protocol):
    """The bytes of a journal whose appender drops the oldest ones itself."""

    taken_bytes: Counter[str]
    """About how much was taken to be stored, by source, since whoever counts it took it out."""

    def stored_bytes(self) -> int:
        """Return how much the journal takes, about."""

    def insisted_bytes(self, needed: Needed) -> int:
        """Return how much of what is stored working lanes wait for and do not let go."""

    def retain(self, now_ms: int, needed: Needed | None = None) -> int:
        """Drop as the appender's ``retain`` does, first what nobody waits for; return the number of bytes freed."""


class GroupEvents(NamedTuple):
    """Hold what one of many readers is asked and told; everything named ``on_…`` is called on a thread of its own."""

    positions: Callable[[], Mapping[int, int]]
    """Return the next offset of each partition that is read here."""
    clock: Callable[[], float]
    on_assigned: Callable[[frozenset[int]], None]
    on_revoked: Callable[[frozenset[int]], Future[Mapping[int, int]]]
    """Return what is done once these partitions are given up, with their last positions."""
    on_lost: Callable[[frozenset[int]], None]
    """Others may have these partitions already."""
    on_confirmed: Callable[[float], None]
    """It was still a member at this time by ``clock``."""
    on_failed: Callable[[JournalError], None]
    """It is none any more, and why."""


class Member(Protocol):
    """One of many readers that share a journal's partitions."""

    def start(self) -> None:
        """Join them."""

    def close(self) -> None:
        """Leave; what is still assigned is revoked first. Idempotent."""


class RetentionForecast(Protocol):
    """Foresee how long the journal keeps what it has, by its bounds of age and bytes."""

    def look(self, now_ms: int, until_ms: int) -> Callable[[int, int], int | None]:
        """Return when retention takes the event at (partition, offset), as things are now; None when that is later than
        ``until_ms``, or cannot be told. It is asked in the order of the positions. All by the service's own clock."""

    def close(self) -> None:
        """Let go of what is held; idempotent."""


class JournalBackend(Protocol):
    """The journal of one data folder; nothing is opened before it is asked for."""

    def claim(self) -> None:
        """Hold the folder against this kind of journal and note in it what tools need to find it; raise
        JournalUnusable where it has another one."""

    def state(self, wait_seconds: float) -> str:
        """Return why records cannot be stored just now, empty when they can; may be asked while nothing runs."""

    def reader(self) -> SearchableReader:
        """Return a reader; one for each thread."""

    def loop_readers(self, reader: Reader, on_arrival: Callable[[], object]) -> LoopReaders:
        """Return what an event loop reads by, beside its ``reader``. ``on_arrival`` is called, on any thread, when more
        has come than it was given."""

    def appender(
        self,
        settings: Settings,
        on_failed: Callable[[JournalFailed], None] | None = None,
        steady_ms: Callable[[], int] | None = None,
        known: Mapping[int, Mapping[str, int]] | None = None,
    ) -> Appender:
        """Take the folder for appending; raise JournalLocked when somebody else has it. Records age by the service's
        own clock, ``steady_ms``. ``known`` says, by partition and who knows it, below which offset all were given away
        before: a journal whose appender gives the offsets goes on behind."""

    async def wait_for_partitions(self, count: int, stop: asyncio.Event) -> None:
        """Return once so many partitions can be read, or at ``stop``."""

    async def wait_for_recovery(self, positions: Mapping[int, int], appending: Path, stop: asyncio.Event) -> None:
        """Return once the ends can be believed by a reader that was at these positions (offsets by partition), or at
        ``stop``. ``appending`` is the socket at which the appender's process answers once it has opened the journal."""

    def note_erased(self, partition: int, offsets: Iterable[int]) -> None:
        """Have readers of this folder see these records as erased, which were erased by way of another folder."""

    def forecast(self, limits: Retention) -> RetentionForecast:
        """Return what foresees when events are removed by these bounds; used by one thread."""

    def join(self, session_seconds: float, events: GroupEvents) -> Member:
        """Return this process as one of those that share the partitions: where many may, as ``Settings.is_shared``
        says. One that is silent for ``session_seconds`` is none any more."""


def partition_of(user_key: str, partitions: int) -> int:
    """Return the partition of a user's records; stable across processes, versions and machines."""
    if partitions == 1:
        return 0
    from zlib import crc32

    return crc32(user_key.encode()) % partitions
