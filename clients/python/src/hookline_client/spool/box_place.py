"""Up to where the events of a box are acknowledged, in a file that is overwritten in place.

It is not brought to the disk: a place that is older than it was only repeats events. It is written once when the box is
made, so that later there is room for it on a full disk too.
"""

from __future__ import annotations

import os
import zlib

MODE = 0o600


class BoxPlace:
    """The place at ``path``: ``number`` of the segment and ``offset_bytes`` in it."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, MODE)
        self.number, self.offset_bytes = _parse(os.pread(self._file, 64, 0))

    def write(self, number: int, offset_bytes: int) -> None:
        """Move the place. OSError when the disk does not take it; in this process it has moved all the same."""
        self.number, self.offset_bytes = number, offset_bytes
        fields = b"%010d %012d" % (number, offset_bytes)
        os.pwrite(self._file, b"%s %08x\n" % (fields, zlib.crc32(fields)), 0)

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)


def _parse(record: bytes) -> tuple[int, int]:
    fields, _, check = record.strip().rpartition(b" ")
    if check != b"%08x" % zlib.crc32(fields):
        return 0, 0  # never written, or damaged: everything that is there is sent again
    number, offset_bytes = fields.split()
    return int(number), int(offset_bytes)
