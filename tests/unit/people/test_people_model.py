"""People as they are kept, against every event in a list: whatever comes, in whatever order, over restarts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookline.database.connection import Connection
from hookline.database.location import DatabaseLocation
from hookline.database.postgres import connection as postgres_connection
from hookline.journal.record import Record
from hookline.people.definitions.feature import Feature
from hookline.people.ingest import extraction
from hookline.people.ingest.ingest import Backfill, Ingest
from hookline.people.store import history, identities
from hookline.people.store import traits as trait_chunks
from hookline.people.store.batch import Batch
from hookline.people.store.catalog import FeatureCatalog, Span
from hookline.people.store.people import People
from hookline.people.store.store import ProfileStore
from hookline.people.timeline import of_person
from tests.postgres import PostgresServer
from tests.unit.conftest import LocationOf, new_places
from tests.unit.people.conftest import examples
from tests.unit.people.memory_journal import NOW_MS, MemoryJournal, PartitionedJournal, record
from tests.unit.people.naive import Naive, Someone, entries_of, group_traits_of, groups_of, traits_of

FEATURES = {
    Feature("track", "Order", "", ""): lambda body: True,
    Feature("track", "Order", "properties.total >= 5", "properties.total"): lambda body: (
        isinstance(body["properties"]["total"], int) and body["properties"]["total"] >= 5
    ),
    Feature("track", "", "", "properties.total"): lambda body: True,
    Feature("page", "Home", "", ""): lambda body: True,
}

ids = st.sampled_from(["a", "b", "c"])
users = st.sampled_from(["a", "u", "v", "w"])
who = st.one_of(
    st.fixed_dictionaries({"userId": users}),
    st.fixed_dictionaries({"anonymousId": ids}),
    st.fixed_dictionaries({"userId": users, "anonymousId": ids}),
)
traits = st.dictionaries(st.sampled_from(["plan", "city"]), st.sampled_from([None, 1, "x", [2], {"y": 3}]), max_size=2)
totals = st.sampled_from([1, 5, 9, "five", True, None, "x" * 600])
calls = st.one_of(
    st.tuples(
        st.just("track"),
        st.builds(lambda e, t: {"event": e, "properties": {"total": t}}, ids | st.just("Order"), totals),
    ),
    st.tuples(st.just("page"), st.sampled_from([{"name": "Home"}, {"name": "Shop"}, {}])),
    st.tuples(st.just("identify"), st.fixed_dictionaries({"traits": traits}) | st.just({})),
    st.tuples(st.just("group"), st.fixed_dictionaries({"groupId": st.sampled_from(["g", "h"]), "traits": traits})),
)
plain = st.builds(
    lambda call, who, number, at: record(call[0], f"m{number}", NOW_MS - at, **call[1], **who),
    calls,
    who,
    st.integers(0, 12),
    st.integers(0, 5),
)
aliases = st.builds(
    lambda user, previous, number: record("alias", f"l{number}", userId=user, previousId=previous),
    users,
    st.sampled_from(["a", "b", "u", "v", "z"]),
    st.integers(0, 12),
)
records = st.one_of(plain, plain, plain, aliases)
of_one_device = st.one_of(
    st.just({"anonymousId": "a"}), st.builds(dict, userId=st.sampled_from(["u", "v", "w"]), anonymousId=st.just("a"))
)
moves = st.one_of(
    st.lists(records, min_size=1, max_size=4),
    st.sampled_from(
        [
            "ingest",
            "restart",
            "fail",
            "lose the answer",
            "fail to look",
            "keep",
            "preview",
            "let go",
            "backfill",
            "together",
            "fold",
        ]
    ),
)


class Kept:
    """The real parts, on a database that survives their restarts."""

    def __init__(self, location: DatabaseLocation, journal: MemoryJournal) -> None:
        self.position, self.journal = location, journal
        self.wanted: list[Feature] = [next(iter(FEATURES))]
        self.previewed: list[Feature] = []
        self.open()
        self.keep(1)

    def open(self) -> None:
        """Start as a process does."""
        self.store = ProfileStore(self.position)
        self.registry = FeatureCatalog(self.store)
        self.ingest = Ingest(self.journal, self.store, batch_records=3)
        self.ingest.keep(self.registry.features())
        self.backfill = Backfill(self.journal, self.store, self.registry)

    def restart(self) -> None:
        """End as a process does that had no time to."""
        self.store.connection.close()
        self.open()

    def keep(self, count: int) -> None:
        """Want so many of the features."""
        self.wanted = list(FEATURES)[:count]
        spans = {each: Span(0, self.ingest.position(each).next_offset) for each in self.journal.partitions()}
        self.registry.keep(dict.fromkeys(self.wanted), spans, dict.fromkeys(self.previewed))
        self.ingest.keep(self.registry.features())

    def preview(self) -> None:
        """Want the features for a preview that are not wanted yet, or no preview any more."""
        self.previewed = [] if self.previewed else list(FEATURES)
        self.keep(len(self.wanted))

    def fail(self) -> None:
        """A transaction that the disk refuses at its end; what is in memory is tried again."""
        written = self.store._write

        def refused(batch: Batch) -> None:
            written(batch)
            raise OSError("no space left")

        self.store._write = refused  # type: ignore[method-assign]
        with suppress(OSError):
            self.ingest.step()
        self.store._write = written  # type: ignore[method-assign]

    def lose_the_answer(self) -> None:
        """A transaction that is written and fails all the same: nobody heard that it was."""

        def lost(connection: Connection) -> None:
            raise OSError("the server went")

        begin = self.store._write_back.begin
        self.store._write_back.begin = lost  # type: ignore[method-assign]
        with suppress(OSError):
            self.ingest.step()
        self.store._write_back.begin = begin  # type: ignore[method-assign]

    def fail_to_look(self) -> None:
        """A look for ids that the disk refuses, when some records of the batch were applied already."""
        looks, look = count(), self.store.anonymous

        def refused(ids: Iterable[str]) -> dict[str, int]:
            if next(looks):
                raise OSError("cannot be read")
            return look(ids)

        self.store.anonymous = refused  # type: ignore[method-assign]
        with suppress(OSError):
            self.ingest.step()
        self.store.anonymous = look  # type: ignore[method-assign]

    def finish(self) -> None:
        """Everything there is to do."""
        while self.ingest.step() or self.backfill.step() or self.registry.let_go():
            pass
        while self.store.chunks.put_together() or self.store.trait_chunks.fold():
            pass


@pytest.fixture(autouse=True)
def small_chunks() -> Iterator[None]:
    """Chunks of a few entries, so that they are put together and folded all the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history, "CHUNK_ENTRIES", 3)
        patch.setattr(history, "FAN_IN", 2)
        patch.setattr(history, "ROWS_PER_CHUNK", 4)
        patch.setattr(extraction, "RECORDS_PER_PAGE", 2)
        patch.setattr(identities, "KNOWN_LATELY_MIN", 2)
        patch.setattr(identities, "KNOWN_LATELY_MAX", 2)
        patch.setattr(history, "BYTES_PER_STEP", 60)
        patch.setattr(trait_chunks, "CHUNK_ROWS", 1)
        patch.setattr(trait_chunks, "FAN_IN", 2)
        patch.setattr(trait_chunks, "PERSONS_PER_STEP", 2)
        patch.setattr(postgres_connection, "COPY_ROWS_MIN", 2)
        yield


def test_people_are_what_their_events_say(backend: PostgresServer | None) -> None:
    """Identities, traits, groups and histories are those of a naive recomputation, whatever happens in between."""

    @settings(max_examples=examples(backend, 60), deadline=None)
    @given(st.lists(moves, max_size=40))
    def run(moves: list[Any]) -> None:
        journal = MemoryJournal()
        with new_places(backend) as positions:
            kept = Kept(positions("profiles"), journal)
            for move in moves:
                _make(kept, move)
            kept.keep(len(FEATURES))
            kept.finish()
            assert kept.registry.unready() == set()
            _compare(kept, Naive(journal.stored()))
            kept.store.close()

    run()


def test_of_one_instant_the_event_that_came_later_is_the_later(location_of: LocationOf) -> None:
    """The latest place wins, whatever the messageIds are; an entry that is sent again keeps its first place."""
    journal = MemoryJournal()
    for number in range(8):
        calls = [record("identify", f"{number}-{n}", userId=f"u{number}", traits={"plan": n}) for n in range(3)]
        order = [
            record("track", f"{number}-o{n}", userId=f"u{number}", event="Order", properties={"total": n + 5})
            for n in range(3)
        ]
        journal.append(*calls, *order, order[0])
    kept = Kept(location_of("profiles"), journal)
    kept.keep(len(FEATURES))
    kept.finish()
    people = People(kept.store.connection)
    everybody = [people.by_user_id(f"u{number}") for number in range(8)]
    _, valued, *_ = FEATURES
    assert [each and each.traits()["plan"].value for each in everybody] == [2] * 8
    assert [[entry.value for entry in each.entries(valued)] for each in everybody if each] == [[5, 6, 7]] * 8
    kept.store.close()


def test_whose_an_event_is_does_not_depend_on_its_partition(backend: PostgresServer | None) -> None:
    """A device that is handed on keeps its own events in one partition, and its users have theirs in others."""

    @settings(max_examples=examples(backend, 60), deadline=None)
    @given(st.lists(of_one_device, max_size=12))
    def run(calls: list[dict[str, str]]) -> None:
        journal = PartitionedJournal(3)
        with new_places(backend) as positions:
            kept = Kept(positions("profiles"), journal)
            for number, who in enumerate(calls):
                journal.append(record("track", f"m{number}", event="Order", properties={"total": 9}, **who))
                while kept.ingest.step():
                    pass
            kept.keep(len(FEATURES))
            kept.finish()
            _compare(kept, Naive(journal.stored()))
            kept.store.close()

    run()


def _make(kept: Kept, move: list[Record] | str) -> None:
    match move:
        case "ingest":
            kept.ingest.step()
        case "restart":
            kept.restart()
        case "fail":
            kept.fail()
        case "lose the answer":
            kept.lose_the_answer()
        case "fail to look":
            kept.fail_to_look()
        case "keep":
            kept.ingest.step()
            kept.keep(len(kept.wanted) % len(FEATURES) + 1)
        case "preview":
            kept.ingest.step()
            kept.preview()
        case "let go":
            kept.registry.let_go()
        case "backfill":
            kept.backfill.step()
        case "together":
            kept.store.chunks.put_together()
        case "fold":
            kept.store.trait_chunks.fold()
        case list():
            kept.journal.append(*move)


def _compare(kept: Kept, naive: Naive) -> None:
    people = People(kept.store.connection)
    everybody = naive.people()
    assert kept.store.person_count() == kept.ingest.person_count == len(everybody)
    for someone in everybody:
        for kind, id in naive.identities(someone):
            person = people.by_user_id(id) if kind == "user" else people.by_anonymous_id(id)
            assert person is not None
            assert {tuple(each) for each in person.identities()} == naive.identities(someone)
        _compare_one(person, someone, everybody)
        assert person is not None
        owned = of_person(kept.store.connection, person)
        theirs = {position for position, *_ in someone.events}
        assert {position for position, each in kept.journal.stored() if owned.has(position, each)} == theirs


def _compare_one(person: Any, someone: Someone, everybody: list[Someone]) -> None:
    assert person.user_id == someone.user_id
    assert {name: (t.value, t.position) for name, t in person.traits().items()} == traits_of(someone)
    assert {each.group: (each.since_ms, each.position) for each in person.groups()} == groups_of(someone)
    for each in person.groups():
        found = {name: (trait.value, trait.position) for name, trait in person.group_traits(each.group).items()}
        assert found == group_traits_of(everybody, each.group)
    for feature, holds in FEATURES.items():
        expected = [
            entry._replace(value=entry.value[:512]) if isinstance(entry.value, str) else entry
            for entry in entries_of(someone, feature, holds)
        ]
        assert person.entries(feature) == expected
