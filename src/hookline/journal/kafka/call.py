"""One append that waits for brokers: how many of its records are unconfirmed, and whom to tell."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from confluent_kafka import KafkaError, Message

from hookline.journal.port import JournalError

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
