"""Destinations that are added: told what the others know, once, and nobody else is told anything."""

from __future__ import annotations

import pytest

from hookline.people.store.people import People
from hookline.people.sync import sync
from hookline.people.sync.results import SyncResults
from tests.unit.conftest import LocationOf
from tests.unit.people.memory_journal import NOW_MS, record
from tests.unit.people.test_sync_model import Profiles

PROS = {("pros", f"u{n}"): "true" for n in range(4)}


@pytest.fixture
def profiles(location_of: LocationOf, monkeypatch: pytest.MonkeyPatch) -> Profiles:
    """Four people whose plan is x, told to nobody yet; one message of a sync at a time, two of an first_sync."""
    monkeypatch.setattr(sync, "MESSAGES_PER_STEP", 1)
    monkeypatch.setattr(sync, "FIRST_SYNC_PEOPLE_PER_STEP", 2)
    found = Profiles(location_of("profiles"))
    found.journal.append(*(record("identify", f"m{n}", userId=f"u{n}", traits={"plan": "x"}) for n in range(4)))
    return found


def of_pros(profiles: Profiles, destination: str) -> dict[tuple[str, str], str]:
    """What a destination was told of one audience."""
    return {key: value for key, value in profiles.known[destination].items() if key[0] == "pros"}


def test_members_are_synced_to_the_new_one_alone(profiles: Profiles) -> None:
    """Without waiting for the next sync, under messageIds of its own; who was never in is not told."""
    profiles.journal.append(record("identify", "m9", userId="other", traits={"plan": "y"}))
    profiles.sync_all()
    before, synced = set(profiles.seen), dict(profiles.synced)
    profiles.aim(("crm", "mail"))
    while profiles.tell():
        pass
    assert of_pros(profiles, "mail") == PROS
    assert profiles.synced == synced
    assert len(profiles.seen) > len(before)
    profiles.sync_all()
    profiles.restart()
    profiles.sync_all()
    assert of_pros(profiles, "mail") == PROS


def test_nobody_is_synced_under_an_id_that_was_given_up(profiles: Profiles) -> None:
    """Between an alias and the next look at everybody: it would stay in the new one for good."""
    profiles.sync_all()
    profiles.journal.append(record("alias", "m9", userId="new", previousId="u0"))
    while profiles.ingest.step():
        pass
    profiles.aim(("crm", "mail"))
    while profiles.tell():
        pass
    assert ("pros", "u0") not in of_pros(profiles, "mail")
    profiles.sync_all()
    assert of_pros(profiles, "mail") == {("pros", f"u{n}"): "true" for n in range(1, 4)} | {("pros", "new"): "true"}


def test_one_that_is_added_while_a_sync_is_synced(profiles: Profiles) -> None:
    """The sync goes on to the others; the new one is told of everybody, once."""
    profiles.ingest.step()
    profiles.ingest.step()
    while len(of_pros(profiles, "crm")) < 2:
        profiles.sync.evaluate(profiles.now_ms)
        profiles.tell()
    profiles.aim(("crm", "mail"))
    while of_pros(profiles, "crm") != PROS:
        assert profiles.tell()
        assert of_pros(profiles, "mail") == {}
    profiles.sync_all()
    assert of_pros(profiles, "mail") == of_pros(profiles, "crm") == PROS


def test_a_crash_in_the_middle_repeats_messages_and_tells_nobody_twice(profiles: Profiles) -> None:
    """What was appended and not noted is appended again under the same ids."""
    profiles.sync_all()
    profiles.aim(("crm", "mail"))
    assert profiles.tell(then_crash=True)
    profiles.sync_all()
    assert of_pros(profiles, "mail") == PROS


def test_one_that_is_added_while_another_is_synced(profiles: Profiles) -> None:
    """The first is told of everybody, then the second; one that is taken out meanwhile is told no more."""
    profiles.sync_all()
    profiles.aim(("crm", "mail"))
    while len(of_pros(profiles, "mail")) < 2:
        profiles.tell()
    profiles.aim(("crm", "mail", "shop"))
    while profiles.tell():
        pass
    assert of_pros(profiles, "mail") == of_pros(profiles, "shop") == PROS
    profiles.aim(("crm",))
    profiles.aim(("crm", "mail"))
    profiles.tell()
    profiles.aim(("crm",))
    profiles.sync_all()
    assert not profiles.sync.to_send(profiles.now_ms)
    profiles.aim(("crm", "shop"))
    profiles.sync_all()
    assert of_pros(profiles, "shop") == PROS
    assert profiles.store.connection.execute("SELECT count(*) FROM introductions").fetchone() == (0,)


def test_one_that_is_taken_out_in_the_middle_begins_anew_when_it_is_added_again(profiles: Profiles) -> None:
    """What others were sent meanwhile was not for it."""
    profiles.sync_all()
    profiles.aim(("crm", "mail"))
    while len(of_pros(profiles, "mail")) < 2:
        profiles.tell()
    profiles.aim(("crm",))
    profiles.journal.append(record("identify", "m9", userId="u0", traits={"plan": "y"}))
    profiles.sync_all()
    profiles.aim(("crm", "mail"))
    profiles.sync_all()
    assert of_pros(profiles, "crm") == PROS | {("pros", "u0"): "false"}
    assert of_pros(profiles, "mail") == {key: value for key, value in PROS.items() if key[1] != "u0"}


def test_who_was_withheld_is_synced_to_the_new_one_when_next_looked_at(profiles: Profiles) -> None:
    """Others hear it again; that somebody has left since is news for them, too."""
    profiles.sync_all()
    profiles.aim(("crm", "mail"))
    while (found := profiles.sync.to_send(profiles.now_ms)) is not None:
        sending, messages = found
        people = [person for person, _ in messages]
        profiles.sync.sent(sending, people, profiles.now_ms, withheld=people)
    profiles.sync_all()
    assert of_pros(profiles, "mail") == {}
    profiles.known["crm"].clear()
    profiles.journal.append(
        record("identify", "m8", NOW_MS + 1, userId="u1", traits={"plan": "y"}),
        record("identify", "m9", userId="u2", traits={"seats": 1}),
    )
    profiles.sync_all()
    assert of_pros(profiles, "crm") == of_pros(profiles, "mail") == {("pros", "u1"): "false", ("pros", "u2"): "true"}
    profiles.aim(("crm", "mail", "shop"))
    profiles.sync_all()
    assert of_pros(profiles, "shop") == {("pros", "u2"): "true"}


def test_the_other_destination_instead(profiles: Profiles) -> None:
    """In the middle of a sync, with nobody left who is in step: what was to be told is told to the new one."""
    profiles.ingest.step()
    profiles.ingest.step()
    while not of_pros(profiles, "crm"):
        profiles.sync.evaluate(profiles.now_ms)
        profiles.tell()
    profiles.aim(("mail",))
    profiles.sync_all()
    assert of_pros(profiles, "mail") == PROS


@pytest.mark.parametrize("then_crash", [False, True])
@pytest.mark.parametrize(("is_disabled", "destination"), [(False, "mail"), (False, "crm"), (True, "mail")])
def test_who_left_while_nobody_was_synced_is_not_sent_to_the_next_one(
    profiles: Profiles, is_disabled: bool, destination: str, then_crash: bool
) -> None:
    """Nobody knows what was sent before: also the one that there was comes back as a new one."""
    profiles.sync_all()
    if is_disabled:
        profiles.sync.follow([], profiles.made)
    else:
        profiles.aim(())
    profiles.journal.append(record("identify", "m9", NOW_MS + 1, userId="u0", traits={"plan": "y"}))
    profiles.sync_all()
    profiles.aim((destination,))
    profiles.tell(then_crash)
    profiles.sync_all()
    assert of_pros(profiles, destination) == {key: value for key, value in PROS.items() if key[1] != "u0"}
    who_left = People(profiles.store.connection).by_user_id("u0")
    assert who_left is not None
    assert ("audience", "pros") in SyncResults(profiles.store.connection).sent_about(who_left)


def test_a_file_from_before_tells_nobody_anew(profiles: Profiles) -> None:
    """Whom a definition was sent to when this began to be written down counts as told."""
    profiles.sync_all()
    profiles.store.connection.execute("UPDATE definitions SET told = NULL")
    seen = len(profiles.seen)
    profiles.restart()
    profiles.sync_all()
    assert len(profiles.seen) == seen
    assert profiles.now_ms > NOW_MS
