"""One connection to a database that several stores and threads share, one statement or transaction at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from hookline.database.connect import connect
from hookline.database.connection import Connection
from hookline.database.location import DatabaseLocation
from hookline.database.sqlite import OperationalError
from hookline.telemetry.log import logger

ResultT = TypeVar("ResultT")


class Shared:
    """Rows are read and transactions run under one lock; none may begin inside another."""

    def __init__(self, location: DatabaseLocation) -> None:
        self._connection = connect(location)
        self._lock = threading.Lock()

    def rows(self, query: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Return every row of a query."""
        with self._lock:
            return self._connection.execute(query, values).fetchall()

    def row(self, query: str, values: tuple[Any, ...] = ()) -> tuple[Any, ...] | None:
        """Return the first row of a query, None when it has none."""
        found = self.rows(query, values)
        return found[0] if found else None

    def read(self, work: Callable[[Connection], ResultT]) -> ResultT:
        """Do something that reads with the connection."""
        with self._lock:
            return work(self._connection)

    @contextmanager
    def transaction(self) -> Iterator[Callable[..., Any]]:
        """What runs statements in one transaction; an exception undoes them all."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection.execute
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def note(self, *statements: tuple[str, tuple[Any, ...]]) -> bool:
        """Write what may get lost, in one transaction; False when the disk refuses, which is no reason to fail."""
        try:
            with self.transaction() as execute:
                for statement, values in statements:
                    execute(statement, values)
        except OperationalError as error:
            logger().warning("note_not_written", reason=str(error))
            return False
        return True

    def close(self) -> None:
        """Let go of the file; idempotent."""
        with self._lock:
            self._connection.close()
