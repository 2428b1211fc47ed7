"""The one writer of a local journal: lock, recovery on opening, group commit, erasure and retention.

Not thread-safe: everything is called on one event loop.

Group commit: everything appended in a turn or a few of the event loop shares one write and one synchronisation.

It holds what waits, decides when and where the commit runs (on the loop while the disk is quick, in one thread while
it is slow), and answers the callers in order. How records reach the disk is the function it is given.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from hookline.journal.damaged import Lost, note_lost
from hookline.journal.local.disk import Disk, is_full
from hookline.journal.local.erase import erase_records
from hookline.journal.local.partition import PartitionWriter
from hookline.journal.local.partition_reader import LocalReader
from hookline.journal.local.recovery import CUT_SUFFIX, Recovery, recover, remove_cut
from hookline.journal.local.retention import drop_expired
from hookline.journal.local.segment import NextSegment, encode_groups
from hookline.journal.port import (
    GROUP_BYTES_MAX,
    Done,
    JournalBusy,
    JournalError,
    JournalFailed,
    JournalFull,
    Needed,
    partition_of,
)
from hookline.journal.reading import PENDING_BYTES_MAX, RECORD_BYTES_MAX, Wake, awaited, lock_folder, size_bytes
from hookline.journal.record import Record, note_clock
from hookline.telemetry.crashpoints import crash_point

Waiting = tuple[Sequence[Record], Done]

SLOW_SECONDS = 0.002
"""A synchronisation slower than this on average would hold up the loop: commits go to a thread."""
QUICK_SECONDS = 0.001
"""Below this average they come back."""
_AVERAGE_WEIGHT = 0.1

GATHER_TURNS_MAX = 3
"""While more keeps coming, a commit waits for so many further turns: under load they are far fewer, and fuller."""
GATHER_SECONDS = 0.001
"""Turns that take long are not waited for: who appended in the first one would pay for all of them."""
GATHER_APPENDS = 64
GATHER_BYTES = 1024 * 1024
"""Enough for one commit: what it costs by itself is then small beside what each event costs."""


class Committer:
    """Collects appends, commits them together in order, and answers each caller once."""

    def __init__(
        self,
        commit: Callable[[list[Record]], float],
        would_wait: Callable[[int], bool],
        committed: Callable[[], None],
        failed: Callable[[JournalFailed], None],
        pending_bytes_max: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``commit`` stores records and returns the seconds the disk took; ``committed`` is called after each."""
        self._commit = commit
        self._would_wait = would_wait
        self._committed = committed
        self._failed = failed
        self._pending_bytes_max = pending_bytes_max
        self._pending: list[Waiting] = []
        self._pending_bytes = 0
        self._in_flight_bytes = 0
        self._scheduled = False
        self._gathered = 0
        self._gather_turns = 0
        self._gather_ends = 0.0
        self._clock = clock
        self._threads: ThreadPoolExecutor | None = None
        self._average_seconds = 0.0
        self._in_thread = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def is_slow(self) -> bool:
        """Return whether commits run in the thread at present."""
        return self._in_thread

    @property
    def pending_bytes(self) -> int:
        """About how much waits for the disk."""
        return self._pending_bytes + self._in_flight_bytes

    def add(self, records: Sequence[Record], size_bytes: int, done: Done) -> None:
        """Have the records committed within a few turns of the loop; raise JournalBusy when too much waits."""
        if self._pending_bytes + self._in_flight_bytes + size_bytes > self._pending_bytes_max:
            raise JournalBusy("the disk is slower than what arrives: try again in a moment")
        self._pending.append((records, done))
        self._pending_bytes += size_bytes
        if not self._scheduled:
            self._scheduled = True
            self._idle.clear()
            self._loop = asyncio.get_running_loop()
            self._loop.call_soon(self._flush)

    async def close(self) -> None:
        """Commit what waits, then stop."""
        await self._idle.wait()
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None

    def _flush(self) -> None:
        if self._gathers():
            return
        batch, self._pending = self._pending, []
        self._in_flight_bytes, self._pending_bytes = self._pending_bytes, 0
        records = [record for records, _ in batch for record in records]
        if self._in_thread or self._would_wait(self._in_flight_bytes):
            self._flush_in_thread(batch, records)
        else:
            self._finish(batch, self._try_commit(records))

    def _gathers(self) -> bool:
        """Put the commit off by a turn of the loop when several appends came in the last one."""
        count, before = len(self._pending), self._gathered
        enough = count >= GATHER_APPENDS or self._pending_bytes >= GATHER_BYTES
        if self._gather_turns == 0:
            self._gather_ends = self._clock() + GATHER_SECONDS
        is_late = self._gather_turns >= GATHER_TURNS_MAX or self._clock() > self._gather_ends
        if enough or is_late or count <= max(before, 1):
            self._gathered = self._gather_turns = 0
            return False
        self._gathered = count
        self._gather_turns += 1
        assert self._loop is not None
        self._loop.call_soon(self._flush)
        return True

    def _flush_in_thread(self, batch: list[Waiting], records: list[Record]) -> None:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(1, thread_name_prefix="journal-commit")
        loop = self._loop
        assert loop is not None

        def finish(future: Future[BaseException | None]) -> None:
            loop.call_soon_threadsafe(self._finish, batch, future.result())

        try:
            committing = self._threads.submit(self._try_commit, records)
        except (
            RuntimeError
        ) as error:  # the machine gives no thread; one that it gives later would do the work all the same
            self._finish(batch, JournalFailed(f"no thread for storing events ({error}): start again"))
        else:
            committing.add_done_callback(finish)

    def _try_commit(self, records: list[Record]) -> BaseException | None:
        try:
            seconds = self._commit(records)
        except (JournalError, ValueError, TypeError) as error:
            return error
        except Exception as error:  # noqa: BLE001 - the border of the commit loop: callers must hear of it
            return JournalFailed(f"storing events failed unexpectedly ({error!r}): start again")
        self._average_seconds += (seconds - self._average_seconds) * _AVERAGE_WEIGHT
        return None

    def _finish(self, batch: list[Waiting], error: BaseException | None) -> None:
        if isinstance(error, ValueError | TypeError):
            batch, error = self._without_unstorable(batch)
        self._in_thread = self._average_seconds > (QUICK_SECONDS if self._in_thread else SLOW_SECONDS)
        self._in_flight_bytes = 0
        if isinstance(error, JournalFailed):
            self._failed(error)
        elif error is None:
            crash_point("journal.after_publish_before_answer")
        for _, done in batch:
            self._answer(done, error)
        if error is None:
            self._committed()
        if self._pending:
            assert self._loop is not None
            self._loop.call_soon(self._flush)
        else:
            self._scheduled = False
            self._idle.set()

    def _without_unstorable(self, batch: list[Waiting]) -> tuple[list[Waiting], BaseException | None]:
        """Answer the callers whose records cannot be encoded, and commit the others: one must not fail all."""
        good: list[Waiting] = []
        for records, done in batch:
            try:
                deque(encode_groups(records, 0, GROUP_BYTES_MAX), maxlen=0)
            except (ValueError, TypeError) as error:
                self._answer(done, error)
            else:
                good.append((records, done))
        return good, self._try_commit([record for records, _ in good for record in records]) if good else None

    def _answer(self, done: Done, error: BaseException | None) -> None:
        try:
            done(error)
        except Exception as raised:  # noqa: BLE001 - one caller's callback must not drop the others' answers
            assert self._loop is not None
            context = {"message": "a journal append's callback raised", "exception": raised}
            self._loop.call_exception_handler(context)


MEGABYTE = 1024 * 1024
SEGMENT_BYTES = 64 * MEGABYTE
SEGMENT_BYTES_MIN = 64 * 1024
RESERVE_BYTES = 32 * MEGABYTE
"""Left free on the file system, for the databases beside the journal."""

ERASE_REST_SECONDS = 60.0
"""How long an erasure that the disk refused is not tried again: each try may keep others waiting for seconds."""

_ROLLS_PER_RETENTION = 8
"""A segment is closed once it spans this fraction of the retention time, however little is in it."""


class LocalAppender:
    """Appends to the journal in ``folder``; the second one on a folder is refused with JournalLocked."""

    erases_in_thread = False

    def __init__(
        self,
        folder: Path,
        partitions: int = 1,
        *,
        retention_seconds: float,
        retention_bytes: int,
        wake_path: Path | None = None,
        on_failed: Callable[[JournalFailed], None] | None = None,
        segment_bytes: int = SEGMENT_BYTES,
        reserve_bytes: int = RESERVE_BYTES,
        pending_bytes_max: int = PENDING_BYTES_MAX,
        disk: Disk | None = None,
        clock: Callable[[], float] = time.monotonic,
        steady_ms: Callable[[], int] | None = None,
        known: Mapping[int, Mapping[str, int]] | None = None,
    ) -> None:
        """Lock, recover and open every partition.

        ``wake_path`` names a datagram socket that is poked after each commit, if anyone listens there. ``on_failed``
        is called once when the disk failed: the process must exit. ``recovered`` says what had to be repaired.
        ``steady_ms`` is the service's own clock, by which records age; without it they do by the clock they came with.
        ``known`` says, by partition and who knows it, below which offset all were given away before: none of them is a
        second time.
        """
        if segment_bytes < SEGMENT_BYTES_MIN:
            raise ValueError(f"segment_bytes must be at least {SEGMENT_BYTES_MIN}")
        self.failed: JournalFailed | None = None
        self.taken_bytes = Counter[str]()
        """About how much was taken to be stored, by source, since whoever counts it took it out."""
        self.recovered: tuple[Recovery, ...] = ()
        self._folder = folder
        self._retention_seconds = retention_seconds
        self._retention_bytes = retention_bytes
        self._on_failed = on_failed
        self._segment_bytes = segment_bytes
        self._record_bytes_max = min(RECORD_BYTES_MAX, segment_bytes // 4)
        self._reserve_bytes = reserve_bytes
        self._disk = disk or Disk()
        self._clock = clock
        self._steady_ms = steady_ms
        self._known = known or {}
        self._closed = False
        self._not_erased = ""
        """Why the last erasure was refused by the disk."""
        self._erases_from = clock()
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="journal-segment")
        self._wake = Wake(wake_path)
        self._partitions: list[PartitionWriter] = []
        _make_folder(folder, self._disk)
        self._lock_fd = lock_folder(folder)
        try:
            self._open(partitions)
        except BaseException:
            self._release()
            raise
        self._committer = Committer(
            self._commit, self._would_wait, self._wake.poke, self._fail, pending_bytes_max, clock
        )

    @property
    def pending_bytes(self) -> int:
        """About how much waits for the disk."""
        return self._committer.pending_bytes

    @property
    def bounded(self) -> LocalAppender:
        """Return this: it keeps its bytes within what retention says."""
        return self

    def open(self, was_there: Callable[[], object] = lambda: False) -> None:
        """Nothing is left to do: the folder was opened when it was taken."""

    def state(self) -> str:
        """Return nothing: an append hears by itself of a disk that is full or failed."""
        return ""

    def ends(self) -> dict[int, int]:
        """Return the durable end of every partition."""
        return {number: partition.next_offset for number, partition in enumerate(self._partitions)}

    def append_soon(self, records: Sequence[Record], done: Done) -> None:
        """Append without a future: ``done`` is called later on the loop, with None once durable or with the error.

        Without records it is called once everything that was appended before is durable.
        """
        error: BaseException | None = self.failed
        if error is None:
            try:
                size_bytes = self._size_bytes(records)
                self._committer.add(records, size_bytes, done)
                if records:
                    self.taken_bytes[records[0].source] += size_bytes  # those of a call have one
                return
            except (JournalError, ValueError) as refused:
                error = refused.with_traceback(None)  # it would keep the records until it is forgotten
        asyncio.get_running_loop().call_soon(done, error)

    async def append(self, records: Sequence[Record]) -> None:
        """Store the records durably; see the port for order, errors and what a failure means."""
        await awaited(self.append_soon, records)

    def erase(self, partition: int, offsets: Sequence[int]) -> int:
        """Overwrite the records at these offsets; return how many were there. Durable on return.

        What the disk refuses to overwrite is tried again later; appending goes on meanwhile.
        """
        self._check_usable()
        folder = self._partitions[partition].folder
        if self._clock() < self._erases_from:
            raise JournalError(self._not_erased)
        reader = LocalReader(self._folder)
        try:
            count = erase_records(folder, self._disk, reader.locate(partition, offsets))
            for cut in folder.glob(f"*{CUT_SUFFIX}"):
                remove_cut(cut, self._disk)  # a torn tail may hold the same person's events
        except OSError as error:
            if is_full(error):
                raise self._disk_error(error) from error
            # Appending goes on: what it needs of the disk it hears of by itself.
            self._erases_from = self._clock() + ERASE_REST_SECONDS
            self._not_erased = f"the disk does not overwrite what is erased in {folder} ({error}): check the disk"
            raise JournalError(self._not_erased) from error
        finally:
            reader.close()
        return count

    def insisted_bytes(self, needed: Needed) -> int:
        """Return how much of what is stored working lanes wait for and do not let go, in whole segments."""
        try:
            return sum(each.insisted_bytes(number, needed) for number, each in enumerate(self._partitions))
        except OSError as error:
            raise self._disk_error(error) from error

    def stored_bytes(self) -> int:
        """Return how much the journal takes, about: whole segments, and of those being written what is written."""
        return sum(partition.sealed_bytes + partition.position for partition in self._partitions)

    def retain(self, now_ms: int, needed: Needed | None = None) -> int:
        """Drop what retention no longer keeps; return the number of bytes freed. Without ``needed`` nobody waits."""
        self._check_usable()
        span_ms = int(self._retention_seconds * 1000)
        for partition in self._partitions:
            if partition.first_at and partition.first_at < now_ms - span_ms // _ROLLS_PER_RETENTION:
                partition.roll()
        folders = [partition.folder for partition in self._partitions]
        try:
            freed = drop_expired(folders, self._disk, now_ms - span_ms, self._retention_bytes, needed)
            if freed:
                for partition in self._partitions:
                    partition.count_sealed()
            return freed
        except OSError as error:
            raise self._disk_error(error) from error

    async def close(self) -> None:
        """Finish what is being written and let go of the journal; idempotent."""
        if self._closed:
            return
        self._closed = True
        await self._committer.close()
        self._release()

    def _open(self, partitions: int) -> None:
        kept = sum(1 for entry in self._folder.iterdir() if entry.is_dir() and entry.name.isdigit())
        if kept > partitions:
            raise JournalError(f"this journal has {kept} partitions: set journal.partitions to {kept} or more")
        try:
            for number in range(partitions):
                self._partitions.append(self._open_partition(number))
            self._disk.sync_folder(self._folder)
        except OSError as error:
            raise self._disk_error(error) from error

    def _open_partition(self, number: int) -> PartitionWriter:
        folder = self._folder / str(number)
        folder.mkdir(mode=0o700, exist_ok=True)
        known = self._known.get(number, {})
        tail, recovery = recover(folder, number, self._disk, max(known.values(), default=0))
        if recovery is not None:
            self.recovered = (*self.recovered, recovery)
            if recovery.lost is not None:  # before the segment behind it is there: after that nobody would tell
                parts = tuple(part for part, offset in known.items() if offset > recovery.lost[0])
                note_lost(self._folder, [Lost(number, *recovery.lost, int(time.time() * 1000), parts)])
        next_segment = NextSegment(folder, self._disk, self._threads, self._reserve_bytes, self._clock)
        writer = PartitionWriter(folder, self._disk, next_segment, tail, self._segment_bytes)
        try:
            writer.prepare()
        except JournalFull:
            pass  # appends are refused until there is room; what is stored can be delivered meanwhile
        return writer

    def _commit(self, records: list[Record]) -> float:
        if self.failed is not None:
            raise self.failed
        if not records:
            return 0.0
        if self._steady_ms is not None:
            note_clock(records, self._steady_ms)
        if len(self._partitions) == 1:
            self._partitions[0].write(records)
            return self._partitions[0].sync_seconds
        by_partition: dict[int, list[Record]] = {}
        for record in records:
            by_partition.setdefault(partition_of(record.user_key, len(self._partitions)), []).append(record)
        seconds = 0.0
        for number, share in by_partition.items():
            self._partitions[number].write(share)
            seconds += self._partitions[number].sync_seconds
        return seconds

    def _would_wait(self, bytes_waiting: int) -> bool:
        return any(partition.would_wait(bytes_waiting) for partition in self._partitions)

    def _size_bytes(self, records: Sequence[Record]) -> int:
        if self._closed:
            raise JournalError("the journal is closed")
        return size_bytes(records, self._record_bytes_max)

    def _fail(self, error: JournalFailed) -> None:
        if self.failed is None:
            self.failed = error
            if self._on_failed is not None:
                self._on_failed(error)

    def _check_usable(self) -> None:
        if self.failed is not None:
            raise self.failed
        if self._closed:
            raise JournalError("the journal is closed")

    def _disk_error(self, error: OSError) -> JournalError:
        if is_full(error):
            next_step = "free disk space or lower retention.bytes"
            return JournalFull(f"no room in {self._folder} ({error.strerror}): {next_step}")
        failure = JournalFailed(f"the disk failed in {self._folder} ({error}): check the disk, then start again")
        self._fail(failure)
        return failure

    def _release(self) -> None:
        for partition in self._partitions:
            partition.close()
        self._threads.shutdown()
        self._wake.close()
        os.close(self._lock_fd)


def _make_folder(folder: Path, disk: Disk) -> None:
    """Create the folder and what is missing above it, each for this user only and durably."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)
        disk.sync_folder(path.parent)
