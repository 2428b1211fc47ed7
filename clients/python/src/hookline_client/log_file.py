"""A log file that many processes append whole lines to, while an uploader may take it away by rename.

The rules that keep every line whole and none lost; whoever appends follows them all:

1. Appending happens under an exclusive ``flock`` of the open file, and only while the path still names that file.
2. Whoever takes the file away renames it first and then waits for the same lock. A writer that checked the path before
   the rename holds the lock until its line is written; one that checks it afterwards opens the new file. So once the
   taker had the lock, nobody writes to what it took.
3. A line is one ``write``. What a full disk cut off is taken back before the lock is released; what a killed process
   left behind is closed with a line end by the next writer. Either way no line is glued to another's rest.

The lock is held for one write. A process that is stopped in just that moment delays the others by at most
``LOCK_WAIT_SECONDS``, once per ``LOCK_PAUSE_SECONDS``: then they give up at once until it goes on.
"""

from __future__ import annotations

import errno
import os
import time

from hookline_client.trust import check_log

try:
    import fcntl
except ImportError:  # not a POSIX system: opening says so
    fcntl = None  # type: ignore[assignment]

MODE = 0o600
LOCK_WAIT_SECONDS = 1.0
LOCK_PAUSE_SECONDS = 1.0
LOCK_POLL_FIRST_SECONDS = 0.00005
LOCK_POLL_MAX_SECONDS = 0.005
REOPENS_MAX = 20
"""How often in one call the file may have been taken away between opening and locking it."""


class LogFile:
    """Appends lines to the file at ``path``. Safe with any number of processes; in one process one thread at a time."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file = -1
        self._identity = (0, 0)
        self._own_end_bytes = -1
        self._busy_until = 0.0

    def append(self, line: bytes) -> None:
        """Append ``line`` and a line end in one write. OSError when it is not written; then none of it is there.

        TimeoutError when another process kept the file locked for ``LOCK_WAIT_SECONDS``.
        """
        try:
            self._write(line, self._open_locked())
        finally:
            if self._file >= 0:  # whatever happened, an exception out of a signal handler included
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file; a later append opens it again. A child after fork lets go of its parent's lock like this."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def _open_locked(self) -> int:
        now = time.monotonic()
        deadline = now if now < self._busy_until else now + LOCK_WAIT_SECONDS
        for _ in range(REOPENS_MAX):
            if self._file < 0:
                self._open()
            self._wait_for_lock(deadline)
            named = _status(self.path)
            if named is not None and (named.st_dev, named.st_ino) == self._identity:
                return named.st_size
            self.close()  # which also releases the lock
        raise OSError(errno.EBUSY, "the log file is replaced all the time", self.path)

    def _open(self) -> None:
        if fcntl is None:
            raise OSError(errno.ENOSYS, "log files need a POSIX system", self.path)
        # O_NONBLOCK: a pipe at the path must not hang the caller. O_NOFOLLOW: nor may a link lead elsewhere.
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        file = os.open(self.path, flags, MODE)
        status = os.fstat(file)
        try:
            check_log(status, self.path)
        except OSError:
            os.close(file)
            raise
        self._file = file
        self._identity = (status.st_dev, status.st_ino)
        self._own_end_bytes = -1

    def _wait_for_lock(self, deadline: float) -> None:
        pause_seconds = LOCK_POLL_FIRST_SECONDS
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    self._busy_until = time.monotonic() + LOCK_PAUSE_SECONDS
                    raise TimeoutError(errno.ETIMEDOUT, "another process holds the log file", self.path) from None
            time.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, LOCK_POLL_MAX_SECONDS)

    def _write(self, line: bytes, size_bytes: int) -> None:
        data = line + b"\n"
        # Where our own last line ended nothing can be torn; else somebody wrote since, and may have been killed at it.
        if size_bytes and size_bytes != self._own_end_bytes and os.pread(self._file, 1, size_bytes - 1) != b"\n":
            data = b"\n" + data
        written_bytes = 0
        try:
            while written_bytes < len(data):  # a second turn only after a short write: to learn why it was short
                written_bytes += os.write(self._file, data[written_bytes:])
        except OSError:
            self._own_end_bytes = -1
            if written_bytes and os.fstat(self._file).st_size == size_bytes + written_bytes:
                os.ftruncate(self._file, size_bytes)
            raise
        self._own_end_bytes = size_bytes + written_bytes


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return None
