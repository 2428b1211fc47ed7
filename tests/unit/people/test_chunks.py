"""Chunks of the history: whatever their rows share, and wherever putting them together stands, everybody's entries are
those that were written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookline.people.definitions.feature import Feature
from hookline.people.store import catalog, history
from hookline.people.store.batch import Batch, ReadPosition
from hookline.people.store.catalog import FeatureCatalog
from hookline.people.store.history import pack, pack_value
from hookline.people.store.people import People
from hookline.people.store.store import ProfileStore
from tests.postgres import PostgresServer
from tests.unit.conftest import LocationOf, new_places
from tests.unit.people.conftest import examples

FEATURES = (Feature("track", "Order", "", ""), Feature("track", "Order", "", "properties.total"))
PEOPLE = range(1, 17)
LAST_SHIFT = 4

batches = st.lists(
    st.tuples(st.integers(0, 3), st.lists(st.sampled_from(PEOPLE), min_size=1, max_size=12)), min_size=1, max_size=10
)


def test_everybody_has_what_was_written_at_every_step(backend: PostgresServer | None) -> None:
    """Batches whose rows persons of different shifts share, two entries to a chunk, two chunks at a time, in steps of
    a row each, and a restart after some of them."""

    @settings(max_examples=examples(backend, 50), deadline=None)
    @given(batches, st.integers(0, 4))
    def run(batches: list[tuple[int, list[int]]], restart_at: int) -> None:
        _run(backend, batches, restart_at)

    run()


@pytest.fixture
def store(location_of: LocationOf, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProfileStore]:
    """A store whose chunks are of two entries with ordinary values, put together two at a time."""
    monkeypatch.setattr(history, "CHUNK_ENTRIES", 2)
    monkeypatch.setattr(history, "FAN_IN", 2)
    monkeypatch.setattr(history, "BYTES_PER_STEP", 1)
    found = ProfileStore(location_of("profiles"))
    FeatureCatalog(found).keep(dict.fromkeys(FEATURES), {})
    yield found
    found.close()


def write_texts(store: ProfileStore, count: int, characters: int, people: int = 1) -> None:
    """Write batches of an event of each of some people, with a text of so many characters."""
    valued = FeatureCatalog(store).for_definitions()[FEATURES[1]]
    for position in range(count):
        batch = Batch(LAST_SHIFT)
        batch.positions = {0: ReadPosition(position + 1)}
        for person in range(1, people + 1):
            number = position * people + person
            entry = pack(person, number, number.to_bytes(8, "little"), number)
            batch.add_entry(person, entry, [(valued, pack_value("x" * characters))])
        store.write(batch)


def test_a_chunk_of_long_values_ends_sooner(store: ProfileStore) -> None:
    """An event of somebody who has many writes few of them anew."""
    write_texts(store, 4, characters=10)
    query = "SELECT count(*) FROM history"
    assert store.connection.execute(query).fetchall() == [(2,)]
    write_texts(store, 4, characters=2 * history.BYTES_PER_VALUE)
    assert store.connection.execute(query).fetchall() == [(6,)]


@pytest.mark.parametrize(
    ("people", "entries_max", "kept"), [(3, 1, [3, 7, 8]), (8, 1, [3, 7, 8]), (8, 4, list(range(9)))]
)
def test_rows_that_would_be_too_long_together_lose_what_is_not_kept(
    store: ProfileStore, monkeypatch: pytest.MonkeyPatch, people: int, entries_max: int, kept: list[int]
) -> None:
    """A few people's oldest entries go in a step, whose values nobody reads. Also where rows are too long even then,
    and stay, each of four batches that come together has no more of anybody, and they are not looked at for ever."""
    monkeypatch.setattr(history, "ROW_BYTES_MAX", 1_000)
    monkeypatch.setattr(history, "PEOPLE_PER_STEP", 3)
    write_texts(store, 9, 100, people)
    monkeypatch.setattr(history, "ENTRIES_MAX", entries_max)
    monkeypatch.setattr(history, "_decoder_of", None)
    while store.chunks.put_together():
        pass
    monkeypatch.undo()
    for person in range(1, people + 1):
        found = People(store.connection).person(person).entries(FEATURES[1])
        assert [entry.position for entry in found] == [number * people + person for number in kept]
    assert store.connection.execute("SELECT count(*) FROM history").fetchone()[0] == len(kept)


def test_an_entry_that_was_read_up_twice_is_kept_once(store: ProfileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one with more than are kept: what is there twice would be looked at for ever."""
    monkeypatch.setattr(history, "ENTRIES_MAX", 3)
    monkeypatch.setattr(history, "ROW_BYTES_MAX", 300)
    for _ in range(4):
        write_texts(store, 2, 100)
    while store.chunks.put_together():
        pass
    assert [each.position for each in People(store.connection).person(1).entries(FEATURES[1])] == [1, 2]


def test_a_history_that_nobody_needs_goes_in_steps_of_so_many_bytes(
    store: ProfileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values count, which may be most of it."""
    write_texts(store, 8, characters=400)
    registry = FeatureCatalog(store)
    registry.keep({}, {})
    monkeypatch.setattr(catalog, "BYTES_PER_STEP", 500)
    steps = 0
    while registry.let_go():
        steps += 1
    assert steps >= 4
    assert store.connection.execute("SELECT count(*) FROM history").fetchall() == [(0,)]


def _run(backend: PostgresServer | None, batches: list[tuple[int, list[int]]], restart_at: int) -> None:
    with new_places(backend) as positions, pytest.MonkeyPatch.context() as patch:
        patch.setattr(history, "CHUNK_ENTRIES", 16)
        patch.setattr(history, "FAN_IN", 2)
        patch.setattr(history, "BYTES_PER_STEP", 1)
        database = positions("profiles")
        store = ProfileStore(database)
        registry = FeatureCatalog(store)
        registry.keep(dict.fromkeys(FEATURES), {})
        plain, valued = (registry.for_definitions()[feature] for feature in FEATURES)
        expected: defaultdict[int, list[int]] = defaultdict(list)
        position = 0
        steps = 0
        for more in batches, [(LAST_SHIFT, [1])]:  # a chunk that is begun closes those before it, however short
            for shift, people in more:
                batch = Batch(shift)
                batch.positions = {0: ReadPosition(1)}
                for person in people:
                    position += 1
                    entry = pack(person, position, position.to_bytes(8, "little"), position)
                    batch.add_entry(person, entry, [(plain, None), (valued, b"%d\n" % position)])
                    expected[person].append(position)
                store.write(batch)
            _compare(store, expected)
            while store.chunks.put_together():
                _compare(store, expected)
                steps += 1
                if steps == restart_at:
                    store.connection.close()
                    store = ProfileStore(database)
        query = "SELECT max(count) FROM (SELECT count(*) AS count FROM chunks WHERE level < ? GROUP BY level) AS levels"
        assert (store.connection.execute(query, (history.LEVEL_MAX,)).fetchone()[0] or 0) <= 2
        store.close()


def _compare(store: ProfileStore, expected: dict[int, list[int]]) -> None:
    people = People(store.connection)
    for person in PEOPLE:
        plain, valued = (people.person(person).entries(feature) for feature in FEATURES)
        assert [entry.position for entry in plain] == expected[person]
        assert [entry.value for entry in valued] == expected[person]
