"""The journal of one machine, as a backend: segment files in the data folder."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hookline.journal.folder import read_note
from hookline.journal.local.partition_reader import LocalReader
from hookline.journal.local.segment import refuse_newer
from hookline.journal.port import (
    GroupEvents,
    JournalFailed,
    JournalTooNew,
    JournalUnusable,
    LoopReaders,
    Member,
    Reader,
    RetentionForecast,
)
from hookline.journal.reading import at_hand
from hookline.settings import Retention, Settings
from hookline.telemetry.log import logger

if TYPE_CHECKING:
    from hookline.journal.local.appender import LocalAppender

SEGMENT_BYTES_MIN = 4 * 1024 * 1024
SEGMENTS_MIN = 16
"""Segments are this small a share of the journal's bytes, for retention takes whole ones."""
DAMAGED_MAX = 16
"""Ranges of damaged records that one line of the log names."""
BEHIND = "the journal ends before events that were delivered: start collect again, and it goes on behind them"
_POLL_SECONDS = 0.25


class LocalBackend:
    """The journal in ``folder``."""

    def __init__(self, folder: Path, segment_bytes_min: int = SEGMENT_BYTES_MIN) -> None:
        self._folder = folder
        self._segment_bytes_min = segment_bytes_min

    def claim(self) -> None:
        """Refuse a folder whose journal is on Kafka, or of a newer version; nothing is noted in one of this kind."""
        note = read_note(self._folder)
        if note is not None:
            url = note.partition("\n")[0]
            raise JournalUnusable(f"the journal of {self._folder.parent} is on Kafka: set journal.url to {url}")
        try:
            refuse_newer(self._folder)
        except JournalTooNew as newer:  # no other machine goes on with it meanwhile
            raise JournalUnusable(str(newer)) from None

    def state(self, wait_seconds: float) -> str:
        """Return nothing: a disk is asked by appending."""
        return ""

    def reader(self) -> LocalReader:
        """Return a reader; nothing needs to be there yet."""
        return LocalReader(self._folder)

    def loop_readers(self, reader: Reader, on_arrival: Callable[[], object]) -> LoopReaders:
        """Return the reader itself: files are not waited for."""
        return at_hand(reader)

    def appender(
        self,
        settings: Settings,
        on_failed: Callable[[JournalFailed], None] | None = None,
        steady_ms: Callable[[], int] | None = None,
        known: Mapping[int, Mapping[str, int]] | None = None,
    ) -> LocalAppender:
        """Recover the journal, say what had to be repaired, and go on behind all that is ``known``."""
        from hookline.journal.local.appender import SEGMENT_BYTES, LocalAppender  # readers alone do without it

        appender = LocalAppender(
            self._folder,
            settings.journal.partitions,
            retention_seconds=settings.retention.events,
            retention_bytes=settings.retention.bytes,
            segment_bytes=max(self._segment_bytes_min, min(SEGMENT_BYTES, settings.retention.bytes // SEGMENTS_MIN)),
            wake_path=settings.socket_path("deliver.wake"),
            on_failed=on_failed,
            steady_ms=steady_ms,
            known=known,
        )
        for recovery in appender.recovered:
            report = logger().error if recovery.damaged_records else logger().warning
            found = recovery._asdict() | {"damaged": recovery.damaged[:DAMAGED_MAX]}
            report("journal_recovered", damaged_records=recovery.damaged_records, **found)
        return appender

    async def wait_for_partitions(self, count: int, stop: asyncio.Event) -> None:
        """Return at once: its reader may come first."""

    async def wait_for_recovery(self, places: Mapping[int, int], appending: Path, stop: asyncio.Event) -> None:
        """Return once the ends can be believed by a reader that was at these places, or at ``stop``; at once in nearly
        every start.

        Nothing synchronises the end that readers see, so a power cut may set it back by a whole day. ``collect`` finds
        the true one when it opens the journal; who starts before it would take the old one for the place where it
        stood, and send again all that came since. A journal that has lost its end is opened behind the places: at a
        place beyond its end events that come later would be taken for those that were there.
        """
        logged = ""
        with closing(self.reader()) as reader:
            while not stop.is_set():
                is_open = await asyncio.to_thread(_answers, appending) if logged else False
                if all(reader.end(partition) >= place for partition, place in places.items()):
                    return
                reason = BEHIND if is_open else "collect has not opened the journal yet"
                if reason != logged:
                    logger().warning("waiting_for_journal", reason=reason)
                    logged = reason
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), _POLL_SECONDS)

    def note_erased(self, partition: int, offsets: Iterable[int]) -> None:
        """Nothing is left to note: what is erased is overwritten, and the files are this folder's alone."""

    def forecast(self, limits: Retention) -> RetentionForecast:
        """Return what foresees when segments are dropped."""
        from hookline.journal.local.retention import LocalForecast

        return LocalForecast(self._folder, limits)

    def join(self, session_seconds: float, events: GroupEvents) -> Member:
        """Raise JournalUnusable: one process reads the files for all lanes."""
        raise JournalUnusable("a local journal is read by one deliver process: many need one on Kafka")


def _answers(path: Path) -> bool:
    """Return whether somebody takes connections at a socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_POLL_SECONDS)
        try:
            connection.connect(str(path))
        except OSError:
            return False
    return True
