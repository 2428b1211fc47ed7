"""The queue of messages that wait in memory. It has no lock: its consumer holds one around every call."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from hookline_client.batch import EVENTS_BYTES_MAX
from hookline_client.receipts import Message


class MemoryQueue:
    """First in, first out; ``removed`` counts all that ever left at the head, so that positions never repeat."""

    def __init__(self, size_max: int, bytes_max: int) -> None:
        self.removed = 0
        self._messages: deque[Message] = deque()
        self._bytes = 0
        self._size_max = size_max
        self._bytes_max = bytes_max

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def end(self) -> int:
        """The position after the last message."""
        return self.removed + len(self._messages)

    def has_room(self, message: Message) -> bool:
        """Whether one more may wait. A message always has room in an empty queue."""
        waiting = len(self._messages)
        return waiting < self._size_max and (not waiting or self._bytes + len(message[1]) <= self._bytes_max)

    def append(self, message: Message) -> None:
        """Add at the end."""
        self._messages.append(message)
        self._bytes += len(message[1])

    def drop_oldest(self) -> Message:
        """Remove the first message and return it."""
        message = self._messages.popleft()
        self._left(1, len(message[1]))
        return message

    def take(self, events_max: int) -> list[Message]:
        """Remove what fits one request, from the head."""
        waiting, taken, room = self._messages, [], EVENTS_BYTES_MAX
        for _ in range(min(events_max, len(waiting))):
            size = len(waiting[0][1]) + 1
            if size > room:
                break
            room -= size
            taken.append(waiting.popleft())
        self._left(len(taken), EVENTS_BYTES_MAX - room - len(taken))
        return taken

    def put_back(self, messages: Sequence[Message]) -> None:
        """Return what was taken last to the head."""
        self._messages.extendleft(reversed(messages))
        self._left(-len(messages), -sum(len(body) for _, body in messages))

    def clear(self) -> list[Message]:
        """Remove all and return them."""
        left = list(self._messages)
        self._messages.clear()
        self._left(len(left), 0)
        return left

    def _left(self, count: int, size: int) -> None:
        self.removed += count
        # Counted anew when empty: a signal handler that appends in the middle of an addition can spoil the sum.
        self._bytes = self._bytes - size if self._messages else 0
