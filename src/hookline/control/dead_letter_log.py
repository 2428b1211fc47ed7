"""The dead letters as deliver stored them, newest first; read-only, deliver is their one writer."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from hookline.database.sqlite import Connection, OperationalError, connect


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One event that one destination did not get, and why."""

    id: int
    destination: str
    source: str
    type: str
    message_id: str
    partition: int
    offset: int
    fate: str
    attempts: int
    at: str
    outcome: str | None = None
    status: int | None = None
    error: str | None = None


_COLUMNS = ", ".join(f'"{name}"' for name in DeadLetter.__struct_fields__)
"""The columns are named, and ordered, as the fields."""


class DeadLetterLog:
    """Reads the table; before deliver's first start there is none, which is the same as empty."""

    def __init__(self, data_path: Path) -> None:
        self._path = data_path / "deliver.db"
        self._connection: Connection | None = None

    def newest(self, limit: int, before_id: int | None, destination: str | None) -> list[DeadLetter]:
        """At most ``limit`` dead letters older than ``before_id``, of one destination or of all."""
        connection = self._open()
        if connection is None:
            return []
        rows = connection.execute(
            f"SELECT {_COLUMNS} FROM dead_letters WHERE id < ? AND (? IS NULL OR destination = ?) "
            "ORDER BY id DESC LIMIT ?",
            (before_id or 2**62, destination, destination, limit),
        ).fetchall()
        return [_letter(row) for row in rows]

    def get(self, letter_id: int) -> DeadLetter | None:
        """The dead letter with this id, None when there is none."""
        connection = self._open()
        if connection is None:
            return None
        row = connection.execute(f"SELECT {_COLUMNS} FROM dead_letters WHERE id = ?", (letter_id,)).fetchone()
        return _letter(row) if row else None

    def close(self) -> None:
        """Close the file; idempotent."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self) -> Connection | None:
        if self._connection is None:
            try:
                self._connection = connect(self._path, read_only=True)
            except OperationalError:
                return None
        return self._connection


def iso(milliseconds: int) -> str:
    """Milliseconds since the epoch as ISO 8601 with milliseconds and Z."""
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{milliseconds % 1000:03d}Z"


def _letter(row: tuple[object, ...]) -> DeadLetter:
    values = dict(zip(DeadLetter.__struct_fields__, row, strict=True))
    values["at"] = iso(int(str(values["at"])))
    return DeadLetter(**values)  # type: ignore[arg-type]
