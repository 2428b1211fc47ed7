"""Batches whose records are looked at in several goes: what one go has learned, and what becomes of a batch when one
of them fails."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from hookline.collect.item import Arrival, read_item, record_of
from hookline.journal.record import Record
from hookline.people.definitions.feature import Feature
from hookline.people.ingest import extraction
from hookline.people.ingest.ingest import Backfill, Ingest
from hookline.people.store.batch import Batch
from hookline.people.store.catalog import FeatureCatalog, Span
from hookline.people.store.identities import Identities
from hookline.people.store.people import People
from hookline.people.store.store import ProfileStore
from tests.unit.conftest import LocationOf
from tests.unit.people.memory_journal import NOW_MS, MemoryJournal, record

SECONDS_MAX = 5.0
"""Of CPU, for what takes a twentieth of a second, on a slow and busy machine too."""


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> MemoryJournal:
    """An empty journal, of which a record is looked at at a time."""
    monkeypatch.setattr(extraction, "RECORDS_PER_PAGE", 1)
    return MemoryJournal()


@pytest.fixture
def store(location_of: LocationOf) -> ProfileStore:
    """An empty store."""
    return ProfileStore(location_of("profiles"))


def test_a_batch_that_could_not_be_read_is_read_again(
    journal: MemoryJournal, store: ProfileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it stays in memory: neither the place, nor persons that were met and not written."""
    journal.append(record("identify", "m1", userId="u", anonymousId="a", traits={"plan": "pro"}))
    journal.append(record("identify", "m2", userId="v", anonymousId="b", traits={"plan": "free"}))
    reading = Ingest(journal, store)
    look = store.anonymous

    def refused(ids: set[str]) -> dict[str, int]:
        if "b" in ids:
            raise OSError("cannot be read")
        return look(ids)

    monkeypatch.setattr(store, "anonymous", refused)
    with pytest.raises(OSError, match="cannot be read"):
        reading.step()
    assert reading.position(0).next_offset == 0
    monkeypatch.setattr(store, "anonymous", look)
    assert reading.step()
    assert reading.position(0).next_offset == 2
    found = {id: People(store.connection).by_user_id(id) for id in ("u", "v")}
    assert {id: person and person.traits()["plan"].value for id, person in found.items()} == {"u": "pro", "v": "free"}
    assert store.person_count() == reading.person_count == 2


def test_who_became_a_user_in_this_batch_is_one(journal: MemoryJournal, store: ProfileStore) -> None:
    """An anonymous person of the store becomes a user, and then another user comes to the device: they stay two."""
    journal.append(record("page", "m1", anonymousId="a"))
    Ingest(journal, store).step()
    journal.append(record("identify", "m2", userId="u", anonymousId="a"))
    journal.append(record("identify", "m3", userId="v", anonymousId="a"))
    Ingest(journal, store).step()
    people = People(store.connection)
    first, second, holder = people.by_user_id("u"), people.by_user_id("v"), people.by_anonymous_id("a")
    assert first is not None
    assert second is not None
    assert holder is not None
    assert (first.user_id, second.user_id, holder.user_id) == ("u", "v", "v")
    assert first.number != second.number == holder.number


def test_many_who_are_merged_in_one_batch_take_no_longer_each(store: ProfileStore) -> None:
    """Twenty thousand users, each of them said to be the next one, are one person at last."""
    ids, batch = [f"u{number}" for number in range(20_000)], Batch()
    identities = Identities(store, 1)
    identities.begin(batch)
    identities.load([(id, "") for id in ids])
    people = [identities.person_of(id, "", 1, position) for position, id in enumerate(ids)]
    begun = time.process_time()
    for position, (previous, id) in enumerate(pairwise(ids), len(ids)):
        identities.alias(id, previous, 1, position)
    assert batch.merged_at_last() == dict.fromkeys(people[:-1], people[-1])
    assert {identities.person_of(id, "", 1, 0) for id in ids} == {people[-1]}
    assert time.process_time() - begun < SECONDS_MAX


def test_a_device_that_changed_hands_often_holds_up_no_backfill(
    store: ProfileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose it was is asked once for all that is read together, and each event is given to who had it then."""
    journal = MemoryJournal()
    for number in range(20):
        journal.append(record("identify", f"i{number}", userId=f"u{number}", anonymousId="a"))
        journal.append(record("track", f"t{number}", anonymousId="a", event="Seen"))
    Ingest(journal, store).step()
    registry = FeatureCatalog(store)
    seen = Feature("track", "Seen", "", "")
    registry.keep({seen: None}, {0: Span(0, journal.end(0))})
    look, asked = store.owners_before, list[set[str]]()

    def counted(ids: set[str]) -> dict[str, list[tuple[int, int]]]:
        asked.append(ids)
        return look(ids)

    monkeypatch.setattr(store, "owners_before", counted)
    while Backfill(journal, store, registry).step():
        pass
    assert asked == [{"a"}]
    people = [People(store.connection).by_user_id(f"u{number}") for number in range(20)]
    assert [person and len(person.entries(seen)) for person in people] == [1] * 20


def test_a_name_that_is_no_text_costs_nothing_else(journal: MemoryJournal, store: ProfileStore) -> None:
    """Collect takes an event whose field ``name``, which means nothing in it, is an object: its ids are what they say,
    and its traits and its event count."""
    registry, ordered = FeatureCatalog(store), Feature("track", "Order", "", "")
    registry.keep({ordered: None}, {})
    name = {"first": "Ada"}
    journal.append(
        collected(type="identify", anonymousId="a", name=name, traits={"plan": "pro"}),
        collected(type="track", event="Order", anonymousId="a", name=name),
        collected(type="page", anonymousId="a", name=name),
    )
    reading = Ingest(journal, store)
    reading.keep(registry.features())
    reading.step()
    people = People(store.connection)
    person = people.by_anonymous_id("a")
    assert people.by_user_id("a") is None
    assert person is not None
    assert person.traits()["plan"].value == "pro"
    assert len(person.entries(ordered)) == 1


def collected(**event: Any) -> Record:
    """An event's record, as collect makes it."""
    item = msgspec.json.encode(event)
    head, refused = read_item(msgspec.Raw(item))
    made, _ = record_of(item, head, Arrival("website", NOW_MS), None, refused)
    assert made.rejection is None
    return made
