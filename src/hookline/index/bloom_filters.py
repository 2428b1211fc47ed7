"""Say which parts of the index may hold a key: bit-sliced Bloom filters over up to 32 runs each, in files with a
manifest of which column is whose.

The file is an array of 32-bit rows in the machine's byte order; bit r of a row belongs to run r. A key sets its run's
bit in three rows of one line, which is what memory gives at once (64 bytes, sixteen rows): a look-up waits once; a run
is possible when its bit is set in all three. Which bits count is the manifest's to say. Rows this wide make a filter
that is full after some hours at usual rates and takes 16 MB of memory till then.

What a process wrote to a filter outlives the process, not the machine: after another boot only flushed columns count.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Generator, Sequence
from contextlib import suppress
from itertools import compress
from operator import and_, itemgetter
from pathlib import Path
from sys import byteorder
from typing import NamedTuple

import msgspec

from hookline.index.keys import KEY_BYTES, in_every_lane, lanes, words
from hookline.index.mem_table import MemTable
from hookline.index.run import TEMPORARY_SUFFIX, Run, Step, in_background, sync_folder
from hookline.whole_file import is_readable

ROWS_PER_EVENT = 32
"""Rows per event of a run: with three rows set per event, all of one line, 0.6 % of foreign keys pass for one run."""

LINE_ROWS = 16
_HALF = LINE_ROWS // 2
_WORD_BITS = 32


class FilterPositions(NamedTuple):
    """The row numbers of some keys: in the first half of a line, in the second half of it, and anywhere in it."""

    first: list[int]
    second: list[int]
    third: list[int]

    def again(self) -> list[int]:
        """Return the indexes of the keys that may be the same as one before them."""
        if len(set(self.first)) == len(self.first):
            return []
        before: set[int] = set()
        again: list[int] = []
        for index, row in enumerate(self.first):
            if row in before:
                again.append(index)
            before.add(row)
        return again


def rows_for(run_events: int) -> int:
    """Return the number of rows, a power of two, for runs of this many events."""
    return max(1 << 10, 1 << (run_events * ROWS_PER_EVENT - 1).bit_length())


def rows_of(keys: bytes, rows: int) -> FilterPositions:
    """Return in which rows, of so many, each of the keys has its bits.

    The first word, modulo the number of rows, names the line and a row of its first half; the second word a row of the
    second half, the third word any row of the line.
    """
    count = len(keys) // KEY_BYTES
    given = lanes(keys)
    line = given & in_every_lane(rows - LINE_ROWS, count)
    within = in_every_lane(_HALF - 1 | (_HALF - 1) << _WORD_BITS | (LINE_ROWS - 1) << 2 * _WORD_BITS, count)
    upper = in_every_lane(_HALF << _WORD_BITS, count)
    numbers = words(given & within | upper | line | line << _WORD_BITS | line << 2 * _WORD_BITS, count)
    return FilterPositions(numbers[0::4].tolist(), numbers[1::4].tolist(), numbers[2::4].tolist())


SUFFIX = ".filter"
RUNS_MAX = 32
ROW_BYTES = 4
ZEROS_BYTES = 1024 * 1024


class Filter:
    """One filter file, mapped for reading and writing."""

    def __init__(self, path: Path, rows: int) -> None:
        """Open or create the file; raise OSError without room for all of it: a map must not meet a full disk."""
        self.path = path
        self.rows = rows
        self.size_bytes = rows * ROW_BYTES
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(descriptor).st_size != self.size_bytes:
                os.ftruncate(descriptor, 0)
                _make_room(descriptor, self.size_bytes)
            self._map = mmap.mmap(descriptor, self.size_bytes)
        finally:
            os.close(descriptor)
        self._map.madvise(mmap.MADV_RANDOM)
        self.cells = memoryview(self._map).cast("I")

    def search(self, rows: FilterPositions, live: int, flag: int = 0) -> list[tuple[int, int]]:
        """Return index and runs, as bits, of each key that one of the ``live`` runs may hold.

        After that the bits of ``flag`` are set in all rows of the keys: done here it is half the work.
        """
        cells = self.cells
        # A number more in each, as a single one would not come in a tuple.
        firsts, seconds = itemgetter(*rows.first, 0)(cells), itemgetter(*rows.second, 0)(cells)
        found: list[tuple[int, int]] = []
        if live:
            both = list(map(and_, firsts, seconds))
            for index in compress(range(len(rows.third)), both):
                bits = both[index] & live
                if bits and (bits := bits & cells[rows.third[index]]):
                    found.append((index, bits))
        if flag:
            # A row that comes twice gets the same value twice: nothing but the flag changes meanwhile.
            for row, bits in zip(rows.first, firsts, strict=False):
                cells[row] = bits | flag
            for row, bits in zip(rows.second, seconds, strict=False):
                cells[row] = bits | flag
            for row in rows.third:
                cells[row] |= flag
        return found

    def flush(self) -> Generator[Step, None, None]:
        """Bring all bits to the disk: by way of the file, because flushing the map would hold up every thread."""
        yield from in_background(_sync, self.path)

    def rest(self) -> None:
        """Let go of memory that only speeds look-ups up; what was set stays set."""
        self._map.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Give the memory map back."""
        self.cells.release()
        self._map.close()


def _make_room(descriptor: int, size_bytes: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size_bytes)
        return
    for position in range(0, size_bytes, ZEROS_BYTES):  # macOS
        os.pwrite(descriptor, bytes(min(ZEROS_BYTES, size_bytes - position)), position)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


NAME = "manifest.json"
FORMAT_VERSION = 3
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class FilterEntry(msgspec.Struct):
    """One filter file: its rows, the run that each column was filled from, and how many columns are flushed."""

    name: str
    rows: int
    columns: list[str]
    flushed: int = 0


class Manifest(msgspec.Struct):
    """All filter files of one partition, oldest first."""

    version: int = FORMAT_VERSION
    byteorder: str = byteorder
    boot: str = ""
    filters: list[FilterEntry] = []

    @classmethod
    def load(cls, folder: Path) -> Manifest:
        """Read the manifest; what is absent, unreadable or of another kind is as none: filters are filled again."""
        try:
            found = msgspec.json.decode((folder / NAME).read_bytes(), type=cls)
        except (OSError, ValueError):
            found = cls()
        if (found.version, found.byteorder) != (FORMAT_VERSION, byteorder):
            found = cls()
        boot = _boot()
        if not boot or found.boot != boot:
            for entry in found.filters:
                del entry.columns[entry.flushed :]
        found.boot = boot
        return found

    def save(self, folder: Path) -> None:
        """Replace the manifest on the disk at once and durably."""
        temporary = folder / (NAME + TEMPORARY_SUFFIX)
        with temporary.open("wb") as file:
            file.write(msgspec.json.encode(self))
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(folder / NAME)
        sync_folder(folder)


def _boot() -> str:
    """Name the present boot of the machine; empty where that cannot be told."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""


COLUMNS_PER_FLUSH = 8
"""Columns that a crash of the machine may cost; every one touches all of its filter file."""

KEYS_PER_STEP = 1_000
"""Keys handled between two pauses of filling: well below a millisecond."""

Part = Run | MemTable


class BloomFilters:
    """The filters over all parts, oldest first. A part without a column, or not yet a filled one, is always named."""

    def __init__(self, folder: Path, rows: int, runs: Sequence[Run]) -> None:
        """Take up the filters of the folder as far as they can be trusted; other filter files are removed."""
        self._folder = folder
        self._rows = rows
        self._manifest = Manifest.load(folder)
        self._filters: dict[str, Filter] = {}
        self._parts: dict[str, list[Part | None]] = {}
        self._places: dict[Part, tuple[str, int]] = {}
        self._without: dict[Part, None] = dict.fromkeys(runs)
        self._open_filters({run.path.name: run for run in runs})

    @property
    def size_bytes(self) -> int:
        """Return what the filters take on the disk."""
        return sum(one.size_bytes for one in self._filters.values())

    @property
    def waiting(self) -> Run | None:
        """Return the oldest run that waits for its column."""
        return next((part for part in self._without if isinstance(part, Run)), None)

    def candidates(
        self, rows: FilterPositions, first_offset: int, since: int, mark: Part | None = None
    ) -> dict[int, list[Part]]:
        """Return, by index, the parts that may hold the key of these rows at a smaller offset than the group there.

        Parts wholly received before ``since`` are left out. The keys are noted as ones of the part to ``mark``. Raise
        OSError when a run cannot be read.
        """
        marked, bit_to_mark = self._place_of(mark)
        end = first_offset + len(rows.first)
        known = (*self._places, *self._without)
        searched = {part for part in known if part.latest >= since and part.first_offset < end}
        found: dict[int, list[Part]] = {}
        for part in searched:
            if part.first_offset <= first_offset and end <= part.next_offset:
                # The group is read again, and the part that holds it knows the repeats without a search.
                found = {index: [part] for index in part.repeats(first_offset, end - first_offset)}
                searched.discard(part)
                break
        for name, one in self._filters.items():
            parts = self._parts[name]
            live = sum([1 << bit for bit, part in enumerate(parts) if part in searched and part not in self._without])
            flag = 1 << bit_to_mark if name == marked else 0
            for index, bits in one.search(rows, live, flag) if live or flag else ():
                found.setdefault(index, []).extend(_named(parts, bits))
        for part in self._without:
            if part in searched:
                for index in range(end - first_offset):
                    found.setdefault(index, []).append(part)
        return found

    def hand_over(self, mem_table: MemTable, run: Run) -> None:
        """Let the run that a mem table was sealed into have their column."""
        if mem_table in self._without:
            del self._without[mem_table]
            self._without[run] = None
            return
        name, bit = self._places[run] = self._places.pop(mem_table)
        self._parts[name][bit] = run

    def drop(self, part: Part) -> None:
        """Forget a part; its column is not used again."""
        self._without.pop(part, None)
        if part in self._places:
            name, bit = self._places.pop(part)
            self._parts[name][bit] = None

    def fill(self, run: Run) -> Generator[Step, None, None]:
        """Give a run without a column one, in short steps; raise OSError without room for it."""
        name = self._filter_with_room()
        bit = len(self._parts[name])
        self._parts[name].append(run)
        try:
            for start in range(1, len(run) + 1, KEYS_PER_STEP):
                self._filters[name].search(rows_of(run.keys(start, KEYS_PER_STEP), self._rows), 0, 1 << bit)
                yield None
            del self._without[run]
            self._places[run] = name, bit
        finally:
            if run not in self._places:
                self._parts[name][bit] = None
                if bit == len(self._parts[name]) - 1:  # tried again and again it must not use up the filter
                    self._parts[name].pop()
        yield from self.save()

    def save(self) -> Generator[Step, None, None]:
        """Make it durable which column is whose, and now and then the columns."""
        for entry in self._manifest.filters:
            parts = self._parts[entry.name]
            whole = next((bit for bit, part in enumerate(parts) if not self._is_whole(part)), len(parts))
            entry.columns = [part.path.name if isinstance(part, Run) and self._is_whole(part) else "" for part in parts]
            while entry.columns and not entry.columns[-1]:
                entry.columns.pop()  # the next process will use it again
            whole = min(whole, len(entry.columns))
            if whole - entry.flushed >= COLUMNS_PER_FLUSH or entry.flushed < whole == RUNS_MAX:
                yield from self._filters[entry.name].flush()
                entry.flushed = whole
        yield from in_background(self._manifest.save, self._folder)

    def drop_empty_filters(self) -> None:
        """Remove the filter files none of whose parts is left; columns are never used twice."""
        empty = [name for name, parts in self._parts.items() if parts and not any(part is not None for part in parts)]
        if not empty:
            return
        for name in empty:
            one = self._filters.pop(name)
            one.close()
            one.path.unlink(missing_ok=True)
            del self._parts[name]
        self._manifest.filters = [entry for entry in self._manifest.filters if entry.name not in empty]
        with suppress(OSError):  # those that it names still, without a run, the next process passes over
            self._manifest.save(self._folder)

    def rest(self) -> None:
        """Let go of memory that only speeds look-ups up."""
        for one in self._filters.values():
            one.rest()

    def close(self) -> None:
        """Give back all memory maps."""
        for one in self._filters.values():
            one.close()
        self._filters, self._parts, self._places, self._without = {}, {}, {}, {}

    def _place_of(self, part: Part | None) -> tuple[str, int]:
        """Return filter and bit of a part; at first it gets the next ones, without room for a filter it has none."""
        if part is None or part in self._without:
            return "", 0
        if part not in self._places:
            try:
                name = self._filter_with_room()
            except OSError:
                self._without[part] = None
                return "", 0
            self._places[part] = name, len(self._parts[name])
            self._parts[name].append(part)
        return self._places[part]

    def _is_whole(self, part: Part | None) -> bool:
        """Return whether nothing more will be set in the column of this part."""
        return part is None or (isinstance(part, Run) and part not in self._without)

    def _open_filters(self, runs: dict[str, Run]) -> None:
        for entry in list(self._manifest.filters):
            path = self._folder / entry.name
            usable = entry.rows == self._rows and any(name in runs for name in entry.columns)
            if not usable or not _is_whole_file(path, entry.rows * ROW_BYTES):
                self._manifest.filters.remove(entry)
                continue
            self._filters[entry.name] = Filter(path, entry.rows)
            self._parts[entry.name] = [runs.get(name) for name in entry.columns]
            for bit, name in enumerate(entry.columns):
                if name in runs:
                    self._places[runs[name]] = entry.name, bit
                    self._without.pop(runs[name], None)
        for path in self._folder.glob("*" + SUFFIX):
            if path.name not in self._filters:
                path.unlink()

    def _filter_with_room(self) -> str:
        entries = self._manifest.filters
        if not entries or len(self._parts[entries[-1].name]) == RUNS_MAX:
            name = f"{max([int(name.removesuffix(SUFFIX)) for name in self._filters], default=0) + 1:08d}{SUFFIX}"
            self._filters[name] = Filter(self._folder / name, self._rows)
            self._parts[name] = []
            entries.append(FilterEntry(name, self._rows, []))
        return entries[-1].name


def _is_whole_file(path: Path, size_bytes: int) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return os.fstat(descriptor).st_size == size_bytes and is_readable(descriptor)
    finally:
        os.close(descriptor)


def _named(parts: Sequence[Part | None], bits: int) -> list[Part]:
    named: list[Part] = []
    while bits:
        lowest = bits & -bits
        bits ^= lowest
        part = parts[lowest.bit_length() - 1]
        if part is not None:
            named.append(part)
    return named
