"""Another role's database, opened when it is there and only for reading."""

from __future__ import annotations

from pathlib import Path

from hookline.database.sqlite import Connection, OperationalError, connect


class ReadOnly:
    """One connection, opened at the first use after the file was made."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: Connection | None = None

    def open(self) -> Connection | None:
        """The connection, None while there is no file."""
        if self._connection is None:
            try:
                self._connection = connect(self._path, read_only=True)
            except OperationalError:
                return None
        return self._connection

    def close(self) -> None:
        """Close it; idempotent."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
