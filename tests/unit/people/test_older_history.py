"""A history that an older version wrote, a row per person, is the same history afterwards."""

from __future__ import annotations

from pathlib import Path
from struct import Struct

import pytest

from hookline.database.migrate import migrate_file
from hookline.database.sqlite import connect
from hookline.people.definitions.feature import Entry, Feature
from hookline.people.store import history
from hookline.people.store.people import People
from hookline.people.store.store import ProfileStore

COUNTED = Feature("track", "Order", "", "")
VALUED = Feature("track", "Order", "", "properties.total")
PEOPLE = (1, 2, 3, 500, 20_000)
"""So many, by the last number, that rows of the new form have more than one."""
OLD_ENTRY = Struct("<qQq")


def older(path: Path) -> None:
    """Make a file as version 7 left it: two chunks, and of each person two entries in each."""
    path.touch(0o600)
    file = connect(path)
    migrate_file(file, "profiles", 0, 7)
    for id, feature in enumerate((COUNTED, VALUED), 1):
        query = "INSERT INTO features (id, type, name, condition, value) VALUES (?, ?, ?, ?, ?)"
        file.execute(query, (id, *feature))
    file.executemany("INSERT INTO persons (id, first_seen) VALUES (?, 0)", [(person,) for person in PEOPLE])
    file.executemany("INSERT INTO chunks (chunk, level, entries) VALUES (?, ?, 10)", [(1, 0), (2, 1)])
    for person in PEOPLE:
        for chunk in (1, 2):
            entries = b"".join(OLD_ENTRY.pack(at, person * 10 + at, chunk) for at in (chunk, chunk + 2))
            lines = b"".join(b'"%d at %d"\n' % (person, at) for at in (chunk, chunk + 2))
            for id, values in ((1, None), (2, lines)):
                query = "INSERT INTO history (feature, chunk, person, entries, entry_values) VALUES (?, ?, ?, ?, ?)"
                file.execute(query, (id, chunk, person, entries, values))
    file.close()


def expected(person: int, has_values: bool) -> list[Entry]:
    """What a person has, by time."""
    return [
        Entry(at, person * 10 + at, (1, 2, 1, 2)[at - 1], f"{person} at {at}" if has_values else None)
        for at in (1, 2, 3, 4)
    ]


def test_everybody_has_what_they_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each person's entries of every chunk with their values, and after the chunks were put together as well."""
    monkeypatch.setattr(history, "FAN_IN", 1)
    older(tmp_path / "profiles.db")
    store = ProfileStore(tmp_path / "profiles.db")
    people = People(store.connection)
    query = "SELECT count(*), count(DISTINCT bucket) FROM history"
    rows, buckets = store.connection.execute(query).fetchone()
    assert buckets < len(PEOPLE)
    assert rows == buckets * 4
    for _ in range(2):
        for person in PEOPLE:
            assert people.person(person).entries(COUNTED) == expected(person, has_values=False)
            assert people.person(person).entries(VALUED) == expected(person, has_values=True)
        while store.chunks.put_together():
            pass
    assert store.connection.execute("SELECT 1 FROM sqlite_schema WHERE name LIKE '%of_persons%'").fetchone() is None
    store.close()
