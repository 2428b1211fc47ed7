"""Recognises repeated events of one partition while it is read, and keeps the index that ``why`` and erasure use.

An event is a duplicate exactly if a smaller offset holds the same fingerprint and was received at most the window
before, by the service's own clock. That is a property of the journal alone, so a re-read after a crash, a catch-up and
a replay agree with the first reading. Rejected and erased records are neither duplicates nor make others one; in doubt
nothing is a duplicate.

It lives on its caller's event loop: ``work`` does the slow part in steps of about a millisecond."""

from __future__ import annotations

import secrets
import time
from bisect import bisect_left
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, wait
from pathlib import Path

from hookline.index.bloom_filters import BloomFilters, FilterPositions, Part, rows_for, rows_of
from hookline.index.keys import keys_of
from hookline.index.mem_table import MemTable
from hookline.index.run import SUFFIX, TEMPORARY_SUFFIX, Run, RunDamaged, Step, in_background, seal
from hookline.journal.port import JournalError, JournalFetching, Lookups, Reader
from hookline.journal.reading import read_on
from hookline.journal.record import Record, journal_ms
from hookline.whole_file import UNREADABLE


class SealedRuns:
    """The runs, oldest first."""

    def __init__(self, folder: Path, rows: int, bytes_max: int, journal_end: int) -> None:
        """Open what is there; runs that are damaged or reach past the journal's end are removed.

        Offsets past the end will be given to other records (a folder put back from a backup), and a run that speaks
        of them would make new events look like repeats.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._bytes_max = bytes_max
        self.runs = _open_runs(folder, journal_end)
        self.filters = BloomFilters(folder, rows, self.runs)

    @property
    def next_offset(self) -> int:
        """Return the offset after the newest run, 0 without one."""
        return self.runs[-1].next_offset if self.runs else 0

    @property
    def size_bytes(self) -> int:
        """Return what runs and filters take on the disk."""
        return sum(run.size_bytes for run in self.runs) + self.filters.size_bytes

    def add(self, mem_table: MemTable, run: Run) -> None:
        """Take in the run that a mem table was just sealed into."""
        self.runs.append(run)
        self.filters.hand_over(mem_table, run)

    def shrink(self, journal_start: int) -> None:
        """Drop the runs that retention has overtaken, then the oldest ones as far as the bytes ask for it.

        Not to be called while a column is being filled.
        """
        while self.runs and (self.runs[0].next_offset <= journal_start or self.size_bytes > self._bytes_max):
            self.drop(self.runs[0])

    def drop(self, run: Run) -> None:
        """Remove a run: what it covers is in the journal alone then. Not to be called while a column is being filled
        either."""
        run.path.unlink(missing_ok=True)  # first: where the disk refuses that, it is to be done again
        self.runs.remove(run)
        self.filters.drop(run)
        run.close()
        self.filters.drop_empty_filters()

    def close(self) -> None:
        """Give back all files and memory maps."""
        for run in self.runs:
            run.close()
        self.filters.close()
        self.runs = []


def _open_runs(folder: Path, journal_end: int) -> list[Run]:
    for path in folder.glob("*" + TEMPORARY_SUFFIX):
        path.unlink()
    runs: list[Run] = []
    for path in sorted(folder.glob("*" + SUFFIX)):
        try:
            run = Run(path)
        except (RunDamaged, OSError) as error:
            if isinstance(error, OSError) and error.errno not in UNREADABLE:
                raise
            path.unlink()
            continue
        if run.next_offset > journal_end:
            run.close()
            path.unlink()
        else:
            runs.append(run)
    return runs


RUN_EVENTS = 131_072
"""Events per sealed run; in memory they take about 5 MB until then."""

FROZEN_MAX = 2
"""Full ranges waiting in memory to be sealed; with a failing disk the oldest is given up beyond that."""

WORK_SECONDS = 0.001
"""How long one call of ``work`` takes, single steps of the disk aside."""

DISK_RETRY_SECONDS = 5.0
"""Pause after the disk refused."""


class Duplicates:
    """The index of one partition; the only writer of its folder."""

    def __init__(
        self,
        folder: Path,
        reader: Reader,
        partition: int,
        *,
        window_seconds: float,
        bytes_max: int,
        run_events: int = RUN_EVENTS,
        clock: Callable[[], float] = time.monotonic,
        on_sealed: Callable[[int], None] | None = None,
    ) -> None:
        """Open the index; then have it ``read_up_to`` where checking shall begin.

        ``on_sealed`` is called in the background when there is a new run in the folder, with where the journal begins.
        """
        self._reader: Lookups = reader
        self._partition = partition
        self._window_ms = int(window_seconds * 1000)
        self._run_events = run_events
        self._clock = clock
        self._on_sealed = on_sealed
        self._folder = folder
        self._rows = rows_for(run_events)
        self._sealed = SealedRuns(folder, self._rows, bytes_max, reader.end(partition))
        self._sealed.shrink(reader.start(partition))
        self._salt = secrets.randbits(32) | 1
        self._recent = self._range_from(max(self._sealed.next_offset, reader.start(partition)))
        self._frozen: list[MemTable] = []
        self._job: Generator[Step, None, None] | None = None
        self._retry_at: float | None = None
        self.runs_given_up = 0
        self.failure: str | None = None

    @property
    def next_offset(self) -> int:
        """Return the first offset that is not indexed yet."""
        return self._recent.next_offset

    def read_by(self, reader: Lookups) -> None:
        """From now on look records up with this reader: of the loop, when a thread has fed the index before."""
        self._reader = reader

    @property
    def frozen_ranges(self) -> int:
        """Return how many full ranges wait in memory to be sealed."""
        return len(self._frozen)

    @property
    def size_bytes(self) -> int:
        """Return what the index takes on the disk."""
        return self._sealed.size_bytes

    def feed(self, records: Sequence[Record], first_offset: int) -> None:
        """Index records without asking about them; those that are indexed already are passed over."""
        known = max(self.next_offset - first_offset, 0)
        if known < len(records):
            self._close_gap(first_offset + known)
            self._take(records[known:], first_offset + known)
            self._freeze_when_full()

    def read_up_to(self, place: int) -> None:
        """Index what lies before ``place`` and is not indexed yet: what was so only in memory is read once more."""
        first = max(self.next_offset, self._reader.start(self._partition))
        for group in read_on(self._reader, self._partition, first, place):
            self.feed(group.records, group.first_offset)

    def check(self, records: Sequence[Record], first_offset: int) -> list[tuple[int, int]]:
        """Return (index, earlier offset) of each record that is a duplicate; records not yet indexed become so.

        The earlier offset is the smallest within the window, as far as that is known. Raise JournalFetching where that
        takes a record that is being fetched: ask again, nothing is indexed twice.
        """
        if not records:
            return []
        known = max(self.next_offset - first_offset, 0)
        if known >= len(records):
            rows = rows_of(keys_of(records), self._rows)
            since = min(_times(records)) - self._window_ms
            return self._decide(records, first_offset, self._ask(rows, first_offset, since))
        if known > 0:
            rest = self.check(records[known:], first_offset + known)
            return self.check(records[:known], first_offset) + [(known + index, earlier) for index, earlier in rest]
        self._close_gap(first_offset)
        found = self._decide(records, first_offset, self._take(records, first_offset))
        self._freeze_when_full()
        return found

    def work(self, budget_seconds: float = WORK_SECONDS) -> bool:
        """Do what is waiting (sealing, filling filters) for about the budget; return whether there is more to do now.

        One group of records is to be followed by one call. The budget grows with what is waiting, so that sealing
        keeps pace with a reader at full speed.
        """
        end = self._clock() + budget_seconds * max(1, len(self._frozen))
        while True:
            step = self._step()
            if step is False:
                return False
            if isinstance(step, Future) or self._clock() >= end:
                return True

    def window_seconds_real(self, now_ms: int) -> float:
        """Return how far back repeats are recognised: the window, or less where the bytes or retention cut it."""
        parts: list[Part] = [*self._sealed.runs, *self._frozen, self._recent]
        low = parts[0].times.low
        if parts[0].first_offset == 0 or low is None:
            return self._window_ms / 1000
        return max(0, min(self._window_ms, now_ms - low)) / 1000

    def forget_users(self, offsets: Sequence[int]) -> Generator[Step, None, None] | None:
        """Overwrite whose records these ascending offsets hold: in memory at once, in the runs by the steps that are
        returned, which wait for the disk in the background and raise OSError when it refuses.

        A run that lies on a bad sector, and so can never be overwritten, is removed. None as long as a part is being
        written to the disk, which may have them still: ask again.
        """
        if self._frozen:
            return None
        self._recent.forget_users(_within(self._recent, offsets))
        parts = [(run, some) for run in self._sealed.runs if (some := _within(run, offsets))]
        return self._forget_in(parts)

    def retain(self) -> None:
        """Drop the runs of events that the journal no longer keeps."""
        if self._job is None:  # sealing ends with this anyway, and must not lose a filter that it is filling
            self._sealed.shrink(self._reader.start(self._partition))

    def rest(self) -> None:
        """Give back memory that only speeds look-ups up; for when there is nothing to do for a while."""
        self._sealed.filters.rest()

    def close(self) -> None:
        """Give back files and memory maps; what is not sealed is read from the journal again next time."""
        if self._job is not None:
            self._job.close()
        self._job = None
        self._sealed.close()

    def _take(self, records: Sequence[Record], first_offset: int) -> dict[int, list[Part]]:
        """Index records that are new; return which parts may hold them already."""
        keys, mem_table = keys_of(records), self._recent
        rows = rows_of(keys, self._rows)
        received = _times(records)
        parts = self._ask(rows, first_offset, min(received) - self._window_ms, mem_table)
        perhaps = {index for index, named in parts.items() if mem_table in named}
        repeated = mem_table.add(records, keys, received, perhaps.union(rows.again()))
        for index in perhaps.difference(repeated):
            parts[index].remove(mem_table)
        for index in set(repeated).difference(perhaps):
            parts.setdefault(index, []).append(mem_table)
        return parts

    def _ask(
        self, rows: FilterPositions, first_offset: int, since: int, mark: MemTable | None = None
    ) -> dict[int, list[Part]]:
        try:
            return self._sealed.filters.candidates(rows, first_offset, since, mark)
        except OSError as error:  # only of records that are read again, by a run
            self.failure = str(error)
            return {}

    def _decide(
        self, records: Sequence[Record], first_offset: int, parts: dict[int, list[Part]]
    ) -> list[tuple[int, int]]:
        """Return index and earlier offset of the records that one of their parts does hold."""
        found: list[tuple[int, int]] = []
        for index in sorted(parts):
            earlier = self._earlier(records[index], first_offset + index, parts[index])
            if earlier is not None:
                found.append((index, earlier))
        return found

    def _earlier(self, record: Record, offset: int, parts: list[Part]) -> int | None:
        if record.rejection is not None or record.erased:
            return None
        for part in sorted(parts, key=_first_offset) if len(parts) > 1 else parts:
            # Times grow with offsets: when neither the first nor the last one in a part is near enough, none is.
            for candidate in self._candidates(part, record.fingerprint, offset):
                within = part.times.within(candidate, journal_ms(record), self._window_ms)
                if within and self._may_be_erased(part, candidate):
                    within = None
                if within or (within is None and self._within(candidate, record)):
                    return candidate
        return None

    def _candidates(self, part: Part, fingerprint: bytes, offset: int) -> tuple[int, ...]:
        try:
            return part.candidates(fingerprint, offset)
        except OSError as error:  # in doubt it is not a duplicate
            self.failure = str(error)
            return ()

    def _may_be_erased(self, part: Part, candidate: int) -> bool:
        """Return whether only the record can tell that it was not erased since it was indexed."""
        try:
            return part.is_forgotten(candidate)
        except OSError as error:
            self.failure = str(error)
            return True

    def _within(self, candidate: int, record: Record) -> bool:
        try:
            earlier = self._reader.get(self._partition, candidate)
        except JournalFetching:
            raise
        except JournalError:  # in doubt it is not a duplicate
            return False
        return (
            earlier is not None and not earlier.erased and journal_ms(record) - journal_ms(earlier) <= self._window_ms
        )

    def _step(self) -> bool | Future[None]:
        """Do one step; return False when there is nothing to do, a future when the disk must be waited for."""
        if self._job is None:
            self._job = self._next_job()
            if self._job is None:
                return False
        try:
            return next(self._job) or True
        except StopIteration:
            self._job = None
            self.failure = None
        except OSError as error:
            self._job = None
            self.failure = str(error)
            self._retry_at = self._clock() + DISK_RETRY_SECONDS
            return False
        return True

    def _close_gap(self, first_offset: int) -> None:
        if first_offset > self.next_offset:  # the reader was overtaken by retention
            self._freeze(first_offset)

    def _freeze_when_full(self) -> None:
        if len(self._recent) >= self._run_events:
            self._freeze(self.next_offset)

    def _freeze(self, next_offset: int) -> None:
        if len(self._recent):
            self._frozen.append(self._recent)
        self._recent = self._range_from(next_offset)
        while len(self._frozen) > FROZEN_MAX:
            step = self._step()
            if step is False:
                self._give_up_oldest()
            elif isinstance(step, Future):
                wait([step])

    def _range_from(self, first_offset: int) -> MemTable:
        return MemTable(first_offset, self._run_events, self._salt)

    def _give_up_oldest(self) -> None:
        self._sealed.filters.drop(self._frozen.pop(0))
        self.runs_given_up += 1

    def _forget_in(self, parts: list[tuple[Run, Sequence[int]]]) -> Generator[Step, None, None]:
        unreadable: list[Run] = []
        if parts:
            yield from in_background(_forget_users, parts, unreadable)
        for run in unreadable:
            if run in self._sealed.runs:
                self._give_up(run)

    def _give_up(self, run: Run) -> None:
        if self._job is not None:  # it may be filling the run's column
            self._job.close()
            self._job = None
        self._sealed.drop(run)
        self.runs_given_up += 1

    def _next_job(self) -> Generator[Step, None, None] | None:
        if self._retry_at is not None and self._clock() < self._retry_at:
            return None
        self._retry_at = None
        if self._frozen:
            return self._seal(self._frozen[0])
        waiting = self._sealed.filters.waiting
        return None if waiting is None else self._sealed.filters.fill(waiting)

    def _seal(self, frozen: MemTable) -> Generator[Step, None, None]:
        run = yield from seal(frozen, self._folder)
        self._sealed.add(frozen, run)
        self._frozen.remove(frozen)
        yield from self._sealed.filters.save()
        start = self._reader.start(self._partition)
        self._sealed.shrink(start)
        if self._on_sealed is not None:
            yield from in_background(self._on_sealed, start)


def _within(part: Part, offsets: Sequence[int]) -> Sequence[int]:
    return offsets[bisect_left(offsets, part.first_offset) : bisect_left(offsets, part.next_offset)]


def _forget_users(parts: Sequence[tuple[Run, Sequence[int]]], unreadable: list[Run]) -> None:
    """Overwrite whose records these are; add the runs of which the disk refuses that for good to ``unreadable``."""
    for run, offsets in parts:
        try:
            run.forget_users(offsets)
        except FileNotFoundError:
            pass  # it was dropped meanwhile
        except OSError as error:
            if error.errno not in UNREADABLE:
                raise
            unreadable.append(run)


def _first_offset(part: Part) -> int:
    return part.first_offset


def _times(records: Sequence[Record]) -> list[int]:
    """Return ``journal_ms`` of each; written out, for this is done for every event."""
    return [each.received_at if each.ahead_ms is None else each.received_at - each.ahead_ms for each in records]
