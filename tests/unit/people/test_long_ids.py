"""Ids as long as an event: people and groups are known by all of them, and nothing of them stays behind."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from hookline.database.migrate import migrate_file
from hookline.database.sqlite import connect as connect_file
from hookline.people.store.identities import KEY_CHARACTERS_MAX, is_long, key_of
from hookline.people.store.people import People
from hookline.people.store.store import ProfileStore
from hookline.people.timeline import of_person
from tests.unit.conftest import LocationOf
from tests.unit.people.memory_journal import record
from tests.unit.people.test_erasing import erase
from tests.unit.people.test_sync_model import Profiles

LETTERS = "".join(map(chr, (*range(0x20), *range(0x4E00, 0x8E00))))


def id_of(number: int, characters: int = 8_000) -> str:
    """A long id that cannot be packed; its first characters are those of the others."""
    return "same" * 100 + "".join(Random(number).choices(LETTERS, k=characters))


U, V, A, G = (id_of(number) for number in range(4))


@pytest.fixture
def profiles(location_of: LocationOf) -> Profiles:
    """People on an empty database."""
    return Profiles(location_of("profiles"))


def test_no_key_is_taken_for_an_id() -> None:
    """An id is its own key up to a length; beyond, its key is longer than any such id, and each has another one."""
    longest = "x" * KEY_CHARACTERS_MAX
    assert key_of(longest) == longest
    keys = {key_of(longest + more) for more in ("y", "z", "yz")}
    assert len(keys) == 3
    assert all(is_long(key) and len(key) == KEY_CHARACTERS_MAX + 1 and key_of(key) != key for key in keys)


@pytest.mark.parametrize("letters", ["\0\ue000", range(0x10000, 0x110000)], ids=["escaped", "of four bytes"])
def test_the_longest_key_fits_an_index(profiles: Profiles, letters: str | range) -> None:
    """Of the characters that take the most room, in an order that cannot be packed."""
    ids = [
        "".join(each if isinstance(each, str) else chr(each) for each in Random(n).choices(letters, k=characters))
        for n, characters in enumerate([KEY_CHARACTERS_MAX, KEY_CHARACTERS_MAX + 1])
    ]
    profiles.journal.append(*(record("group", f"m{n}", userId=id, groupId=id) for n, id in enumerate(ids)))
    profiles.sync_all()
    people = People(profiles.store.connection)
    for id in ids:
        person = people.by_user_id(id)
        assert person is not None
        assert [each.group for each in person.groups()] == [id]


def test_they_lead_to_people_as_short_ones_do(profiles: Profiles) -> None:
    """Identities, a device that changed hands, groups and messages have the whole id."""
    profiles.journal.append(
        record("track", "m1", userId=U, anonymousId=A, event="Order", properties={"total": 20}),
        record("track", "m2", userId=U, event="Order", properties={"total": 20}),
        record("group", "m3", userId=U, groupId=G, traits={"plan": "x"}),
        record("page", "m4", userId=V, anonymousId=A),
    )
    profiles.sync_all()
    people = People(profiles.store.connection)
    first, second = people.by_user_id(U), people.by_user_id(V)
    assert first is not None
    assert second is not None
    assert people.by_anonymous_id(A) is not None
    assert first.user_id == U
    assert [each.id for each in first.identities()] == [U]
    assert [each.id for each in second.identities()] == [V, A]
    assert of_person(profiles.store.connection, first).ids == {U, A}
    assert [each.group for each in first.groups()] == [G]
    assert profiles.synced["teams", U] == profiles.synced["buyers", U] == "true"


def test_they_go_with_the_person(profiles: Profiles) -> None:
    """An id goes when nobody has it any more; one that somebody else has, stays."""
    profiles.journal.append(
        record("page", "m1", userId=U, anonymousId=A),
        record("group", "m2", userId=U, groupId=G, traits={"plan": "x"}),
        record("page", "m3", userId=V, anonymousId=A),
    )
    profiles.sync_all()
    assert erase(profiles, U).people == 1
    left = {id for (id,) in profiles.store.connection.execute("SELECT id FROM long_ids")}
    assert left == {V, A}
    assert erase(profiles, V).people == 1
    assert profiles.store.connection.execute("SELECT count(*) FROM long_ids").fetchone() == (0,)


def test_those_of_older_files_are_found(tmp_path: Path) -> None:
    """What an older version kept under the whole id is found after the migration; short ids stay as they are."""
    path = tmp_path / "profiles.db"
    path.touch(0o600)
    with closing(connect_file(path)) as older:
        migrate_file(older, "profiles", 0, 8)
        for number, id in enumerate([U, "short"], 1):
            older.execute("INSERT INTO persons (id, user_id, first_seen) VALUES (?, ?, 0)", (number, id))
            older.execute("INSERT INTO identities (kind, id, person) VALUES (0, ?, ?)", (id, number))
            older.execute("INSERT INTO groups (id) VALUES (?)", (G,)) if number == 1 else None
            older.execute("INSERT INTO memberships (group_id, person, since, place) VALUES (?, ?, 0, 0)", (G, number))
    store = ProfileStore(path)
    people = People(store.connection)
    for number, id in enumerate([U, "short"], 1):
        person = people.by_user_id(id)
        assert person is not None
        assert (person.number, [each.id for each in person.identities()]) == (number, [id])
        assert [each.group for each in person.groups()] == [G]
    store.close()
