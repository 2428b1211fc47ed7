"""All sealed runs of one partition with the filters over them, kept within a number of bytes."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path

from hookline.index.background import Step, in_background
from hookline.index.filter import POSITIONS, ROW_BYTES, RUNS_MAX, Filter, rows_for
from hookline.index.filter import SUFFIX as FILTER_SUFFIX
from hookline.index.manifest import FilterEntry, Manifest
from hookline.index.run import SUFFIX as RUN_SUFFIX
from hookline.index.run import Run, RunDamaged
from hookline.index.seal import TEMPORARY_SUFFIX
from hookline.journal.record import Record

COLUMNS_PER_FLUSH = 8
"""Columns that a crash of the machine may cost; every one touches all of its filter file."""


class SealedRuns:
    """The runs, oldest first. A run without a filled filter column is searched directly until it has one."""

    def __init__(self, folder: Path, run_events: int, bytes_max: int, journal_end: int) -> None:
        """Open what is there; runs that are damaged or reach past the journal's end are removed.

        Offsets past the end will be given to other records (a folder put back from a backup), and a run that speaks
        of them would make new events look like repeats.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._rows = rows_for(run_events)
        self._bytes_max = bytes_max
        self.runs = _open_runs(folder, journal_end)
        self._manifest = Manifest.load(folder)
        self._filters: dict[str, Filter] = {}
        self._columns: dict[str, list[Run | None]] = {}
        self._unfiltered = {run.path.name: run for run in self.runs}
        self._open_filters()

    @property
    def next_offset(self) -> int:
        """The offset after the newest run, 0 without one."""
        return self.runs[-1].header.next_offset if self.runs else 0

    @property
    def size_bytes(self) -> int:
        """What runs and filters take on the disk."""
        runs = sum(run.header.size_bytes for run in self.runs)
        return runs + sum(one.size_bytes for one in self._filters.values())

    @property
    def needs_filling(self) -> bool:
        """Whether a run waits for its column."""
        return bool(self._unfiltered)

    def add(self, run: Run) -> None:
        """Take in the run that was just sealed; without a filled column it is searched directly."""
        self.runs.append(run)
        if not any(run in columns for columns in self._columns.values()):
            self._unfiltered[run.path.name] = run

    def candidates(self, records: Sequence[Record], since: int) -> dict[int, list[Run]]:
        """Return, by index, the runs that may hold a record too, leaving out those wholly received before ``since``."""
        found: dict[int, list[Run]] = {}
        for name, one in self._filters.items():
            columns = [run if run is not None and run.latest >= since else None for run in self._columns[name]]
            live = sum(1 << bit for bit, run in enumerate(columns) if run is not None)
            if live:
                _search(one, records, live, columns, found)
        for run in self._unfiltered.values():
            if run.latest >= since:
                for index in range(len(records)):
                    found.setdefault(index, []).append(run)
        return found

    def fill(self, run: Run) -> Generator[Step, None, None]:
        """Fill the filter column of a run, in short steps; raise OSError when there is no room for a filter."""
        entry = self._entry_with_room(run)
        one = self._filters[entry.name]
        yield from one.fill(len(entry.columns), run)
        flushed = entry.flushed
        if len(entry.columns) + 1 - flushed >= COLUMNS_PER_FLUSH or len(entry.columns) + 1 == RUNS_MAX:
            yield from one.flush()
            flushed = len(entry.columns) + 1
        entry.flushed = flushed
        entry.columns.append(run.path.name)
        self._columns[entry.name].append(run)
        self._unfiltered.pop(run.path.name, None)
        yield from in_background(self._manifest.save, self._folder)

    def fill_one(self) -> Generator[Step, None, None]:
        """Do that for the oldest run that waits for it."""
        return self.fill(next(iter(self._unfiltered.values())))

    def shrink(self, journal_start: int) -> None:
        """Drop the runs that retention has overtaken, then the oldest ones as far as the bytes ask for it.

        Not to be called while a column is being filled.
        """
        while self.runs and (self.runs[0].header.next_offset <= journal_start or self.size_bytes > self._bytes_max):
            run = self.runs.pop(0)
            self._unfiltered.pop(run.path.name, None)
            self._columns = {
                name: [None if one is run else one for one in columns] for name, columns in self._columns.items()
            }
            run.close()
            run.path.unlink(missing_ok=True)
            self._drop_empty_filters()

    def rest(self) -> None:
        """Let go of memory that only speeds look-ups up."""
        for run in self.runs:
            run.rest()
        for one in self._filters.values():
            one.rest()

    def close(self) -> None:
        """Give back all memory maps."""
        for run in self.runs:
            run.close()
        for one in self._filters.values():
            one.close()
        self.runs, self._filters, self._columns, self._unfiltered = [], {}, {}, {}

    def _open_filters(self) -> None:
        runs = {run.path.name: run for run in self.runs}
        for entry in list(self._manifest.filters):
            path = self._folder / entry.name
            usable = entry.rows == self._rows and any(name in runs for name in entry.columns)
            if not usable or not path.exists() or path.stat().st_size != entry.rows * ROW_BYTES:
                self._manifest.filters.remove(entry)
                continue
            self._filters[entry.name] = Filter(path, entry.rows)
            self._columns[entry.name] = [runs.get(name) for name in entry.columns]
            for name in entry.columns:
                self._unfiltered.pop(name, None)
        for path in self._folder.glob("*" + FILTER_SUFFIX):
            if path.name not in self._filters:
                path.unlink()

    def _entry_with_room(self, run: Run) -> FilterEntry:
        entries = self._manifest.filters
        if not entries or len(entries[-1].columns) == RUNS_MAX:
            name = run.path.with_suffix(FILTER_SUFFIX).name
            self._filters[name] = Filter(self._folder / name, self._rows)
            self._columns[name] = []
            entries.append(FilterEntry(name, self._rows, []))
        return entries[-1]

    def _drop_empty_filters(self) -> None:
        """Remove the filter files none of whose runs is left; columns are never used twice."""
        empty = [name for name, columns in self._columns.items() if columns and not any(columns)]
        if not empty:
            return
        for name in empty:
            one = self._filters.pop(name)
            one.close()
            one.path.unlink(missing_ok=True)
            del self._columns[name]
        self._manifest.filters = [entry for entry in self._manifest.filters if entry.name not in empty]
        self._manifest.save(self._folder)


def _open_runs(folder: Path, journal_end: int) -> list[Run]:
    for path in folder.glob("*" + TEMPORARY_SUFFIX):
        path.unlink()
    runs: list[Run] = []
    for path in sorted(folder.glob("*" + RUN_SUFFIX)):
        try:
            run = Run(path)
        except RunDamaged:
            path.unlink()
            continue
        if run.header.next_offset > journal_end:
            run.close()
            path.unlink()
        else:
            runs.append(run)
    return runs


def _search(
    one: Filter, records: Sequence[Record], live: int, columns: list[Run | None], found: dict[int, list[Run]]
) -> None:
    positions = POSITIONS.unpack
    cells = one.cells
    mask = one.rows - 1
    for index, record in enumerate(records):
        a, b, c = positions(record.fingerprint)
        bits = cells[a & mask] & cells[b & mask] & live
        if bits:
            bits &= cells[c & mask]
        while bits:
            lowest = bits & -bits
            bits ^= lowest
            run = columns[lowest.bit_length() - 1]
            if run is not None:
                found.setdefault(index, []).append(run)
