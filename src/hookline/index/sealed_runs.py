"""All sealed runs of one partition, kept within a number of bytes together with the filters over them."""

from __future__ import annotations

from pathlib import Path

from hookline.index.bloom_filters import BloomFilters
from hookline.index.mem_table import MemTable
from hookline.index.run import SUFFIX, TEMPORARY_SUFFIX, Run, RunDamaged


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
            run = self.runs.pop(0)
            self.filters.drop(run)
            run.close()
            run.path.unlink(missing_ok=True)
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
        except RunDamaged:
            path.unlink()
            continue
        if run.next_offset > journal_end:
            run.close()
            path.unlink()
        else:
            runs.append(run)
    return runs
