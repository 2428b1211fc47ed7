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
from hookline.people.store import identities as identity_store
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


@pytest.mark.parametrize("batch_records", [1, 100])
def test_an_alias_merges_no_more_than_a_thousand(
    journal: MemoryJournal, store: ProfileStore, monkeypatch: pytest.MonkeyPatch, batch_records: int
) -> None:
    """Whatever is read together: who was merged into either before counts, visitors as well, and those who stay two go
    on as two, with all that is theirs."""
    monkeypatch.setattr(identity_store, "MERGED_MAX", 3)
    for number in range(5):
        journal.append(record("track", f"t{number}", userId=f"u{number}", event="x"))
    journal.append(record("page", "p", anonymousId="a"))
    journal.append(record("identify", "i", userId="u0", anonymousId="a"))
    for number in range(4):
        journal.append(record("alias", f"a{number}", userId=f"u{number + 1}", previousId=f"u{number}"))
    reading = Ingest(journal, store, batch_records)
    while reading.step():
        pass
    found = [People(store.connection).by_user_id(f"u{number}") for number in range(5)]
    assert [person and person.user_id for person in found] == ["u1", "u1", "u4", "u4", "u4"]
    assert [person and len(person.numbers) for person in found] == [3, 3, 3, 3, 3]
    assert found[0] is not None
    assert [each.id for each in found[0].identities()] == ["u0", "u1", "a"]
    assert reading.person_count == store.person_count() == 2


def test_many_who_are_merged_in_one_batch_take_no_longer_each(
    store: ProfileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty thousand users, each of them said to be the next one, are one person at last."""
    monkeypatch.setattr(identity_store, "MERGED_MAX", 20_000)
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


@pytest.mark.parametrize(
    "name", [b'{"first":"Ada"}', b"1e400", b'{"a":1e400}', b"9" * 5_000, b'"\xff"', b'1,"userId":1e400,"userId":null']
)
def test_a_name_that_is_no_text_costs_nothing_else(journal: MemoryJournal, store: ProfileStore, name: bytes) -> None:
    """Collect takes an event whose field ``name``, which means nothing in it, is an object or a number beyond any
    range, as an id that is given again may be: its ids are what they say, and its traits, group and event count."""
    registry, ordered = FeatureCatalog(store), Feature("track", "Order", "", "")
    registry.keep({ordered: None}, {})
    ids = {"anonymousId": "a", "name": msgspec.Raw(name)}
    journal.append(
        collected(type="identify", **ids, traits={"plan": "pro"}),
        collected(type="track", event="Order", **ids),
        collected(type="page", **ids),
        collected(type="group", groupId="g", **ids),
    )
    reading = Ingest(journal, store)
    reading.keep(registry.features())
    reading.step()
    people = People(store.connection)
    person = people.by_anonymous_id("a")
    assert people.by_user_id("a") is None
    assert person is not None
    assert person.traits()["plan"].value == "pro"
    assert [each.group for each in person.groups()] == ["g"]
    assert len(person.entries(ordered)) == 1


def test_a_body_that_cannot_be_read_makes_nobody_a_user(journal: MemoryJournal, store: ProfileStore) -> None:
    """The record's user key may be an anonymous id, which would outlive the deletion of its person as a user id."""
    journal.append(msgspec.structs.replace(record("page", "m", anonymousId="a"), body=b"{"))
    Ingest(journal, store).step()
    assert People(store.connection).by_user_id("a") is None


def collected(**event: Any) -> Record:
    """An event's record, as collect makes it."""
    item = msgspec.json.encode(event)
    head, refused = read_item(msgspec.Raw(item))
    made, _ = record_of(item, head, Arrival("website", NOW_MS), None, refused)
    assert made.rejection is None
    return made
