"""Chunks of the history: whatever their rows share, and wherever putting them together stands, everybody's entries are
those that were written."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookline.people.definitions.feature import Feature
from hookline.people.store import history
from hookline.people.store.batch import Batch, ReadPosition
from hookline.people.store.catalog import FeatureCatalog
from hookline.people.store.history import pack
from hookline.people.store.people import People
from hookline.people.store.store import ProfileStore
from tests.postgres import PostgresServer
from tests.unit.conftest import new_places
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
