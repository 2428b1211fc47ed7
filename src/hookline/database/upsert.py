"""Writing a row over the one that has its key: the statement that SQLite and PostgreSQL share."""

from __future__ import annotations

from collections.abc import Sequence


def replacing(table: str, key: Sequence[str], others: Sequence[str]) -> str:
    """Return a statement that takes the values of ``key`` and ``others``, and replaces those of a row that is there."""
    columns = (*key, *others)
    values = ", ".join("?" * len(columns))
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values}) {overwriting(key, others)}"


def overwriting(key: Sequence[str], others: Sequence[str]) -> str:
    """Return the clause of an ``INSERT`` that replaces ``others`` of a row that has the key."""
    sets = ", ".join(f"{column} = excluded.{column}" for column in others)
    return f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET {sets}"
