"""Appends that wait for brokers, and whose turn it is in each partition: records wait here while the client has others
of theirs to deliver.

An idempotent client keeps no more than five messages of a partition unconfirmed beside the request that is under way,
and its threads spin while more are due. So it is given the next ones when the last are confirmed, all at once: a
request holds what has gathered meanwhile, as a local journal's group does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from confluent_kafka import KafkaError, Message

from hookline.journal.port import JournalError
from hookline.journal.record import Record

Settled = Callable[["Call", KafkaError | None, Message], None]


class Call:
    """``left`` records, or calls it follows, stand between it and its answer."""

    __slots__ = ("_done", "_settled", "error", "followers", "left", "size_bytes")

    def __init__(self, done: Callable[[BaseException | None], None], size_bytes: int, settled: Settled) -> None:
        self.left = 0
        self.error: JournalError | None = None
        self.size_bytes = size_bytes
        self.followers: list[Call] = []
        self._done = done
        self._settled = settled

    def follow(self, calls: Iterable[Call]) -> None:
        """Be answered after these."""
        for call in calls:
            call.followers.append(self)
            self.left += 1

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        """What became of one record."""
        self.left -= 1
        self._settled(self, error, message)

    def answer(self) -> None:
        """Tell the caller."""
        try:
            self._done(self.error)
        except Exception as raised:  # noqa: BLE001 - one caller's callback must not drop the others' answers
            context = {"message": "a journal append's callback raised", "exception": raised}
            asyncio.get_running_loop().call_exception_handler(context)


TURN_BYTES = 1024 * 1024
"""What a partition's turn may hold; never more than one request does."""


class Waiting(NamedTuple):
    """One record, encoded, and the append that it is of."""

    call: Call
    record: Record
    value: bytes


class Turns:
    """Records in the order in which they came, by partition."""

    def __init__(self) -> None:
        self._waiting: dict[int, deque[Waiting]] = {}

    def add(self, partition: int, waiting: Waiting) -> None:
        """Have a record wait behind those of its partition."""
        self._waiting.setdefault(partition, deque()).append(waiting)

    def partitions(self) -> list[int]:
        """Those that something waits for."""
        return list(self._waiting)

    def take(self, partition: int, bytes_max: int = TURN_BYTES) -> list[Waiting]:
        """Return the partition's next turn: at least one record where any waits."""
        waiting = self._waiting.get(partition)
        taken: list[Waiting] = []
        size = 0
        while waiting and (not taken or size + len(waiting[0].value) <= bytes_max):
            taken.append(waiting.popleft())
            size += len(taken[-1].value)
        if not waiting:
            self._waiting.pop(partition, None)
        return taken

    def take_all(self, partition: int) -> list[Waiting]:
        """Everything that waits for the partition."""
        return list(self._waiting.pop(partition, ()))
