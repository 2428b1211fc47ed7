"""Whose turn it is in each partition: records wait here while the client has others of theirs to deliver.

An idempotent client keeps no more than five messages of a partition unconfirmed beside the request that is under way,
and its threads spin while more are due. So it is given the next ones when the last are confirmed, all at once: a
request holds what has gathered meanwhile, as a local journal's group does.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from hookline.journal.kafka.call import Call
from hookline.journal.record import Record

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
