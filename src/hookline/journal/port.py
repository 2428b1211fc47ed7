"""The journal port: what callers may rely on, whatever stores the records.

The journal is a set of partitions, numbered from 0. A partition is an ordered sequence of records; each record has an
**offset**, an integer that starts at 0, grows by exactly one per record and is never used twice. Records of one user
go to one partition (``partition_of``), so they are read in the order in which they were acknowledged.

There are two: files of one machine (``local/``) and a topic of Kafka (``kafka/``). A topic keeps the rule of offsets as
long as only idempotent producers without transactions write to it; where offsets or records are missing all the same,
readers hear of it as of damage.

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
``GROUP_RECORDS_MAX`` and ``GROUP_BYTES_MAX``. Readers keep their own place; the journal knows none of them. Reading
below ``start`` raises ``OffsetExpired`` with the offset to go on from: retention wins, never silently.

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

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from hookline.journal.record import Record

GROUP_RECORDS_MAX = 2_500
GROUP_BYTES_MAX = 4 * 1024 * 1024


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
    """What was asked for is being fetched: nobody waits for it here, and asked again in a moment it is there."""


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
    """What an event loop reads by, beside its place at the journal's end. Where it would have to wait it raises
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

    def find(self, partition: int, fingerprint: bytes, start: int, end: int) -> Iterator[int]:
        """Yield the offsets in ``[start, end)`` whose record has the fingerprint, oldest first."""

    def close(self) -> None:
        """Give back files and memory maps."""


class SearchableReader(Reader, Protocol):
    """A reader that also goes backwards and looks into raw bytes: for those who look something up."""

    def get_all(self, partition: int, offsets: Iterable[int]) -> Iterator[tuple[int, Record]]:
        """Yield the records at these offsets, ascending, each with its offset; leave out what is not kept and what
        cannot be read any more."""

    def read_backwards(self, partition: int, before_offset: int) -> Iterator[Group]:
        """Yield the groups below ``before_offset``, newest group first, records of a group oldest first.

        The first one ends exactly at ``before_offset``, or at the end when that is smaller.
        """

    def holding(self, partition: int, texts: Sequence[bytes], start: int, end: int) -> Iterator[Group]:
        """Yield the groups in ``[start, end)`` that hold one of these texts in their raw bytes, oldest first; of the
        first and last group the records in the range."""


class Appender(Protocol):
    """The one writer of a journal's partitions for a data folder."""

    async def append(self, records: Sequence[Record]) -> None:
        """Store the records durably; see the module's text for order, errors and what a failure means."""

    def erase(self, partition: int, offsets: Sequence[int]) -> int:
        """Erase the records at these offsets; return how many were there. Durable on return."""

    def retain(self, now_ms: int) -> int:
        """Drop what retention no longer keeps, ``now_ms`` by the service's own clock; return how much: bytes of a
        local journal, records on Kafka."""

    async def close(self) -> None:
        """Finish what is being written and let go of the journal; idempotent."""


def partition_of(user_key: str, partitions: int) -> int:
    """Return the partition of a user's records; stable across processes, versions and machines."""
    if partitions == 1:
        return 0
    from zlib import crc32

    return crc32(user_key.encode()) % partitions
