"""Traits and histories that are long: a step takes few of them into memory at a time, and people are the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from hookline.people import slice
from hookline.people.definitions.feature import Entry, Feature
from hookline.people.ingest import extraction
from hookline.people.ingest.ingest import Ingest
from hookline.people.store import traits
from hookline.people.store.catalog import FeatureCatalog
from hookline.people.store.people import People
from hookline.people.store.store import ProfileStore
from tests.unit.conftest import LocationOf
from tests.unit.people.memory_journal import MemoryJournal, record
from tests.unit.people.test_sync_model import READY

USERS = [f"u{number}" for number in range(8)]
MANY = {f"t{number}": number for number in range(100)}
NO_FEATURES: Mapping[int, Feature] = {}


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


def read_all(journal: MemoryJournal, store: ProfileStore, features: Mapping[int, Feature] = NO_FEATURES) -> None:
    """Apply the whole journal."""
    reading = Ingest(journal, store)
    reading.keep(features)
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
        assert [traits.plain(person.group_traits(each.group)) for each in person.groups()] == [MANY | {"t0": "new"}]


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


@pytest.mark.parametrize("in_a_row", [True, False])
def test_people_are_judged_with_the_history_of_few_in_memory(
    journal: MemoryJournal, store: ProfileStore, monkeypatch: pytest.MonkeyPatch, in_a_row: bool
) -> None:
    """Also that of a person into whom somebody was merged; the rows are everybody's."""
    order, registry = Feature("track", "Order", "", "properties.note"), FeatureCatalog(store)
    registry.keep({order: None}, {})
    for number, user in enumerate(3 * USERS):
        properties = {"note": f"{number:0100}"}
        journal.append(record("track", f"o{number}", userId=user, event="Order", properties=properties))
    journal.append(record("alias", "a", userId=USERS[0], previousId=USERS[-1]))
    monkeypatch.setattr(store.chunks, "shift", lambda: 4)
    read_all(journal, store, registry.features())
    ready = READY[0]._replace(asks_traits=False, asks_groups=False, features=frozenset({order}), needs=frozenset())
    people = next(slice.everybody(store, 100))

    def judged() -> list[tuple[int, Sequence[Entry]]]:
        here = slice.Slice(store, people, ready, {}, in_a_row)
        return [(len(here.entries[order]), facts.entries(order)) for _, facts in here.facts()]

    expected = judged()
    assert [len(entries) for _, entries in expected] == [6, *[3] * (len(USERS) - 2)]
    for bytes_max, held in ((32 << 20, len(USERS) - 1), (1_600, 4), (1, 1)):
        monkeypatch.setattr(slice, "ENTRY_BYTES_PER_PART", bytes_max)
        found = judged()
        assert [entries for _, entries in found] == [entries for _, entries in expected]
        assert max(count for count, _ in found) == held


def test_the_traits_of_a_group_are_decoded_once_for_its_members(
    journal: MemoryJournal, store: ProfileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of few groups are held at a time, and people are judged by the same."""
    for user in USERS:
        journal.append(record("group", f"all-{user}", userId=user, groupId="all", traits={"plan": "pro"}))
    read_all(journal, store)
    expected = [sorted([str(MANY), str({"plan": "pro"})])] * len(USERS)
    decoded: list[bytes | None] = []
    unpacked = traits.unpacked
    monkeypatch.setattr(traits, "unpacked", lambda stored: decoded.append(stored) or unpacked(stored))
    for bytes_max in (slice.DECODED_BYTES_MAX, 0):
        decoded.clear()
        monkeypatch.setattr(slice, "DECODED_BYTES_MAX", bytes_max)
        assert [sorted(map(str, each)) for *_, each in seen(store, True)] == expected
        of_the_group = [each for each in decoded if each and b'"plan"' in each]
        assert (len(of_the_group) == 1) == (bytes_max > 0)


def seen(store: ProfileStore, in_a_row: bool) -> list[tuple[int, Any, list[Any]]]:
    """Of everybody: how many people's traits were in memory then, the person's traits, and those of the groups."""
    ready = READY[0]._replace(asks_traits=True, asks_groups=True, features=frozenset(), needs=frozenset())
    people = next(slice.everybody(store, 100))
    here = slice.Slice(store, people, ready, {}, in_a_row)
    return [(len(here.traits), facts.traits, list(facts.group_traits)) for _, facts in here.facts()]


def test_traits_have_a_bound_in_bytes(store: ProfileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a person and of a group alike, within a batch and over some: those that were given longest ago go, and what an
    earlier version stored of more is read, and shrinks when it changes."""
    journal = MemoryJournal()
    for number in range(8):
        text = {f"t{number}": "x" * 400}
        journal.append(record("identify", f"i{number}", userId="u", traits=text))
        journal.append(record("group", f"g{number}", userId="u", groupId="g", traits=text))
    reading = Ingest(journal, store)
    reading.step()
    before, *_ = stored = stored_bytes(store)
    assert min(map(len, stored)) > 8 * 400
    monkeypatch.setattr(traits, "TRAITS_BYTES_MAX", 1_100)
    assert len(traits.unpacked(before)) == 8
    for batches in (1, 3):
        for number in range(batches):
            more = {f"more{batches}{number}": number}
            journal.append(record("identify", f"j{batches}{number}", userId="u", traits=more))
            journal.append(record("group", f"h{batches}{number}", userId="u", groupId="g", traits=more))
        while reading.step():
            pass
    for each in stored_bytes(store):
        assert len(each) <= 1_100
        assert traits.unpacked(each).keys() == {"t7", "more10", "more30", "more31", "more32"}


def test_a_page_shows_the_traits_that_audiences_see(
    journal: MemoryJournal, store: ProfileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of people who have more together, before they are folded: neither more names nor more bytes."""
    for number in range(100):
        journal.append(record("identify", f"n{number}", userId=USERS[0], traits={f"n{number}": "x" * 50}))
    reading = Ingest(journal, store, batch_records=40)
    while reading.step():
        pass
    person = People(store.connection).by_user_id(USERS[0])
    assert person is not None
    for name, most in (("TRAITS_MAX", 150), ("TRAITS_BYTES_MAX", 5_000)):
        monkeypatch.setattr(traits, name, most)
        assert person.written_traits().keys() == person.traits().keys()
        assert 20 < len(person.traits()) <= 150


def test_one_event_gives_no_more_traits_than_one_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by their number nor by their bytes; a name counts, so that the newest trait is always kept."""
    raw = msgspec.json.encode({f"t{number}": "x" * 100 for number in range(20)})
    monkeypatch.setattr(traits, "TRAITS_BYTES_MAX", 1_000)
    assert 800 < len(traits.packed_given(raw, 0, 0, 0, "s")) <= 1_000
    assert not traits.packed_given(msgspec.json.encode({"n" * traits.TRAIT_BYTES_MAX: 1}), 0, 0, 0, "s")


def test_traits_are_not_sorted_for_each_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """One who has as many as there may be gets new ones: they are sorted once for as many as that."""
    sorts: list[int] = []
    keep_newest = traits._keep_newest
    monkeypatch.setattr(traits, "_keep_newest", lambda known: sorts.append(len(known)) or keep_newest(known))
    monkeypatch.setattr(traits, "TRAITS_MAX", 50)
    parts = [traits.packed_given(b'{"t%d": 1}' % number, number, 0, number, "s") for number in range(200)]
    assert traits.unpacked(traits.merged(parts)).keys() == {f"t{number}" for number in range(150, 200)}
    assert len(sorts) <= 4


def stored_bytes(store: ProfileStore) -> list[bytes]:
    """The traits of people and groups, as they are stored."""
    query = "SELECT traits FROM new_traits UNION ALL SELECT traits FROM groups"
    return [each for (each,) in store.connection.execute(query)]


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
