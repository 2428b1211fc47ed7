"""Find what grows in processes that run for long: memory and open files, sampled from outside."""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, pairwise
from pathlib import Path

import msgspec

SAMPLE_SECONDS = 10.0
LIFE_SECONDS_MIN = 600.0
"""A slope of less is noise: 0.3 MB more after eight minutes would be 2 MB an hour."""
WARM_UP_SECONDS_MIN = 300.0
WARM_UP_SHARE = 0.25
"""Of a life, not looked at. In it fill what is bounded: the SQLite page caches, the runs and filters of
``dedup.window`` and the journal of ``retention.bytes`` (both gone round after five minutes of a soak), everybody's
profile; and every page and fault is met once, with the modules that it loads and the room it takes in the heap."""
SLOPE_MB_MAX = 2.0
FILES_MORE_MAX = 3
"""So many more at the quietest moments are no growth."""
FIFTHS = 5
MB = 1_000_000


class Sample(msgspec.Struct, frozen=True):
    """What one process had at a moment of the monotonic clock; sizes in bytes."""

    at: float
    own: int
    """Anonymous memory: PSS and RSS change with the files that are mapped, and with who else maps them."""
    pss: int
    rss: int
    files: int
    threads: int


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """One process from its start to its end: the slope of its own memory once it is warm, and PSS and open files of
    the first and last tenth of that time."""

    name: str
    minutes: float
    slope_mb_per_hour: float
    pss_first_mb: float
    pss_last_mb: float
    rss_last_mb: float
    files_first: int
    files_last: int
    files_max: int
    files_grow: bool
    threads_max: int


class Watch:
    """A context manager: inside, the processes that ``processes`` names are sampled by a thread."""

    def __init__(self, processes: Callable[[], Mapping[str, int]]) -> None:
        self._processes = processes
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch")
        self.samples: dict[tuple[str, int], list[Sample]] = {}
        """By name and process id: one that is started again is another one."""

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def lives(self) -> list[Life]:
        """Every process that lived long enough, those that grew most first."""
        found = [life(name, samples) for (name, _), samples in self.samples.items() if _is_long(samples)]
        return sorted(found, key=lambda each: -each.slope_mb_per_hour)

    def _run(self) -> None:
        due = time.monotonic()
        while not self._over.wait(max(0.0, due - time.monotonic())):
            due += SAMPLE_SECONDS
            for name, pid in self._processes().items():
                if (sample := sample_of(pid)) is not None:
                    self.samples.setdefault((name, pid), []).append(sample)


def sample_of(pid: int) -> Sample | None:
    """Look at a process; None where it has ended."""
    folder = Path("/proc") / str(pid)
    try:
        lines = (folder / "smaps_rollup").read_text().splitlines()
        files, threads = len(os.listdir(folder / "fd")), len(os.listdir(folder / "task"))
    except OSError:
        return None
    sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith(" kB")}
    if "Pss" not in sizes:
        return None
    return Sample(time.monotonic(), sizes["Anonymous"], sizes["Pss"], sizes["Rss"], files, threads)


def life(name: str, samples: Sequence[Sample]) -> Life:
    """Sum up what was seen of a process."""
    began = samples[0].at
    warm_up = max(WARM_UP_SECONDS_MIN, WARM_UP_SHARE * (samples[-1].at - began))
    warm = [each for each in samples if each.at - began >= warm_up] or samples[-1:]
    tenth = max(1, len(warm) // 10)
    first, last = warm[:tenth], warm[-tenth:]
    return Life(
        name=name,
        minutes=round((samples[-1].at - began) / 60, 1),
        slope_mb_per_hour=round(slope([(each.at / 3_600, each.own / MB) for each in warm]), 2),
        pss_first_mb=round(statistics.median(each.pss for each in first) / MB, 1),
        pss_last_mb=round(statistics.median(each.pss for each in last) / MB, 1),
        rss_last_mb=round(statistics.median(each.rss for each in last) / MB, 1),
        files_first=round(statistics.median(each.files for each in first)),
        files_last=round(statistics.median(each.files for each in last)),
        files_max=max(each.files for each in samples),
        files_grow=grows([each.files for each in warm]),
        threads_max=max(each.threads for each in samples),
    )


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The median of the slopes between any two points (Theil-Sen): single peaks have no say; 0 of fewer than two."""
    return statistics.median([(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2)] or [0.0])


def grows(counts: Sequence[int]) -> bool:
    """The lowest tenth of each fifth is above that of the one before, and the last one by more than a few.

    Connections to receivers come and go by tens, so that medians rise by chance; what is never closed raises the floor.
    """
    size = len(counts) // FIFTHS
    if not size:
        return False
    floors = [sorted(counts[n * size : (n + 1) * size])[size // 10] for n in range(FIFTHS)]
    return all(a < b for a, b in pairwise(floors)) and floors[-1] - floors[0] > FILES_MORE_MAX


def _is_long(samples: Sequence[Sample]) -> bool:
    return samples[-1].at - samples[0].at >= LIFE_SECONDS_MIN
