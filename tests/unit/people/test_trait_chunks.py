"""New traits in chunks that are folded into the persons' rows: at every moment the latest of each name is there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookline.people.store import traits
from hookline.people.store.batch import Batch, ReadPosition
from hookline.people.store.store import ProfileStore
from hookline.people.store.traits import Trait, Traits, stored_traits
from tests.postgres import PostgresServer
from tests.unit.conftest import new_places
from tests.unit.people.conftest import examples

PEOPLE = range(1, 12)

given_traits = st.tuples(st.sampled_from(PEOPLE), st.sampled_from(["plan", "city"]), st.integers(0, 9))
moves = st.one_of(st.lists(given_traits, min_size=1, max_size=8), st.sampled_from(["fold", "fold", "restart"]))


@pytest.fixture(autouse=True)
def small_chunks() -> Iterator[None]:
    """Chunks of three people, folded two at a time in stretches of two."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(traits, "CHUNK_ROWS", 3)
        patch.setattr(traits, "FAN_IN", 2)
        patch.setattr(traits, "PERSONS_PER_STEP", 2)
        patch.setattr(traits, "BYTES_PER_STEP", 150)
        yield


def test_the_latest_is_there_at_every_moment(backend: PostgresServer | None) -> None:
    """In the row, in chunks, or half folded; over restarts."""

    @settings(max_examples=examples(backend, 50), deadline=None)
    @given(st.lists(moves, max_size=30))
    def run(moves: list[list[tuple[int, str, int]] | str]) -> None:
        _run(backend, moves)

    run()


def _run(backend: PostgresServer | None, moves: list[list[tuple[int, str, int]] | str]) -> None:
    known: dict[int, Traits] = defaultdict(dict)
    with new_places(backend) as positions:
        position = positions("profiles")
        store = ProfileStore(position)
        write(store, Batch(), people=True)
        for number, move in enumerate([*moves, "fold"]):
            if move == "restart":
                store.connection.close()
                store = ProfileStore(position)
            elif move == "fold":
                store.trait_chunks.fold()
            else:
                batch = Batch()
                for person, name, at_ms in move:  # type: ignore[misc]  # a list
                    given = {name: Trait(f"{name}{at_ms}", at_ms, number, number, "app")}
                    batch.add_traits(person, traits.packed(given))
                    traits.add(known[person], given)
                write(store, batch)
            assert {person: read(store, person) for person in PEOPLE} == {person: known[person] for person in PEOPLE}
        while store.trait_chunks.fold():
            pass
        ((chunks,),) = store.connection.execute("SELECT count(*) FROM trait_chunks").fetchall()
        ((rows,),) = store.connection.execute("SELECT count(*) FROM new_traits").fetchall()
        assert chunks <= traits.FAN_IN
        assert rows <= chunks * len(PEOPLE)
        store.close()


def write(store: ProfileStore, batch: Batch, people: bool = False) -> None:
    """Write what a batch says of people."""
    batch.positions = {0: ReadPosition(1)}
    if people:
        batch.persons = dict.fromkeys(PEOPLE, 0)
    store.write(batch)


def read(store: ProfileStore, person: int) -> Traits:
    """The traits as whoever looks at the person puts them together."""
    found: Traits = {}
    for stored in stored_traits(store.connection, [person]):
        traits.add(found, traits.unpacked(stored))
    return found
