"""Answers kept for questions that repeat, bounded by their bytes: what strangers may ask is as long as they like."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from typing import TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)
ValueT = TypeVar("ValueT")

ENTRY_BYTES = 104
"""What an entry of a dictionary takes beside key and value, at its emptiest."""


class Remembered(dict[KeyT, ValueT]):
    """A dictionary that finds what it does not hold; once it holds ``bytes_max``, all is forgotten and asked anew.

    Of answers that take more than ``entry_bytes_max`` with their keys the last is held beside: what is long and comes
    again often comes at once. A look-up of what is held is a dictionary's own. ``key_bytes`` and ``value_bytes`` say
    what they take, where that is not the object itself.
    """

    __slots__ = ("_bytes_max", "_entry_bytes_max", "_find", "_key_bytes", "_last", "_value_bytes", "held_bytes")

    def __init__(
        self,
        find: Callable[[KeyT], ValueT],
        bytes_max: int,
        entry_bytes_max: int | None = None,
        value_bytes: Callable[[ValueT], int] = sys.getsizeof,
        key_bytes: Callable[[KeyT], int] = sys.getsizeof,
    ) -> None:
        super().__init__()
        self._find = find
        self._bytes_max = bytes_max
        self._entry_bytes_max = min(bytes_max, entry_bytes_max or bytes_max)
        self._value_bytes = value_bytes
        self._key_bytes = key_bytes
        self._last: tuple[KeyT, ValueT] | None = None
        self.held_bytes = 0

    def __missing__(self, key: KeyT) -> ValueT:
        last = self._last
        if last is not None and last[0] == key:
            return last[1]
        value = self._find(key)
        entry_bytes = ENTRY_BYTES + self._key_bytes(key) + self._value_bytes(value)
        if entry_bytes <= self._entry_bytes_max:
            if self.held_bytes + entry_bytes > self._bytes_max:
                self.clear()
            self.held_bytes += entry_bytes
            self[key] = value
        else:
            self._last = key, value
        return value

    def clear(self) -> None:
        """Forget everything."""
        super().clear()
        self._last = None
        self.held_bytes = 0
