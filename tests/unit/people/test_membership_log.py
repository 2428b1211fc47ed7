"""The history of membership: each coming and going with its sync, over merges, bounded, and gone with the person."""

from __future__ import annotations

import pytest

from hookline.people.ingest.erasing import Erasing
from hookline.people.store import people
from hookline.people.store.people import People, changes_of
from hookline.privacy.identities import given
from tests.unit.conftest import LocationOf
from tests.unit.people.memory_journal import record
from tests.unit.people.test_sync_model import READY, Profiles


@pytest.fixture
def profiles(location_of: LocationOf) -> Profiles:
    """People with audiences; pros are those whose plan is x."""
    return Profiles(location_of("profiles"))


def plan(profiles: Profiles, number: int, value: str, **who: str) -> int:
    """Give somebody a plan, sync, and return the sync's number."""
    who = who or {"userId": "u"}
    profiles.journal.append(record("identify", f"p{number}", profiles.now_ms, traits={"plan": value}, **who))
    profiles.sync_all()
    query = "SELECT number FROM definitions WHERE name = 'pros'"
    return int(profiles.store.connection.execute(query).fetchone()[0])


def history(profiles: Profiles, user: str = "u") -> list[tuple[bool, int | None]]:
    """Came or went, and by which sync, newest first."""
    person = People(profiles.store.connection).by_user_id(user)
    assert person is not None
    return [(each.member, each.sync) for each in changes_of(profiles.store.connection, person, "pros")]


def test_coming_and_going_is_kept_with_its_sync(profiles: Profiles) -> None:
    """What changes nothing is no entry; who never was a member has no history."""
    plan(profiles, 0, "y")
    assert history(profiles) == []
    came = plan(profiles, 1, "x")
    plan(profiles, 2, "x")
    went = plan(profiles, 3, "y")
    again = plan(profiles, 4, "x")
    assert history(profiles) == [(True, again), (False, went), (True, came)]
    assert came < went < again
    profiles.restart()
    assert len(history(profiles)) == 3


def test_over_all_audiences_each_is_named(profiles: Profiles) -> None:
    """Without an audience, the changes of all of them, in one order."""
    plan(profiles, 1, "x")
    profiles.journal.append(record("track", "o1", profiles.now_ms, event="Order", userId="u"))
    profiles.sync_all()
    person = People(profiles.store.connection).by_user_id("u")
    assert person is not None
    changes = changes_of(profiles.store.connection, person)
    assert {each.audience for each in changes if each.member} == {"pros", "idle", "cooling"}
    assert {each.audience for each in changes if not each.member} == {"idle"}


@pytest.mark.parametrize("now", ["x", "y"])
def test_a_merge_joins_histories(profiles: Profiles, now: str) -> None:
    """Whoever was a member under either number was one; the merge itself is no change where one of them stays one."""
    first = plan(profiles, 1, "x", anonymousId="a")
    plan(profiles, 2, "x", userId="u")
    profiles.journal.append(record("identify", "both", profiles.now_ms + 1, userId="u", anonymousId="a"))
    plan(profiles, 3, "x", userId="u")
    assert history(profiles) == [(True, first)]
    last = plan(profiles, 4, now, userId="u")
    assert history(profiles) == [*([(False, last)] if now == "y" else []), (True, first)]


def test_it_is_bounded(profiles: Profiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many changes the newest stay."""
    monkeypatch.setattr(people, "CHANGES_MAX", 4)
    syncs = [plan(profiles, n, "xy"[n % 2]) for n in range(10)]
    assert history(profiles) == [(n % 2 == 0, syncs[n]) for n in (9, 8, 7, 6)]


def test_it_goes_with_the_person_and_with_the_audience(profiles: Profiles) -> None:
    """Nothing is left under the person's numbers, nor of an audience that is deleted."""
    for number, value in enumerate("xyx"):
        plan(profiles, number, value, userId="u")
        plan(profiles, number + 10, value, userId="v")
    with profiles.store.transaction() as execute:
        Erasing(profiles.store, execute, {}).erase(given(["u"]))
    query = "SELECT count(DISTINCT person) FROM membership_changes"
    assert profiles.store.connection.execute(query).fetchone() == (1,)
    assert len(history(profiles, "v")) == 3
    without = [ready for ready in READY if ready.key[1] != "pros"]
    profiles.sync.follow(without, {ready.key: 1 for ready in without})
    assert history(profiles, "v") == []
    profiles.sync.follow(READY, profiles.made | {("audience", "pros"): 2})
    assert history(profiles, "v") == []
