"""The file of a spool that is being written: whole lines or nothing."""

from __future__ import annotations

import os

MODE = 0o600


class Segment:
    """Appends to a new file at ``path``, which has one writer. ``end_bytes`` is behind its last whole line."""

    def __init__(self, path: str) -> None:
        self.end_bytes = 0
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._file = os.open(path, flags, MODE)

    def append(self, line: bytes) -> None:
        """Append a line in one write. OSError when it is not written; then none of it is there."""
        data = line + b"\n"
        written_bytes = 0
        try:
            while written_bytes < len(data):  # a second turn only after a short write: to learn why it was short
                written_bytes += os.write(self._file, data[written_bytes:])
        except OSError:
            if written_bytes:  # not to end_bytes: a call that this one interrupts, as a signal does, may be behind that
                os.ftruncate(self._file, os.fstat(self._file).st_size - written_bytes)
            raise
        self.end_bytes += len(data)

    def copy(self) -> int:
        """The open file once more, to read from."""
        return os.dup(self._file)

    def close(self) -> None:
        """Close it; it stays on disk."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)
