"""How much room a database takes."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from hookline.database.connect import connect
from hookline.database.location import DatabaseLocation

BLOCK_BYTES = 512
"""What the system counts in."""

_OF_SCHEMA = (
    "SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class WHERE relkind = 'r'"
    " AND relnamespace = to_regnamespace(current_schema())"
)


def bytes_taken(location: DatabaseLocation) -> int:
    """Return what it takes of a disk: of a file also its log, of a schema its tables with their indexes; 0 when it is
    not there. Raise OperationalError when PostgreSQL cannot be asked."""
    if isinstance(location, Path):
        return sum(_of_file(location.with_name(location.name + suffix)) for suffix in ("", "-wal", "-shm"))
    with closing(connect(location, read_only=True)) as connection:
        ((taken,),) = connection.execute(_OF_SCHEMA).fetchall()
        return int(taken)


def _of_file(path: Path) -> int:
    try:
        return path.stat().st_blocks * BLOCK_BYTES
    except OSError:
        return 0
