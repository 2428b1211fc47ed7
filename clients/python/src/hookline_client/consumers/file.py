"""Each call becomes a line of a log file, for ``hookline-upload``. Nothing is kept in memory, and no thread is made.

A call returns when its line is written: the end of the process, however it comes, loses nothing. The system brings the
file to the disk when it sees fit, so a power cut may lose the last half minute.
"""

from __future__ import annotations

import threading
from collections import deque

from hookline_client.errors import CODES
from hookline_client.ledger import Ledger
from hookline_client.log_file import LOCK_WAIT_SECONDS, LogFile
from hookline_client.options import Options
from hookline_client.receipts import Message


class File:
    """Appends messages to ``options.filename``."""

    def __init__(self, options: Options, ledger: Ledger) -> None:
        self._ledger = ledger
        self._log = LogFile(options.filename)
        self._closed = False
        self._begin()

    def _begin(self) -> None:
        # Re-entrant: a handler, a destructor or a signal may track in the middle of a call of the same thread.
        self._lock = threading.RLock()
        self._is_writing = False
        self._waiting: deque[Message] = deque()

    def enqueue(self, message: Message) -> bool:
        """Write a message to the file; False when that failed."""
        if not self._lock.acquire(timeout=LOCK_WAIT_SECONDS):
            self._ledger.dropped((message,), "file_busy", CODES["file_busy"])
            return False
        written: list[Message] = []
        failed: list[tuple[Message, str, str]] = []
        try:
            if self._closed:
                failed.append((message, "closed", CODES["closed"]))
                return False
            self._waiting.append(message)
            if self._is_writing:  # this thread is in the middle of a line already: it goes on with this one
                return True
            try:
                self._write(written, failed)
            except BaseException:  # of a signal handler: calls that it made have returned, and are lines all the same
                if self._waiting and self._waiting[0] is message:  # this one does not return, and may be a line already
                    self._waiting.popleft()
                self._write(written, failed)
                raise
        finally:
            self._lock.release()
            self._ledger.handed_over(written)
            for lost, code, reason in failed:
                self._ledger.dropped((lost,), code, reason)
        return all(lost is not message for lost, _, _ in failed)

    def flush(self, timeout: float | None) -> int:
        """Nothing ever waits."""
        return 0

    def close(self, timeout: float) -> int:
        """Close the file."""
        with self._lock:
            self._closed = True
            if not self._is_writing:  # a signal handler that closes in the middle of a line leaves that to its end
                self._log.close()
        return 0

    def before_fork(self) -> None:
        """Nothing to do: the child begins anew."""

    def after_fork_in_parent(self) -> None:
        """Nothing to undo."""

    def after_fork_in_child(self) -> None:
        """Open the file anew: the lock of an open file belongs to parent and child together."""
        self._begin()
        self._log.close()

    def _write(self, written: list[Message], failed: list[tuple[Message, str, str]]) -> None:
        waiting = self._waiting
        while waiting:  # again: a signal handler may have left one behind the last, before it was free to write itself
            self._is_writing = True
            try:
                while waiting:
                    message = waiting[0]  # it leaves once it is written: what a signal handler raises must not lose it
                    code, reason = self._append(message[1])
                    waiting.popleft()
                    if code:
                        failed.append((message, code, reason))
                    else:
                        self._ledger.queued()
                        written.append(message)
            finally:
                self._is_writing = False
        if self._closed:
            self._log.close()

    def _append(self, line: bytes) -> tuple[str, str]:
        try:
            self._log.append(line)
        except TimeoutError as error:
            return "file_busy", f"{CODES['file_busy']} ({error})"
        except OSError as error:
            return "file_failed", f"{CODES['file_failed']} ({error})"
        return "", ""
