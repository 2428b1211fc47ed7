"""Looking records up from an event loop: a thread waits for brokers, the loop takes what has come.

What is asked for and not there is fetched, and ``JournalFetching`` raised; asked again after ``on_arrival``, it is
there.
Where brokers did not answer the thread about a partition, the loop hears ``JournalAway`` of it for a while, at once.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from hookline.journal.kafka.address import KafkaAddress
from hookline.journal.kafka.codec import blanked
from hookline.journal.kafka.cursors import CURSORS_MAX
from hookline.journal.kafka.erased import ErasedPlaces
from hookline.journal.kafka.reader import KafkaReader
from hookline.journal.port import Group, JournalAway, JournalCorrupt, JournalError, JournalFetching
from hookline.journal.record import Record

ASK_SECONDS = 1.0
"""How long the thread gives brokers for one answer."""
REST_SECONDS = 1.0
"""For so long after an answer that did not come nothing is asked about the partition."""
CLOSE_SECONDS = 0.5
STARTS_SECONDS = 10.0
"""How old what is known of a partition's start may be before it is asked for again."""
WANTED_MAX = 1_024
KEPT_MAX = 16_384
KEPT_BYTES_MAX = 32 * 1024 * 1024
"""Of what is at hand: what nobody asks for goes first."""
KEPT_SECONDS = 60.0
"""Forget after so long what nobody asks for: nearly everything is asked for within a moment, and then no more; kept
until there is no room, it would be memory that grows for hours."""
TOGETHER_RECORDS = 5_000
"""Fetch single records that are wanted within so many of a partition in one go."""
READS_ON_SECONDS = 5.0
"""A reading that nobody goes on with for so long is let go of, with what was read ahead for it. The thread looks so
often whether there is one."""
_RECORD_OVERHEAD_BYTES = 1_000


class Fetch(NamedTuple):
    """A thing for the thread to fetch: records around one, the group from an offset on, or where a partition begins."""

    kind: Literal["record", "group", "start"]
    partition: int
    offset: int


Found = Group | JournalError | None
"""None: there is nothing at that place."""


class _Kept(NamedTuple):
    """Hold what was found, and when it was asked for last, or came."""

    found: Found
    asked_seconds: float


class FetchingReader:
    """A journal's reader whose answers come later; used from one thread beside its own."""

    def __init__(
        self,
        folder: Path,
        address: KafkaAddress,
        on_arrival: Callable[[], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = KafkaReader(folder, address)
        self._reader.limit_wait(ASK_SECONDS, 0.0)
        self._erased = ErasedPlaces(folder)
        self._on_arrival = on_arrival
        self._clock = clock
        self._changed = threading.Condition()
        self._wanted: OrderedDict[Fetch, None] = OrderedDict()
        self._found: OrderedDict[Fetch, _Kept] = OrderedDict()
        """Keep at the end what was asked for last."""
        self._size_bytes = 0
        self._starts: dict[int, tuple[int, float]] = {}
        self._recent: dict[int, Group] = {}
        """By partition: the group that the last record was in, for the next one is often its neighbour."""
        self._readings: OrderedDict[tuple[int, int], tuple[Iterator[Group], float]] = OrderedDict()
        """Of the thread: by partition and offset what goes on from there, and since when it waits; the newest last."""
        self._fetched = ""
        """Of the thread: the kind of what it fetched last."""
        self._away_until: dict[int, float] = {}
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="kafka-fetching", daemon=True)
        self._thread.start()

    def start(self, partition: int) -> int:
        """Return the oldest offset still kept as it was a moment ago; 0 as long as that is not known: it only rises."""
        start, at = self._starts.get(partition, (0, -STARTS_SECONDS))
        if self._clock() - at >= STARTS_SECONDS:
            self._want(Fetch("start", partition, 0))
        return start

    def get(self, partition: int, offset: int) -> Record | None:
        """Return the record at ``offset``, or None when it is not (or no longer) kept, or cannot be read any more."""
        group = self._recent.get(partition)
        if group is None or not group.first_offset <= offset < group.next_offset:
            try:
                group = self._holding(partition, offset)
            except JournalCorrupt:
                return None
            if group is None:
                return None
            self._recent[partition] = group
        record = group.records[offset - group.first_offset]
        return blanked(record) if offset in self._erased.of(partition) else record

    def keep(self, partition: int, offset: int, record: Record) -> None:
        """Have a record at hand that will be asked for again."""
        wish = Fetch("record", partition, offset)
        with self._changed:
            if wish not in self._found:
                self._keep(wish, _alone(offset, record))

    def read(self, partition: int, offset: int) -> Iterator[Group]:
        """Yield the groups from ``offset`` on; the iterator raises JournalFetching where it must be waited, and the
        errors of the port; what goes on from there is another one."""
        while True:
            wish = Fetch("group", partition, offset)
            found = self._take(wish)
            if isinstance(found, JournalError):
                raise found
            if found is None:
                return
            self._want(Fetch("group", partition, found.next_offset))
            offset = found.next_offset
            yield self._without_erased(partition, found)

    def close(self) -> None:
        """End the thread and let go of connections; idempotent. A thread that waits for brokers is left behind."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(CLOSE_SECONDS)
        if not self._thread.is_alive():
            self._reader.close()

    # on the loop

    def _holding(self, partition: int, offset: int) -> Group | None:
        wish = Fetch("record", partition, offset)
        with self._changed:
            if wish not in self._found:
                raise self._wish(wish)
            found = self._found[wish].found
            self._found[wish] = _Kept(found, self._clock())
            self._found.move_to_end(wish)
        if isinstance(found, JournalError):
            raise found
        return found

    def _take(self, wish: Fetch) -> Found:
        with self._changed:
            if wish not in self._found:
                raise self._wish(wish)
            return self._forget(wish)

    def _want(self, wish: Fetch) -> None:
        with self._changed:
            if wish not in self._found:
                self._wish(wish)

    def _wish(self, wish: Fetch) -> JournalAway:
        """Have the thread fetch it, if it may ask; the lock is held. What to tell whoever needs it now."""
        if self._clock() < self._away_until.get(wish.partition, 0.0):
            return JournalAway("Kafka did not answer a moment ago")
        if len(self._wanted) < WANTED_MAX:
            self._wanted.setdefault(wish)
            self._changed.notify()
        return JournalFetching("brokers have been asked")

    def _without_erased(self, partition: int, group: Group) -> Group:
        erased = self._erased.of(partition).intersection(range(group.first_offset, group.next_offset))
        for offset in erased:
            group.records[offset - group.first_offset] = blanked(group.records[offset - group.first_offset])
        return group

    # on the thread

    def _run(self) -> None:
        while not self._closing:
            wish = self._next()
            self._let_go()
            if wish is None:
                continue
            try:
                arrived = self._fetch(wish)
            except JournalAway:
                with self._changed:
                    for each in [each for each in self._wanted if each.partition == wish.partition]:
                        del self._wanted[each]
                    self._away_until[wish.partition] = self._clock() + REST_SECONDS
                continue
            except JournalError as error:
                arrived = {wish: error}
            except ValueError:  # past the end
                arrived = {wish: None}
            except Exception as error:  # noqa: BLE001 - the thread's border: whoever asks must hear of it
                failure = JournalError(f"looking the journal on Kafka up failed unexpectedly ({error!r})")
                arrived = {wish: failure}
            with self._changed:
                for each, found in arrived.items():
                    self._wanted.pop(each, None)
                    if each.kind != "start":
                        self._keep(each, found)
            self._on_arrival()

    def _next(self) -> Fetch | None:
        """Return what has been wanted longest of the kind whose turn it is, None if for a while nothing was.

        Another kind than the last one, where it is wanted: a lane that reads a stretch would wait before each group of
        it for the hundreds of single records that others are to try again.
        """
        with self._changed:
            if not self._wanted and not self._closing:
                self._changed.wait(READS_ON_SECONDS)
                self._forget_old()
            first = next(iter(self._wanted), None)
            if first is None or self._closing:
                return None
            wish = next((each for each in self._wanted if each.kind != self._fetched), first)
            self._fetched = wish.kind
            return wish

    def _fetch(self, wish: Fetch) -> dict[Fetch, Found]:
        """Return what was found, and what was found with it."""
        partition, offset = wish.partition, wish.offset
        if wish.kind == "group":
            return {wish: self._following(partition, offset)}
        if wish.kind == "start":
            self._starts[partition] = self._reader.start(partition), self._clock()
            return {wish: None}
        offsets = self._wanted_near(partition, offset)
        if len(offsets) == 1:
            return {wish: self._reader.around(partition, offset)}
        found: dict[Fetch, Found] = {Fetch("record", partition, each): None for each in offsets}
        for each, record in self._reader.get_all(partition, offsets):
            found[Fetch("record", partition, each)] = _alone(each, record)
        return found

    def _wanted_near(self, partition: int, offset: int) -> list[int]:
        """Return the offsets of a partition from ``offset`` on whose records are wanted, as far as it is worth it."""
        with self._changed:
            wanted = [each.offset for each in self._wanted if each.kind == "record" and each.partition == partition]
        return sorted(each for each in wanted if 0 <= each - offset < TOGETHER_RECORDS)

    def _following(self, partition: int, offset: int) -> Group | None:
        """Return the next group of the reading that stands there, or of a new one."""
        reading, _ = self._readings.pop((partition, offset), (iter(()), 0.0))
        group = next(reading, None)
        if group is None:
            reading = self._reader.read(partition, offset)
            group = next(reading, None)
        if group is not None:
            self._readings[partition, group.next_offset] = reading, self._clock()
            if len(self._readings) > CURSORS_MAX:
                self._readings.popitem(last=False)
        return group

    def _let_go(self) -> None:
        while self._readings and next(iter(self._readings.values()))[1] <= self._clock() - READS_ON_SECONDS:
            self._readings.popitem(last=False)

    # the lock is held

    def _keep(self, wish: Fetch, found: Found) -> None:
        if wish in self._found:
            self._forget(wish)  # it was kept meanwhile
        self._size_bytes += _size_of(found)
        self._found[wish] = _Kept(found, self._clock())
        while (self._size_bytes > KEPT_BYTES_MAX and len(self._found) > 1) or len(self._found) > KEPT_MAX:
            self._forget(next(iter(self._found)))
        self._forget_old()

    def _forget_old(self) -> None:
        oldest_seconds = self._clock() - KEPT_SECONDS
        while self._found:
            wish, kept = next(iter(self._found.items()))
            if kept.asked_seconds > oldest_seconds:
                return
            self._forget(wish)

    def _forget(self, wish: Fetch) -> Found:
        found = self._found.pop(wish).found
        self._size_bytes -= _size_of(found)
        return found


def _alone(offset: int, record: Record) -> Group:
    return Group(offset, [record], len(record.body) + len(record.envelope or b"") + _RECORD_OVERHEAD_BYTES)


def _size_of(found: Found) -> int:
    return found.size_bytes if isinstance(found, Group) else 0
