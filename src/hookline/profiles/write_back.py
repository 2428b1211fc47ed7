"""Brings the write-ahead log of ``profiles.db`` into the file on a thread, while the next batch is read and nobody
writes: most of it is waiting for the disk, and a commit would do it with everybody waiting. PostgreSQL does so itself.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress

from hookline.database.connect import connect
from hookline.database.connection import Connection
from hookline.database.place import Place, Schema
from hookline.database.sqlite import engine

LOG_PAGES = 4_000
"""Of the log before it is written back: in large steps, for the same pages change again and again; not in larger ones,
for collect waits for the disk meanwhile."""


class WriteBack:
    """Used from the thread of the one writer, which waits for it before it writes a batch; so the log begins anew."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._threads: ThreadPoolExecutor | None = None
        self._running: Future[None] | None = None

    def begin(self, connection: Connection) -> None:
        """Begin once the log is long enough; no transaction is open."""
        if isinstance(self._place, Schema):
            return
        _, log, written = connection.execute("PRAGMA wal_checkpoint(NOOP)").fetchone()
        if log - written >= LOG_PAGES:
            self._threads = self._threads or ThreadPoolExecutor(1, thread_name_prefix="profiles-write-back")
            self._running = self._threads.submit(self._run)

    def wait(self) -> None:
        """Wait until it is done."""
        if self._running is not None:
            self._running.result()
            self._running = None

    def close(self) -> None:
        """Let go of the thread; idempotent."""
        self.wait()
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None

    def _run(self) -> None:
        # What fails is tried again after the next batch, and by commits themselves where the log grows on.
        with suppress(engine.Error), closing(connect(self._place, synchronous="NORMAL")) as connection:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
