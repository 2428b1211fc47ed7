"""Reads a spool's file, which may be growing: lines count once their end is there."""

from __future__ import annotations

import os

READ_BYTES = 512 * 1024


class SegmentReader:
    """Reads whole lines of an open file, which it closes."""

    def __init__(self, file: int) -> None:
        self._file = file

    def read(self, offset_bytes: int, lines_max: int, bytes_max: int) -> list[bytes]:
        """Return lines from an offset on, without their ends: within the limits, but one if there is one."""
        lines: list[bytes] = []
        total_bytes, rest = 0, b""
        while chunk := os.pread(self._file, READ_BYTES, offset_bytes):
            offset_bytes += len(chunk)
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                total_bytes += len(line) + 1
                if lines and (total_bytes > bytes_max or len(lines) == lines_max):
                    return lines
                lines.append(line)
        return lines

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)
