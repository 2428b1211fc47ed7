"""A journal on Kafka, as a backend: a topic, and in the data folder a note of where it is and what was erased."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hookline.journal.folder import read_note, write_note
from hookline.journal.kafka.address import KafkaAddress, noted
from hookline.journal.kafka.erased import ErasedLog
from hookline.journal.kafka.reader import KafkaReader
from hookline.journal.port import GroupEvents, JournalAway, JournalFailed, JournalUnusable, LoopReaders, Reader
from hookline.settings import Settings
from hookline.telemetry.log import logger

if TYPE_CHECKING:
    from hookline.journal.kafka.appender import KafkaAppender
    from hookline.journal.kafka.membership import Membership

_POLL_SECONDS = 0.25


class KafkaBackend:
    """The topic at ``address`` as the journal of ``folder``."""

    def __init__(self, folder: Path, address: KafkaAddress) -> None:
        self._folder = folder
        self._address = address
        self._erased = ErasedLog(folder)

    def claim(self) -> None:
        """Note the brokers in a folder that has no other journal, and what they are met with: they may have moved."""
        note = read_note(self._folder)
        if note is None and (self._folder / "0").exists():
            raise JournalUnusable(f"{self._folder.parent} has a local journal: hookline migrate-to moves it to Kafka")
        if note is not None and noted(note).topic != self._address.topic:
            raise JournalUnusable(
                f"the journal of {self._folder.parent} is {noted(note).url}: a folder cannot go on with another topic"
            )
        if note != self._address.note:
            write_note(self._folder, self._address.note)

    def state(self, wait_seconds: float) -> str:
        """Return why the topic takes no records, as brokers say or their silence does; empty when it takes them."""
        from hookline.journal.kafka.admin import Admin
        from hookline.journal.kafka.topic import topic_state

        return topic_state(Admin(self._address), self._address, wait_seconds)[0]

    def reader(self) -> KafkaReader:
        """Return a reader, which waits for brokers."""
        return KafkaReader(self._folder, self._address)

    def loop_readers(self, reader: Reader, on_arrival: Callable[[], object]) -> LoopReaders:
        """Return two threads that wait for brokers in the event loop's place."""
        from hookline.journal.kafka.fetching import FetchingReader
        from hookline.journal.kafka.follower import KafkaFollower

        lookups = FetchingReader(self._folder, self._address, on_arrival)
        follower = KafkaFollower(self._folder, self._address, on_arrival)

        def close() -> None:
            follower.close()
            lookups.close()

        return LoopReaders(follower, lookups, lookups.keep, close)

    def appender(
        self,
        settings: Settings,
        on_failed: Callable[[JournalFailed], None] | None = None,
        steady_ms: Callable[[], int] | None = None,
        known: Mapping[int, Mapping[str, int]] | None = None,
    ) -> KafkaAppender:
        """Return the appender; ``known`` says nothing, for brokers number the records."""
        from hookline.journal.kafka.appender import KafkaAppender

        return KafkaAppender(
            self._folder,
            self._address,
            settings.journal.partitions,
            retention_seconds=settings.retention.events,
            retention_bytes=settings.retention.bytes,
            wake_path=settings.socket_path("deliver.wake"),
            on_failed=on_failed,
            steady_ms=steady_ms,
        )

    async def wait_for_partitions(self, count: int, stop: asyncio.Event) -> None:
        """Return once the topic is there with so many partitions, or at ``stop``."""
        told = False
        while not stop.is_set():
            try:
                with closing(self.reader()) as reader:  # one that was asked before knows a number from then
                    if len(await asyncio.to_thread(reader.partitions)) >= count:
                        return
                reason = "the journal's topic, or a partition of it, is not there yet; collect makes it"
            except JournalAway as away:
                reason = str(away)
            if not told:
                logger().warning("waiting_for_journal", reason=reason)
                told = True
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _POLL_SECONDS)

    async def wait_for_recovery(self, places: Mapping[int, int], appending: Path, stop: asyncio.Event) -> None:
        """Return at once: brokers know where the topic ends."""

    def note_erased(self, partition: int, offsets: Iterable[int]) -> None:
        """Note these offsets beside what was erased by way of this folder."""
        self._erased.add(partition, offsets)

    def join(self, session_seconds: float, events: GroupEvents) -> Membership:
        """Return this process as a member of the topic's consumer group."""
        from hookline.journal.kafka.membership import Membership

        return Membership(self._address, session_seconds, events)
