"""``privacy.db`` for its one writer, control: what was deleted in it leaves no trace in the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hookline.database.open import ensure
from hookline.database.shared import Shared


class PrivacyStore:
    """The shared connection, for whoever keeps a table of it."""

    def __init__(self, data_path: Path) -> None:
        path = data_path / "privacy.db"
        ensure(path, "privacy")
        self.database = Shared(path)
        self.database.read(lambda connection: connection.execute("PRAGMA secure_delete = ON").fetchall())

    @contextmanager
    def change(self, name: str) -> Iterator[Callable[..., Any]]:
        """A transaction that readers of the thing with this name learn of."""
        with self.database.transaction() as execute:
            yield execute
            execute(
                "INSERT INTO privacy_changes (name, next) VALUES (?, 1)"
                " ON CONFLICT (name) DO UPDATE SET next = next + 1",
                (name,),
            )

    def empty_log(self) -> None:
        """Bring the write-ahead log into the file and cut it: deleted rows stand there still."""
        self.database.read(lambda connection: connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall())

    def close(self) -> None:
        """Let go of the file; idempotent."""
        self.database.close()
