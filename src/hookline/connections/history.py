"""Reading the configured objects as rows: everything at a version, or what changed between two versions.

A row never changes but for its ``until`` being set and old secrets being removed, and a version is committed as a
whole, so what was in force at a committed version can be read with many short statements: no long read transaction
holds back the write-ahead log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from hookline.database.connection import Connection

Kind = Literal["source", "destination", "audience", "computedTrait", "notification"]
KINDS: tuple[Kind, ...] = ("source", "destination", "audience", "computedTrait", "notification")
"""In the order in which objects come to be: each may name those before it."""
ROUTED_KINDS: tuple[Kind, ...] = ("source", "destination")
"""What an event's way depends on."""
WORDS: dict[Kind, str] = {
    "source": "source",
    "destination": "destination",
    "audience": "audience",
    "computedTrait": "computed trait",
    "notification": "notification",
}

PAGE_ROWS = 1_000
_COLUMNS = "kind, id, since, until, document, owner, lane"


class Row(NamedTuple):
    """One object as it was for the versions ``[since, until)``; ``lane`` and ``document`` are JSON."""

    kind: Kind
    id: str
    since: int
    until: int | None
    document: str
    owner: str | None
    lane: str | None


class Version(NamedTuple):
    """A version, and when it was made (ms): after a database went back, a number may come again for something else."""

    number: int = 0
    at_ms: int = 0


def newest_version(connection: Connection) -> Version:
    """Return the version in force; 0 before the first change."""
    row = connection.execute("SELECT version, at FROM versions ORDER BY version DESC LIMIT 1").fetchone()
    return Version(*row) if row else Version()


def has_version(connection: Connection, version: Version) -> bool:
    """Return whether this very version was ever in force."""
    return connection.execute("SELECT 1 FROM versions WHERE version = ? AND at = ?", version).fetchone() is not None


def rows_at(connection: Connection, version: int, kinds: Sequence[Kind] = KINDS) -> Iterator[Row]:
    """Yield the rows in force at ``version``; one may come twice, unchanged, while a writer works."""
    for kind in kinds:
        after = ""
        while page := _open_rows(connection, kind, after):
            after = page[-1].id
            yield from (row for row in page if row.since <= version)
    # After the open ones: a row that is closed meanwhile is found here.
    yield from _closed_rows(connection, version, kinds)


def rows_between(
    connection: Connection, after: int, until: int, kinds: Sequence[Kind] = KINDS
) -> tuple[list[Row], list[Row]]:
    """Return the rows that left and the rows that came between two versions, as seen at the later one."""
    marks = ",".join("?" * len(kinds))
    left = connection.execute(
        f"SELECT {_COLUMNS} FROM objects WHERE until > ? AND until <= ? AND since <= ? AND kind IN ({marks})",
        (after, until, after, *kinds),
    ).fetchall()
    came = connection.execute(
        f"SELECT {_COLUMNS} FROM objects WHERE since > ? AND since <= ? AND (until IS NULL OR until > ?)"
        f" AND kind IN ({marks})",
        (after, until, until, *kinds),
    ).fetchall()
    return [Row(*row) for row in left], [Row(*row) for row in came]


def ended_after(connection: Connection, version: int, kinds: Sequence[Kind]) -> list[Row]:
    """Return the rows that were in force at ``version`` or later and are not any more."""
    marks = ",".join("?" * len(kinds))
    found = connection.execute(
        f"SELECT {_COLUMNS} FROM objects WHERE until > ? AND kind IN ({marks})", (version, *kinds)
    ).fetchall()
    return [Row(*row) for row in found]


def made_in(connection: Connection, kinds: Sequence[Kind]) -> dict[tuple[Kind, str], int]:
    """Return the version in which each object that there is or was has been made, by kind and id; of one that was
    deleted and made again, the last of these."""
    # A change closes a row in the version that opens the next one: behind a gap the object was made again.
    marks = ",".join("?" * len(kinds))
    rows = connection.execute(
        "SELECT kind, id, max(since) FROM (SELECT kind, id, since,"
        " lag(until) OVER (PARTITION BY kind, id ORDER BY since) AS until_before"
        f" FROM objects WHERE kind IN ({marks})) AS each_one"
        " WHERE until_before IS NULL OR until_before < since GROUP BY kind, id",
        tuple(kinds),
    )
    return {(kind, id): since for kind, id, since in rows}


def _open_rows(connection: Connection, kind: Kind, after: str) -> list[Row]:
    found = connection.execute(
        f"SELECT {_COLUMNS} FROM objects INDEXED BY objects_in_force"
        " WHERE until IS NULL AND kind = ? AND id > ? ORDER BY id LIMIT ?",
        (kind, after, PAGE_ROWS),
    ).fetchall()
    return [Row(*row) for row in found]


def _closed_rows(connection: Connection, version: int, kinds: Sequence[Kind]) -> list[Row]:
    marks = ",".join("?" * len(kinds))
    found = connection.execute(
        f"SELECT {_COLUMNS} FROM objects WHERE until > ? AND since <= ? AND kind IN ({marks})",
        (version, version, *kinds),
    ).fetchall()
    return [Row(*row) for row in found]
