"""The thread that brings a spool to the disk in time, also while the thread that sends waits for an answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

SYNC_SECONDS = 1.0
"""Events that are not acknowledged after this long are brought to the disk."""


class Syncer:
    """Calls ``sync`` a second after ``wrote``, unless ``is_needed`` says that nothing waits any more.

    The thread is a daemon and begins with the first ``wrote``. ``sync`` must not raise.
    """

    def __init__(self, sync: Callable[[], object], is_needed: Callable[[], bool]) -> None:
        self._sync = sync
        self._is_needed = is_needed
        self._due = threading.Condition()  # re-entrant, as the locks of all consumers
        self._thread: threading.Thread | None = None
        self._at: float | None = None
        self._is_ended = False

    def wrote(self) -> None:
        """Something was written: it is on the disk or acknowledged ``SYNC_SECONDS`` from now."""
        if self._at is not None:
            return
        with self._due:
            if self._thread is None and not self._start():
                return
            self._at = time.monotonic() + SYNC_SECONDS
            self._due.notify()

    def end(self) -> None:
        """Let the thread end; what was written last is left to whoever closes the spool."""
        with self._due:
            self._is_ended = True
            self._due.notify()

    def _start(self) -> bool:
        thread = threading.Thread(target=self._run, name="hookline-client-sync", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the interpreter is ending, which closes the spool, or the next call tries again
            return False
        self._thread = self._thread or thread
        return True

    def _run(self) -> None:
        with self._due:
            self._thread = self._thread or threading.current_thread()
            if self._thread is not threading.current_thread():
                return  # a signal handler's call came in the middle of the start, and started another one
        while True:
            with self._due:
                while not self._is_ended:
                    left = None if self._at is None else self._at - time.monotonic()
                    if left is not None and left <= 0:
                        break
                    self._due.wait(left)
                if self._is_ended:
                    return
                self._at = None  # first, so that what is written from now on is due again
            if self._is_needed():
                self._sync()
