"""Another role's database, opened when it is there and only for reading."""

from __future__ import annotations

from pathlib import Path

from hookline.database.connect import connect
from hookline.database.connection import Connection
from hookline.database.open import schema_number
from hookline.database.place import Place
from hookline.database.sqlite import DatabaseAway, OperationalError


class ReadOnly:
    """One connection, opened at the first use after the database was made."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._connection: Connection | None = None

    def open(self) -> Connection | None:
        """The connection, None while there is no such database; raise DatabaseAway while that cannot be told."""
        if self._connection is None:
            try:
                connection = connect(self._place, read_only=True)
            except DatabaseAway:
                raise
            except OperationalError:
                return None
            try:
                is_there = isinstance(self._place, Path) or schema_number(connection, self._place.which) is not None
            except BaseException:
                connection.close()
                raise
            if not is_there:
                connection.close()
                return None
            self._connection = connection
        return self._connection

    def close(self) -> None:
        """Close it; idempotent."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
