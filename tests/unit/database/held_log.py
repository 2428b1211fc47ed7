"""A reader that keeps a write-ahead log from being emptied."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from hookline.database.connect import connect
from hookline.database.connection import Connection


@contextmanager
def held_log(path: Path, *read: Callable[[Callable[[Connection], Any]], Any]) -> Iterator[None]:
    """Read a file all the while. What gives its writers' connections by ``read`` does not wait for the reader."""
    for each in read:
        each(lambda connection: connection.execute("PRAGMA busy_timeout = 0").fetchall())
    with closing(connect(path, read_only=True)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM sqlite_master").fetchall()
        yield
