"""A journal whose look-ups are late, as those of one on Kafka; with it a rig's retry rows are late, too."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TypeVar, cast

from hookline.journal.local.partition_reader import LocalReader
from hookline.journal.port import Group, JournalAway, JournalFetching
from hookline.journal.record import Record

T = TypeVar("T")


class LateJournal:
    """A journal that answers when it is asked again, and has room for few answers; of partitions that are ``away`` it
    gives none."""

    def __init__(self, folder: Path, room: int) -> None:
        self.away: Collection[int] = ()
        self._reader = LocalReader(folder)
        self._room = room
        self._come: OrderedDict[tuple[str, int, int], object] = OrderedDict()

    def start(self, partition: int) -> int:
        return 0

    def get(self, partition: int, offset: int) -> Record | None:
        return self._answer(("record", partition, offset), lambda: self._reader.get(partition, offset))

    def read(self, partition: int, offset: int) -> Iterator[Group]:
        while (group := self._group(partition, offset)) is not None:
            offset = group.next_offset
            yield group

    def close(self) -> None:
        self._reader.close()

    def _group(self, partition: int, offset: int) -> Group | None:
        return self._answer(("group", partition, offset), lambda: next(self._reader.read(partition, offset), None))

    def _answer(self, key: tuple[str, int, int], question: Callable[[], T]) -> T:
        if key not in self._come:
            if key[1] in self.away:
                raise JournalAway("nobody answers")
            self._come[key] = question()
            while len(self._come) > self._room:
                self._come.popitem(last=False)
            raise JournalFetching("asked")
        return cast(T, self._come.pop(key))
