"""One open event stream: its short queue, where it begins, and the form of what it is sent (server-sent events)."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from hookline.journal.record import Record

QUEUE_MESSAGES_MAX = 100
LAST_EVENT_ID_CHARACTERS_MAX = 20_000

_POSITION = re.compile(r"(?:^|,)(\d{1,5}):(-1|\d{1,18})(?=,|\Z)")


class Message(NamedTuple):
    """One message; ``place`` is that of a new event, ``events`` how many new events it stands for."""

    data: bytes
    place: tuple[int, int] | None = None
    events: int = 0


class Watcher:
    """The queue of one stream. Events below ``starts`` (by partition) it was told when it began; of the others it is
    told those that it ``wants``."""

    def __init__(self, wants: Callable[[Record], bool] = lambda _: True) -> None:
        self.wants = wants
        self.starts: dict[int, int] = {}
        self.ended = False
        self._missed = 0
        self._queue: deque[Message] = deque()
        self._filled = asyncio.Event()

    def put(self, message: Message) -> None:
        """Take a message; when there is no room the oldest goes, and is counted."""
        if len(self._queue) >= QUEUE_MESSAGES_MAX:
            self._missed += self._queue.popleft().events
        self._queue.append(message)
        self._filled.set()

    def end(self) -> None:
        """Nothing more will come."""
        self.ended = True
        self._filled.set()

    async def next(self, seconds: float) -> bytes:
        """Wait for the next message, before it how many events were missed; raise TimeoutError when none comes."""
        async with asyncio.timeout(seconds):
            while not self.ended:
                if self._missed:
                    missed, self._missed = self._missed, 0
                    return skipped(missed).data
                while self._queue:
                    message = self._queue.popleft()
                    if not self._was_told(message):
                        return message.data
                self._filled.clear()
                await self._filled.wait()
        return b""

    def _was_told(self, message: Message) -> bool:
        return message.place is not None and message.place[1] < self.starts.get(message.place[0], 0)


def message_of(kind: str, message_id: str, data: bytes) -> Message:
    """Return a message of a kind; only those of new events have an id, since only they move a watcher on."""
    # A caller's JSON may be written over several lines; between its tokens only, so a blank does as well.
    line = data.replace(b"\n", b" ").replace(b"\r", b" ")
    named = f"id: {message_id}\n" if message_id else ""
    return Message(f"event: {kind}\n{named}data: ".encode() + line + b"\n\n")


def skipped(count: int) -> Message:
    """Return the message that so many events were left out."""
    return message_of("skipped", "", b'{"count":%d}' % count)._replace(events=count)


def positions_after(last_event_id: str) -> dict[int, int]:
    """Return the offsets to go on from: one past ``partition:offset``, for each partition that the id names."""
    named = _POSITION.findall(last_event_id[:LAST_EVENT_ID_CHARACTERS_MAX])
    return {int(partition): int(offset) + 1 for partition, offset in named}
