"""Traits that are many or long: a step takes few of them into memory at a time, and people are the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from hookline.people import slice
from hookline.people.ingest import extraction
from hookline.people.ingest.ingest import Ingest
from hookline.people.store import traits
from hookline.people.store.people import People
from hookline.people.store.store import ProfileStore
from tests.unit.conftest import LocationOf
from tests.unit.people.memory_journal import MemoryJournal, record
from tests.unit.people.test_sync_model import READY

USERS = [f"u{number}" for number in range(8)]
MANY = {f"t{number}": number for number in range(100)}


@pytest.fixture
def store(location_of: LocationOf) -> ProfileStore:
    """An empty store."""
    return ProfileStore(location_of("profiles"))


@pytest.fixture
def journal() -> MemoryJournal:
    """A journal in which each of some users has many traits and a group, a group of records each."""
    found = MemoryJournal()
    for user in USERS:
        found.append(
            record("identify", f"i-{user}", userId=user, traits=MANY),
            record("group", f"g-{user}", userId=user, groupId=f"of-{user}", traits=MANY),
        )
    return found


def read_all(journal: MemoryJournal, store: ProfileStore) -> None:
    """Apply the whole journal."""
    reading = Ingest(journal, store)
    while reading.step():
        pass


def test_a_batch_ends_early_where_records_say_much(
    journal: MemoryJournal, store: ProfileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is written with its position, and the next one goes on behind it."""
    monkeypatch.setattr(extraction, "BYTES_PER_TURN", 1)
    reading, ends = Ingest(journal, store), []
    while reading.step():
        ends.append(store.positions()[0].next_offset)
    assert ends == [group.next_offset for group in journal.groups]


def test_traits_are_folded_for_few_people_at_a_time(
    journal: MemoryJournal, store: ProfileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CHUNK_ROWS", "FAN_IN", "BYTES_PER_STEP"):
        monkeypatch.setattr(traits, name, 1)
    read_all(journal, store)
    folded = "SELECT count(*) FROM persons WHERE traits IS NOT NULL"
    for number in range(len(USERS)):
        assert store.connection.execute(folded).fetchall() == [(number,)]
        assert store.trait_chunks.fold()
    assert store.connection.execute(folded).fetchall() == [(len(USERS),)]


def test_traits_that_come_are_merged_with_those_of_few_people_at_a_time(
    journal: MemoryJournal, store: ProfileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of people and of groups, and nothing else changes."""
    monkeypatch.setattr(traits, "BYTES_PER_STEP", 10_000)
    read_all(journal, store)
    loaded: list[int] = []
    many = store.many

    def counted(query: str, keys: Iterable[Any], behind: str = "") -> Iterator[tuple[Any, ...]]:
        rows = list(many(query, keys, behind))
        loaded.append(sum(len(value) for row in rows for value in row if isinstance(value, bytes)))
        yield from rows

    monkeypatch.setattr(store, "many", counted)
    for user in USERS:
        journal.append(
            record("identify", f"j-{user}", userId=user, traits={"t0": "new"}),
            record("group", f"h-{user}", userId=user, groupId=f"of-{user}", traits={"t0": "new"}),
        )
    read_all(journal, store)
    assert 0 < max(loaded) <= 10_000
    for user in USERS:
        person = People(store.connection).by_user_id(user)
        assert person is not None
        assert traits.plain(person.traits()) == MANY | {"t0": "new"}
        assert [traits.plain(each.traits) for each in person.groups()] == [MANY | {"t0": "new"}]


@pytest.mark.parametrize("in_a_row", [True, False])
def test_people_are_judged_with_the_traits_of_few_in_memory(
    journal: MemoryJournal, store: ProfileStore, monkeypatch: pytest.MonkeyPatch, in_a_row: bool
) -> None:
    """Also those of a person into whom somebody was merged, and those of groups that are too much together."""
    journal.append(record("alias", "a", userId=USERS[0], previousId=USERS[-1]))
    read_all(journal, store)
    expected = seen(store, in_a_row)
    assert len(expected[0][2]) == 2
    monkeypatch.setattr(slice, "BYTES_PER_PART", 1)
    monkeypatch.setattr(traits, "BYTES_PER_STEP", 1)
    assert [each[1:] for each in seen(store, in_a_row)] == [each[1:] for each in expected]
    assert max(held for held, *_ in expected) == len(USERS) - 1
    assert max(held for held, *_ in seen(store, in_a_row)) == 1


def seen(store: ProfileStore, in_a_row: bool) -> list[tuple[int, Any, list[Any]]]:
    """Of everybody: how many people's traits were in memory then, the person's traits, and those of the groups."""
    ready = READY[0]._replace(asks_traits=True, asks_groups=True, features=frozenset(), needs=frozenset())
    people = next(slice.everybody(store, 100))
    here = slice.Slice(store, people, ready, {}, in_a_row)
    return [(len(here.traits), facts.traits, list(facts.group_traits)) for _, facts in here.facts()]


def test_long_ids_are_not_held_from_batch_to_batch(store: ProfileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """An id may be as long as an event, and there may be half a million."""
    journal = MemoryJournal()
    reading = Ingest(journal, store, batch_records=1)
    for number, user in enumerate(["short", "short", "long" * 1000, "long" * 1000, "end"]):
        journal.append(record("track", f"m{number}", userId=user, event="x"))
    asked: list[str] = []
    users = store.users
    monkeypatch.setattr(store, "users", lambda ids: asked.extend(ids) or users(ids))
    while reading.step():
        pass
    assert asked == ["short", "long" * 1000, "long" * 1000, "end"]
