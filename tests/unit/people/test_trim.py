"""Trimming: what is dropped is exactly what no window can see any more, and no answer is another afterwards."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookline.connections.definitions.model import Audience
from hookline.database.location import DatabaseLocation
from hookline.people.definitions.definition import in_order
from hookline.people.definitions.feature import Entry, Feature, features_of, windows_of
from hookline.people.ingest import erasing
from hookline.people.ingest.erasing import PASS_MS, Trim
from hookline.people.store import history
from hookline.people.store.batch import Batch, ReadPosition
from hookline.people.store.catalog import FeatureCatalog
from hookline.people.store.history import pack, unpack
from hookline.people.store.people import People, PersonFacts
from hookline.people.store.store import ProfileStore
from tests.postgres import PostgresServer
from tests.unit.conftest import LocationOf, new_places
from tests.unit.people.conftest import examples
from tests.unit.people.memory_journal import NOW_MS

PEOPLE = 4
MAX = 5
"""Entries that are kept of one person and feature, here."""
CLAUSES: tuple[dict[str, Any], ...] = (
    {"event": "Order", "count": {"gte": 2}, "within": "3s"},
    {"event": "Order", "count": {"lte": 1}, "within": "6s"},
    {"event": "Visit", "count": {"eq": 2}, "within": "4s"},
    {"event": "Visit", "never": True, "within": "1s"},
    {"event": "Refund", "first": {"within": "5s"}},
    {"event": "Refund", "count": {"gte": 3}},
)
conditions = st.lists(st.sampled_from(range(len(CLAUSES))), min_size=1, unique=True)
happened = st.tuples(
    st.integers(1, PEOPLE), st.sampled_from(["Order", "Visit", "Refund"]), st.integers(-2, 9), st.integers(0, 20)
)
batches = st.lists(st.lists(happened, max_size=12), max_size=6)


@pytest.fixture(autouse=True)
def small() -> Iterator[None]:
    """Few entries in a chunk, few rows in a step, few entries of a person."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history, "CHUNK_ENTRIES", 4)
        patch.setattr(history, "ROWS_PER_CHUNK", 4)
        patch.setattr(erasing, "ROWS_PER_STEP", 2)
        for module in (history, erasing):
            patch.setattr(module, "ENTRIES_MAX", MAX)
        yield


class Kept:
    """History of some people for some clauses, in chunks."""

    def __init__(self, location: DatabaseLocation, which: list[int]) -> None:
        self.audiences = [
            msgspec.convert({"id": f"a{n}", "name": f"a{n}", "condition": CLAUSES[n]}, Audience) for n in which
        ]
        self.store = ProfileStore(location)
        self.registry = FeatureCatalog(self.store)
        self.registry.keep(windows_of(self.audiences), {})
        self.trim = Trim(self.store, self.registry)
        self.positions = 0
        first = Batch()
        first.positions = {0: ReadPosition(1)}
        first.persons = dict.fromkeys(range(1, PEOPLE + 1), NOW_MS)
        self.store.write(first)

    def write(self, events: list[tuple[int, str, int, int]]) -> None:
        """Add events: person, name, seconds ago, and a number; what was written before is the same event again."""
        batch = Batch(self.store.chunks.shift())
        batch.positions = {0: ReadPosition(1)}
        for person, name, ago, mark in events:
            for id, feature in self.registry.features().items():
                if feature.name == name:
                    self.positions += 1
                    entry = pack(person, NOW_MS - ago * 1_000, f"{mark:04}{ago:04}".encode(), self.positions)
                    batch.add_entry(person, entry, [(id, None)])
        self.store.write(batch)

    def pass_through(self, now_ms: int) -> None:
        """Trim everything there is."""
        assert self.trim.step(now_ms) or not self._rows()
        while self.trim.step(now_ms):
            pass

    def rows(self) -> dict[tuple[int, int, int], set[Entry]]:
        """The different entries of each feature, chunk and person."""
        rows: defaultdict[tuple[int, int, int], set[Entry]] = defaultdict(set)
        for feature, chunk, found in self._rows():
            for person, entry in unpack(found):
                rows[feature, chunk, person].add(entry)
        return dict(rows)

    def answers(self, now_ms: int) -> list[tuple[object, int]]:
        """What each audience says of each person."""
        people = People(self.store.connection)
        return [
            ready.judge(PersonFacts(people.person(person), {}, frozenset()), now_ms)
            for ready in in_order(self.audiences, [])
            for person in range(1, PEOPLE + 1)
        ]

    def _rows(self) -> list[tuple[Any, ...]]:
        return self.store.connection.execute("SELECT feature, chunk, entries FROM history").fetchall()


def test_what_goes_is_what_no_window_sees(backend: PostgresServer | None) -> None:
    """Of each row the entries younger than the longest window stay, at most the newest so many, and nothing else;
    every audience says the same of everybody, from that moment on."""

    @settings(max_examples=examples(backend, 40), deadline=None)
    @given(conditions, batches, st.integers(0, 3))
    def run(which: list[int], batches: list[Any], later: int) -> None:
        _run(backend, which, batches, later)

    run()


def _run(backend: PostgresServer | None, which: list[int], batches: list[Any], later: int) -> None:
    with new_places(backend) as positions:
        kept = Kept(positions("profiles"), which)
        for events in batches:
            kept.write(events)
        now_ms = NOW_MS + later * 1_000
        instants = [now_ms + step * 500 for step in range(14)]
        before, said = kept.rows(), [kept.answers(at) for at in instants]
        kept.pass_through(now_ms)
        windows = kept.registry.windows()
        expected = {key: _seen(found, windows[key[0]], now_ms) for key, found in before.items()}
        assert kept.rows() == {key: found for key, found in expected.items() if found}
        assert [kept.answers(at) for at in instants] == said
        kept.store.close()


def _seen(found: set[Entry], window_ms: int | None, now_ms: int) -> set[Entry]:
    """The entries of a row that some definition can still ask for from now on, of repeats the first."""
    if window_ms is None and len(found) <= MAX:
        return found  # there is nothing to gain: repeats stay until there are many
    first: dict[int, Entry] = {}
    for entry in sorted(found, key=lambda each: each.position, reverse=True):
        first[entry.mark] = entry
    young = [each for each in first.values() if window_ms is None or now_ms - each.at_ms <= window_ms]
    return set(sorted(young, key=lambda each: (each.at_ms, each.position))[-MAX:])


def test_a_window_that_grows_keeps_what_it_needs(location_of: LocationOf) -> None:
    """The longest window of all definitions counts, and one without an end keeps everything."""
    kept = Kept(location_of("profiles"), [0, 5])
    kept.write([(1, name, ago, ago) for name in ("Order", "Refund") for ago in (1, 4, 8)])
    (order,) = [id for id, each in kept.registry.features().items() if each.name == "Order"]
    kept.registry.keep(windows_of([*kept.audiences, msgspec.convert(
        {"id": "x", "name": "x", "condition": CLAUSES[1]}, Audience)]), {})  # fmt: skip
    kept.pass_through(NOW_MS)
    ages = {key[0]: sorted((NOW_MS - each.at_ms) // 1_000 for each in found) for key, found in kept.rows().items()}
    assert ages.pop(order) == [1, 4]
    assert list(ages.values()) == [[1, 4, 8]]


def test_a_pass_comes_a_few_times_a_day(location_of: LocationOf) -> None:
    """Between two of them there is nothing to do; what has left its window meanwhile goes with the next."""
    kept = Kept(location_of("profiles"), [0])
    kept.write([(1, "Order", 1, 1), (2, "Order", 1, 2)])
    kept.pass_through(NOW_MS)
    assert len(kept.rows()) == 2
    assert not kept.trim.step(NOW_MS + PASS_MS - 1)
    assert len(kept.rows()) == 2
    kept.pass_through(NOW_MS + PASS_MS)
    assert kept.rows() == {}


def test_features_with_values_keep_them_beside_their_entries(location_of: LocationOf) -> None:
    """What stays has the value it had."""
    kept = Kept(location_of("profiles"), [0])
    feature = Feature("track", "Order", "", "properties.total")
    kept.registry.keep({feature: 3_000}, {})
    (id,) = kept.registry.for_definitions().values()
    batch = Batch()
    batch.positions = {0: ReadPosition(1)}
    for ago in (1, 2, 8):
        batch.add_entry(1, pack(1, NOW_MS - ago * 1_000, bytes([ago]) * 8, ago), [(id, b"%d\n" % ago)])
    kept.store.write(batch)
    kept.pass_through(NOW_MS)
    assert [each.value for each in People(kept.store.connection).person(1).entries(feature)] == [2, 1]
    assert feature not in features_of(kept.audiences[0])
