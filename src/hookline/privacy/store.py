"""The privacy database for its one writer, control: what was deleted in it leaves no trace in the file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hookline.database.connect import empty_log, overwrite_deleted
from hookline.database.location import DatabaseLocation
from hookline.database.open import ensure
from hookline.database.shared import Shared


class PrivacyStore:
    """The shared connection, for whoever keeps a table of it."""

    def __init__(self, location: DatabaseLocation) -> None:
        ensure(location, "privacy")
        self.database = Shared(location)
        self.database.read(overwrite_deleted)

    @contextmanager
    def change(self, name: str) -> Iterator[Callable[..., Any]]:
        """A transaction that readers of the thing with this name learn of."""
        with self.database.transaction() as execute:
            yield execute
            # The clock, not a count: a database that went back in time does not have the last numbers, and whoever
            # has seen one of them would take it for what was read already.
            execute(
                "INSERT INTO privacy_changes (name, next) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET next ="
                " CASE WHEN privacy_changes.next < excluded.next THEN excluded.next ELSE privacy_changes.next + 1 END",
                (name, time.time_ns() // 1_000_000),
            )

    def empty_log(self) -> None:
        """Bring the write-ahead log into the file and cut it: deleted rows stand there still."""
        self.database.read(empty_log)

    def close(self) -> None:
        """Let go of the file; idempotent."""
        self.database.close()
