"""A stretch of one segment in memory, read ahead in growing steps: small at the tail, large when catching up."""

from __future__ import annotations

import os

READ_BYTES_FIRST = 32 * 1024
READ_BYTES_MAX = 512 * 1024
_GROWTH = 4


class Window:
    """Reads a file front to back through one buffer that is used again and again.

    What ``get`` returns is a view of the buffer and holds until the next call. Bytes may be in the buffer from before
    the file changed: whoever asks must have known that they are final when reading began (see ``begin``).
    """

    def __init__(self) -> None:
        self._buffer = memoryview(bytearray(READ_BYTES_MAX))
        self._fd = -1
        self._base = 0
        self._filled = 0
        self._ahead_bytes = READ_BYTES_FIRST

    def begin(self, fd: int) -> None:
        """Read from this file from now on; forget what was read before."""
        self._fd = fd
        self._filled = 0
        self._ahead_bytes = READ_BYTES_FIRST

    def get(self, position: int, length: int) -> memoryview | None:
        """Return the bytes at this place, or None when the file ends before."""
        at = position - self._base
        if at < 0 or at + length > self._filled:
            self._read(position, length)
            at = 0
            if length > self._filled:
                return None
        return self._buffer[at : at + length]

    def _read(self, position: int, length: int) -> None:
        wanted = max(length, self._ahead_bytes)
        if wanted > len(self._buffer):
            self._buffer = memoryview(bytearray(wanted))
        self._ahead_bytes = min(self._ahead_bytes * _GROWTH, READ_BYTES_MAX)
        self._base = position
        self._filled = os.preadv(self._fd, [self._buffer[:wanted]], position)
