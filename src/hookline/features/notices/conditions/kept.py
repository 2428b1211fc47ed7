"""What retention has taken and will take: of segments in a folder, and of a topic."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path

from hookline.journal.local.retention import last_received_at
from hookline.journal.local.segment import list_segments, segment_name
from hookline.journal.opening import open_reader
from hookline.journal.port import Reader
from hookline.journal.record import journal_ms
from hookline.settings import Retention

GROWTH_MS_MIN = 3_600_000
"""Growth is taken over at least so long, or a burst would look like an end."""


class Segments:
    """The segments of one partition, oldest first, with what retention knows of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._firsts = list_segments(folder)
        self._sizes = [(folder / segment_name(first)).stat().st_size for first in self._firsts]
        self.total_bytes = sum(self._sizes)

    def holding(self, offset: int) -> int | None:
        """Return the index of the segment that holds an offset; None for the newest one, which is never dropped."""
        index = max(0, bisect_right(self._firsts, offset) - 1)
        return index if index < len(self._firsts) - 1 else None

    def bytes_from(self, index: int) -> int:
        """Return the bytes of this segment and all newer ones."""
        return sum(self._sizes[index:])

    def path(self, index: int) -> Path:
        """Return the file."""
        return self._folder / segment_name(self._firsts[index])


class KeptSegments:
    """Reads the names and sizes of the segments, and a header of those in which something waits."""

    def __init__(self, folder: Path, limits: Retention) -> None:
        self._folder = folder
        self._limits = limits

    def look(self, now_ms: int, until_ms: int) -> Callable[[int, int], int | None]:
        """As ``Kept``: of every place but those in the newest segment, which is never dropped."""
        journal = {int(each.name): Segments(each) for each in self._folder.iterdir() if each.name.isdigit()}
        all_bytes = sum(segments.total_bytes for segments in journal.values())
        drops_ms: dict[tuple[int, int], int] = {}

        def drop_ms(partition: int, offset: int) -> int | None:
            segments = journal.get(partition)
            index = segments.holding(offset) if segments else None
            if segments is None or index is None:
                return None
            if (partition, index) not in drops_ms:
                share = segments.total_bytes / all_bytes
                drops_ms[partition, index] = self._drop_ms(segments, index, share, now_ms)
            return drops_ms[partition, index]

        return drop_ms

    def close(self) -> None:
        """Nothing is held."""

    def _drop_ms(self, segments: Segments, index: int, share: float, now_ms: int) -> int:
        """Return when the segment goes: by age, or earlier by bytes if the journal goes on growing as it did since.

        Partitions share the bytes; each is taken to keep the ``share`` it has now.
        """
        newest_ms = last_received_at(segments.path(index))
        by_age = newest_ms + self._limits.events * 1000
        grown = segments.bytes_from(index + 1)
        left = max(0.0, self._limits.bytes * share - segments.bytes_from(index))
        by_bytes = now_ms + left / grown * max(GROWTH_MS_MIN, now_ms - newest_ms)
        return int(min(by_age, by_bytes))


ASK_SECONDS = 5.0
REST_SECONDS = 5.0
LOOKUPS_MAX = 200
"""Events looked at in one partition at a time; those behind them are taken to go with the last."""
YOUNG_SHARE = 0.9
"""An oldest event younger than this share of the age at which events are dropped was left by dropping for bytes."""


class KeptTopic:
    """Asks brokers, where something waits: where the partitions begin, and when single events were received."""

    def __init__(self, folder: Path, limits: Retention) -> None:
        self._folder = folder
        self._by_age_ms = int(limits.events * 1000)
        self._reader: Reader | None = None
        self._starts: dict[int, int] = {}
        """Where each partition began at the last look."""
        self._by_bytes_ms: dict[int, int] = {}
        """By partition: how old events became before they were dropped for their bytes."""

    def look(self, now_ms: int, until_ms: int) -> Callable[[int, int], int | None]:
        """As ``Kept``; raise JournalAway while brokers do not answer."""
        if self._reader is None:
            self._reader = open_reader(self._folder)
            self._reader.limit_wait(ASK_SECONDS, REST_SECONDS)
        reader = self._reader
        kept_ms = {partition: self._kept_ms(reader, partition, now_ms) for partition in reader.partitions()}
        last: dict[int, int] = {}
        looked = dict.fromkeys(kept_ms, 0)

        def drop_ms(partition: int, offset: int) -> int | None:
            if partition not in kept_ms or last.get(partition, 0) > until_ms:
                return None  # those behind one that stays stay too
            if looked[partition] < LOOKUPS_MAX:
                looked[partition] += 1
                received_ms = _received_ms(reader, partition, offset)
                if received_ms is None:
                    return None
                last[partition] = received_ms + kept_ms[partition]
            return last.get(partition)

        return drop_ms

    def close(self) -> None:
        """Let go of connections; idempotent."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _kept_ms(self, reader: Reader, partition: int, now_ms: int) -> int:
        start = reader.start(partition)
        if start > self._starts.setdefault(partition, start):
            self._starts[partition] = start
            received_ms = _received_ms(reader, partition, start)
            if received_ms is not None:
                age_ms = now_ms - received_ms
                if age_ms < self._by_age_ms * YOUNG_SHARE:
                    self._by_bytes_ms[partition] = age_ms
                else:
                    self._by_bytes_ms.pop(partition, None)
        return min(self._by_age_ms, self._by_bytes_ms.get(partition, self._by_age_ms))


def _received_ms(reader: Reader, partition: int, offset: int) -> int | None:
    record = reader.get(partition, offset)
    return None if record is None else journal_ms(record)
