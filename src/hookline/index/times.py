"""Between which two times the records of a range were received, kept per span of offsets instead of per record."""

from __future__ import annotations

from array import array

SPAN_RECORDS = 1024
"""Offsets that share one pair of times; a format constant of sealed runs."""

_NEVER = 2**63 - 1


class Times:
    """The earliest and the latest ``received_at`` of each span of offsets from ``first_offset`` on."""

    __slots__ = ("_highs", "_lows", "first_offset")

    def __init__(self, first_offset: int, lows: array[int] | None = None, highs: array[int] | None = None) -> None:
        self.first_offset = first_offset
        self._lows = array("q") if lows is None else lows
        self._highs = array("q") if highs is None else highs

    def cover(self, offset: int, next_offset: int, low: int, high: int) -> None:
        """Note that the records in ``[offset, next_offset)`` were received between ``low`` and ``high``."""
        last = (next_offset - 1 - self.first_offset) // SPAN_RECORDS
        while len(self._lows) <= last:
            self._lows.append(_NEVER)
            self._highs.append(-_NEVER)
        for span in range((offset - self.first_offset) // SPAN_RECORDS, last + 1):
            self._lows[span] = min(self._lows[span], low)
            self._highs[span] = max(self._highs[span], high)

    def within(self, offset: int, received_at: int, window_ms: int) -> bool | None:
        """Return whether the record at ``offset`` was received at most the window before; None when only it can
        tell."""
        span = (offset - self.first_offset) // SPAN_RECORDS
        if not 0 <= span < len(self._lows) or self._lows[span] == _NEVER:
            return None
        if received_at - self._lows[span] <= window_ms:
            return True
        return False if received_at - self._highs[span] > window_ms else None

    @property
    def low(self) -> int | None:
        """Return the earliest time of all, None when there is none."""
        return min(self._lows) if self._lows else None

    @property
    def high(self) -> int | None:
        """Return the latest time of all, None when there is none."""
        return max(self._highs) if self._highs else None

    def __len__(self) -> int:
        return len(self._lows)

    def to_bytes(self) -> bytes:
        """Write all spans: the early times, then the late ones, 8 bytes each, little-endian."""
        return _little_endian(self._lows).tobytes() + _little_endian(self._highs).tobytes()

    @classmethod
    def from_bytes(cls, first_offset: int, data: bytes) -> Times:
        """Read what ``to_bytes`` wrote."""
        lows, highs = array("q"), array("q")
        lows.frombytes(data[: len(data) // 2])
        highs.frombytes(data[len(data) // 2 :])
        return cls(first_offset, _little_endian(lows), _little_endian(highs))


def _little_endian(values: array[int]) -> array[int]:
    from sys import byteorder

    if byteorder == "big":
        values = array("q", values)
        values.byteswap()
    return values
