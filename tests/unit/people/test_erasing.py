"""Taking people out of profiles: all numbers of a person, in every chunk, and nobody else."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hookline.journal.record import Record
from hookline.people.definitions.feature import Entry, Feature
from hookline.people.ingest import erasing
from hookline.people.ingest.erasing import Erased, Erasing
from hookline.people.store import history
from hookline.people.store.catalog import FeatureCatalog
from hookline.people.store.history import ENTRY_BYTES
from hookline.people.store.people import People
from hookline.people.sync import sync
from hookline.privacy.identities import given
from hookline.replays.offset_set import OffsetSet
from tests.unit.conftest import LocationOf
from tests.unit.people.memory_journal import record
from tests.unit.people.test_sync_model import READY, Profiles

TABLES = (
    "persons",
    "merged",
    "identities",
    "repointed",
    "memberships",
    "history",
    "members",
    "membership_changes",
    "sent_before",
    "touched",
    "groups",
    "new_traits",
    "search_terms",
    "search_people",
)


@pytest.fixture
def profiles(location_of: LocationOf, monkeypatch: pytest.MonkeyPatch) -> Profiles:
    """People with audiences, in chunks of a few entries whose rows they share, looked at a row at a time."""
    monkeypatch.setattr(history, "CHUNK_ENTRIES", 2)
    monkeypatch.setattr(history, "ROWS_PER_CHUNK", 1)
    monkeypatch.setattr(erasing, "BUCKETS_PER_QUERY", 1)
    return Profiles(location_of("profiles"))


def order(id: str, total: int = 5, **who: Any) -> Record:
    """An order of somebody."""
    return record("track", id, event="Order", properties={"total": total}, **who)


def erase(profiles: Profiles, *ids: str, anonymous: Sequence[str] = (), positions: OffsetSet | None = None) -> Erased:
    """Erase as the role does."""
    with profiles.store.transaction() as execute:
        identities = given(ids) | dict.fromkeys(anonymous, False)
        erased = Erasing(profiles.store, execute, {0: positions or OffsetSet()}).erase(identities)
    profiles.ingest.forget()
    assert profiles.store.overwrite_gaps()
    return erased


def test_an_anonymous_id_that_was_found_is_no_user(profiles: Profiles) -> None:
    """A user who has the id that was somebody's anonymous one stays, with all their ids; one whose anonymous id it is
    goes when no user has it."""
    profiles.journal.append(
        record("identify", "m1", userId="7", anonymousId="42", traits={"plan": "x"}),
        record("identify", "m2", userId="42", anonymousId="9001", traits={"plan": "pro"}),
        order("m3", anonymousId="a1"),
    )
    profiles.sync_all()
    assert erase(profiles, "7", anonymous=("42", "a1"), positions=OffsetSet([0, 2])).people == 2
    other = People(profiles.store.connection).by_user_id("42")
    assert other is not None
    assert [tuple(each) for each in other.identities()] == [("user", "42"), ("anonymous", "9001")]
    assert set(other.traits()) == {"plan"}


def test_nothing_is_left_of_a_person_of_many_numbers(profiles: Profiles) -> None:
    """Anonymous, user, and another user by an alias: one id is enough, and the file holds none of it."""
    profiles.journal.append(
        order("m1", anonymousId="anon-of-it"),
        order("m2", userId="old-of-it"),
        record("identify", "m3", userId="old-of-it", anonymousId="anon-of-it", traits={"plan": "secret-of-it"}),
        order("m4", userId="new-of-it"),
        record("group", "m5", userId="new-of-it", groupId="group-of-it", traits={"plan": "firm-of-it"}),
        record("alias", "m6", userId="new-of-it", previousId="old-of-it"),
        order("m7", userId="new-of-it"),
    )
    profiles.sync_all()
    profiles.make_again()
    assert profiles.store.connection.execute("SELECT count(*) FROM sent_before").fetchone() != (0,)
    profiles.sync_all()
    person = People(profiles.store.connection).by_user_id("new-of-it")
    assert person is not None
    assert len(person.numbers) == 3
    entries = profiles.store.connection.execute("SELECT sum(length(entries)) / 28 FROM history").fetchone()[0]
    assert erase(profiles, "old-of-it") == Erased(1, entries)
    for table in TABLES:
        assert profiles.store.connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), table
    if isinstance(profiles.position, Path):
        for path in profiles.position.parent.iterdir():
            assert b"-of-it" not in path.read_bytes(), path
    assert erase(profiles, "old-of-it") == Erased(0, 0)


def test_others_stay_and_who_comes_back_is_new(profiles: Profiles) -> None:
    """Somebody else has what they had and is told nothing again; an event after the erasure makes a new person."""
    profiles.journal.append(
        *(order(f"{user}{n}", userId=user) for user in ("u", "v") for n in range(2)),
        *(record("group", f"g{user}", userId=user, groupId="g", traits={"plan": "x"}) for user in ("u", "v")),
    )
    profiles.sync_all()
    profiles.synced.clear()
    assert erase(profiles, "u").people == 1
    profiles.sync_all()
    assert set(profiles.synced) <= {("cooling", "v"), ("buyers", "v")}, "only what leaves with its window"
    people = People(profiles.store.connection)
    other = people.by_user_id("v")
    assert other is not None
    assert [each.group for each in other.groups()] == ["g"]
    assert people.by_user_id("u") is None
    profiles.journal.append(record("page", "m9", userId="u"))
    profiles.sync_all()
    again = people.by_user_id("u")
    assert again is not None
    assert again.groups() == []
    assert not again.traits()


def test_a_look_at_people_ends_while_others_are_erased(profiles: Profiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on where it is, and who was to be looked at and is gone leaves nothing behind."""
    monkeypatch.setattr(sync, "PEOPLE_PER_STEP", 2)
    profiles.ready = [each for each in READY if each.key[1] == "idle"]
    profiles.sync.follow(profiles.ready, profiles.made)
    users = [f"u{n}" for n in range(5)]
    for n in range(2):
        profiles.journal.append(*(record("identify", f"{id} {n}", userId=id, traits={"seats": n}) for id in users))
        while profiles.ingest.step():
            pass
        for _ in range(20):
            profiles.sync.evaluate(profiles.now_ms)
            erase(profiles, "u4")
            profiles.tell()
        profiles.now_ms += 1_000
    assert [profiles.synced.get(("idle", id)) for id in users] == ["true"] * 4 + [None]
    members = profiles.store.connection.execute("SELECT count(DISTINCT person) FROM members").fetchone()
    assert members == (4,)


def test_who_shares_rows_with_somebody_keeps_their_history(profiles: Profiles) -> None:
    """Out go the entries of the persons that go, with their values; those of all others stand as they did."""
    users = "tuvwxy"
    profiles.journal.append(*(record("page", f"first {user}", userId=user) for user in users))
    profiles.journal.append(*(order(f"{user}{n}", total=n, userId=user) for n in range(3) for user in users))
    profiles.sync_all()
    people = People(profiles.store.connection)
    features = FeatureCatalog(profiles.store).for_definitions()

    def history(user: str) -> dict[Feature, list[Entry]]:
        person = people.by_user_id(user)
        return {} if person is None else {feature: person.entries(feature) for feature in features}

    before = {user: history(user) for user in users}
    query = "SELECT max(length(entries)) FROM history"
    assert profiles.store.connection.execute(query).fetchone()[0] > 2 * ENTRY_BYTES
    assert all(any(found.values()) for found in before.values())
    gone = sum(len(entries) for user in "uvx" for entries in before[user].values())
    assert erase(profiles, "u", "v", "x") == Erased(3, gone)
    assert {user: history(user) for user in users} == before | {user: {} for user in "uvx"}


def test_a_shared_device_leaves_its_other_user(profiles: Profiles) -> None:
    """The other user loses the anonymous id and what came from the erased places, and nothing else."""
    profiles.journal.append(
        record("identify", "m1", userId="u", anonymousId="tablet"),
        record("identify", "m2", userId="v", anonymousId="tablet", traits={"plan": "x"}),
        order("m3", anonymousId="tablet", total=3),
        order("m4", userId="v", total=7),
        record("identify", "m5", anonymousId="tablet", traits={"city": "there"}),
    )
    profiles.sync_all()
    assert erase(profiles, "u", "tablet", positions=OffsetSet([0, 2, 4])).people == 1
    person = People(profiles.store.connection).by_user_id("v")
    assert person is not None
    assert [tuple(each) for each in person.identities()] == [("user", "v")]
    assert list(person.traits()) == ["plan"]
    positions = {
        position
        for (entries,) in profiles.store.connection.execute("SELECT entries FROM history")
        for position in [int.from_bytes(entries[20:28], "little")]
    }
    assert positions == {3}


def share_one_id(profiles: Profiles, people: int) -> None:
    """As a client does that sends the same anonymous id for everybody; u0 goes, and the id alone has told of others."""
    for first in range(0, people, 500):
        users = range(first, min(people, first + 500))
        profiles.journal.append(
            *(
                record(
                    "identify", f"m{n}", userId=f"u{n}", anonymousId="unknown", traits={"name": f"n{n}", "x": "y" * 99}
                )
                for n in users
            )
        )
        while profiles.ingest.step():
            pass


def test_many_who_share_an_id_are_looked_at_in_steps(
    location_of: LocationOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step is a transaction of its own, and the result is that of a single one."""
    rows: list[list[list[tuple[Any, ...]]]] = []
    for in_steps in (False, True):
        profiles = Profiles(location_of("profiles") if in_steps else tmp_path / "once.db")
        profiles.journal.append(
            *(
                record(type, f"{type} {user}", groupId="g", event="Order", anonymousId="unknown", **who, traits=traits)
                for user in range(9)
                for who in ({"userId": f"u{user}"}, {})
                for traits in ({"plan": f"p{user}"},)
                for type in ("identify", "group", "track")
            )
        )
        profiles.sync_all()
        positions = {0: OffsetSet([0, 1, 2, *range(3, profiles.journal.end(0), 2)])}
        ids = {"u0": True, "unknown": False}
        after: erasing.ReadTo | None = erasing.BEGINNING
        transactions = 0
        if in_steps:
            monkeypatch.setattr(erasing, "SHARING_PER_STEP", 2)
            monkeypatch.setattr(erasing, "SHARING_AT_ONCE", 1)
            while after is not None:
                with profiles.store.transaction() as execute:
                    _, after = Erasing(profiles.store, execute, positions).look_at_sharing(ids, after)
                transactions += 1
            assert transactions >= 4
        with profiles.store.transaction() as execute:
            Erasing(profiles.store, execute, positions).erase(ids, after)
        queries = (f"SELECT * FROM {table}" for table in TABLES if table != "touched")
        rows.append([sorted(profiles.store.connection.execute(query).fetchall(), key=repr) for query in queries])
        profiles.store.close()
    assert rows[0] == rows[1]
    assert any(rows[0])


def test_memory_does_not_grow_with_those_who_share_an_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight times as many people need no more of it, and only who has something of the erased events is written."""
    monkeypatch.setattr(erasing, "SHARING_PER_STEP", 100)
    monkeypatch.setattr(erasing, "SHARING_AT_ONCE", 50)
    peaks: list[int] = []
    for people in (500, 4_000):
        profiles = Profiles(tmp_path / f"{people}.db")
        share_one_id(profiles, people)
        written = profiles.store.connection.total_changes
        tracemalloc.start()
        erased = erase(profiles, "u0", anonymous=("unknown",), positions=OffsetSet([0]))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert erased.people == 1
        # The rows that say who had the id before; hardly anything else.
        assert profiles.store.connection.total_changes - written < people + 50
        profiles.store.close()
    assert peaks[1] < 1.5 * peaks[0]
