"""One uploader per log file at a time, whoever starts it: a lock file beside the log that stays there."""

from __future__ import annotations

import fcntl
import os

from hookline_client.trust import open_own


class InstanceLock:
    """A lock on ``path`` that ends with the process, however it ends."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file = -1

    def take(self) -> bool:
        """Take the lock and say so; False while another process has it. OSError when it cannot be tried."""
        file = open_own(self.path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        self._file = file  # never removed: a process that waits for a removed file would have a lock of its own
        return True

    def release(self) -> None:
        """Let the next one in."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)
