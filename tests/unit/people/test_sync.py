"""Single cases of syncs."""

from __future__ import annotations

from pathlib import Path
from shutil import copy

import msgspec
import pytest

from hookline.people.definitions.definition import CompiledDefinition, in_order
from hookline.people.sync import sync
from hookline.people.sync.results import SyncResults
from tests.unit.conftest import LocationOf
from tests.unit.people.memory_journal import NOW_MS, record
from tests.unit.people.test_sync_model import AUDIENCES, READY, TRAITS, Profiles


@pytest.fixture
def profiles(location_of: LocationOf) -> Profiles:
    """People with audiences, and a receiver."""
    return Profiles(location_of("profiles"))


def test_a_new_user_id_is_synced_what_the_old_one_was(profiles: Profiles) -> None:
    """After an alias to an id that nobody had, receivers know the person under it as well."""
    profiles.journal.append(record("identify", "m1", userId="old", traits={"plan": "x"}))
    profiles.sync_all()
    assert profiles.synced["pros", "old"] == "true"
    profiles.journal.append(record("alias", "m2", userId="new", previousId="old"))
    profiles.sync_all()
    assert profiles.synced["pros", "new"] == "true"


def test_without_news_nobody_is_synced_anything(profiles: Profiles) -> None:
    """The second sync of the same people sends nothing, the third one neither."""
    profiles.journal.append(record("identify", "m1", userId="u", traits={"plan": "x"}))
    profiles.sync_all()
    told = len(profiles.seen)
    profiles.sync_all()
    profiles.restart()
    profiles.sync_all()
    assert told > 0
    assert len(profiles.seen) == told


def test_who_is_touched_often_is_noted_once_until_a_sync_looks(profiles: Profiles) -> None:
    """The members of a group whose traits change in every batch, as anybody; each sync hears of all that came."""
    touched = "SELECT count(*) FROM touched"

    def apply(*batches: int) -> int:
        for number in batches:
            profiles.journal.append(
                record("group", f"g{number}", userId="u0", groupId="g", traits={"size": number}),
                record("identify", f"i{number}", userId="u1", traits={"n": number}),
            )
            while profiles.ingest.step():
                pass
        return int(profiles.store.connection.execute(touched).fetchone()[0])

    profiles.sync_all()
    profiles.journal.append(*(record("group", f"m{n}", userId=f"u{n}", groupId="g") for n in range(5)))
    assert apply(1, 2, 3) == 5
    profiles.sync_all()
    assert apply() == 0
    assert apply(4, 5) == 5
    begun = profiles.store.looked()
    assert apply(6, 7) == 5  # the members again, each by a newer number
    assert profiles.store.looked() > begun
    profiles.restart()  # nobody knows any more when they were noted
    assert apply(8) == 10


def five_members(profiles: Profiles, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Take in five people whom an audience has, two of whom are looked at in a step; return their user ids."""
    monkeypatch.setattr(sync, "PEOPLE_PER_STEP", 2)
    users = [f"u{number}" for number in range(5)]
    profiles.journal.append(*(record("identify", id, userId=id, traits={"plan": "x"}) for id in users))
    while profiles.ingest.step():
        pass
    return users


@pytest.mark.parametrize("is_written", [False, True])
def test_who_was_in_a_step_that_failed_is_synced(
    profiles: Profiles, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    """Whether it was undone, or only nobody heard that it was written."""
    users = five_members(profiles, monkeypatch)
    for _ in range(4 * len(READY)):  # as many steps as all of them take
        profiles.fail(is_written)
    profiles.sync_all()
    assert [profiles.synced.get(("pros", id)) for id in users] == ["true"] * 5


def test_a_look_at_everybody_ends_while_other_connections_change(
    profiles: Profiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Again and again: it goes on where it is, unless the definition itself has changed."""
    users = five_members(profiles, monkeypatch)
    for _ in range(20 * len(READY)):
        profiles.sync.evaluate(profiles.now_ms)
        profiles.sync.follow(in_order(AUDIENCES, TRAITS), profiles.made)
        profiles.tell()
    assert [profiles.synced.get(("pros", id)) for id in users] == ["true"] * 5


def test_definitions_take_turns_where_looking_takes_longer_than_syncs_may(profiles: Profiles) -> None:
    """Those that are due again do not go before those that were not looked at yet."""
    profiles.journal.append(record("identify", "m1", userId="u", traits={"plan": "x"}))
    while profiles.ingest.step():
        pass
    for _ in range(20 * len(READY)):
        profiles.sync.evaluate(profiles.now_ms)
        profiles.now_ms += 1_000
        profiles.tell()
    syncs = [number for (number,) in profiles.store.connection.execute("SELECT number FROM definitions")]
    assert min(syncs) >= max(syncs) - 1 > 0


def test_who_is_not_known_by_a_user_id_is_synced_later(profiles: Profiles) -> None:
    """An anonymous member is told once there is a user id to tell."""
    profiles.journal.append(record("identify", "m1", anonymousId="a", traits={"plan": "x"}))
    profiles.sync_all()
    assert not profiles.synced
    profiles.journal.append(record("page", "m2", anonymousId="a", userId="u"))
    profiles.sync_all()
    assert profiles.synced["pros", "u"] == "true"


def test_entries_leave_with_their_window(profiles: Profiles) -> None:
    """Nothing has to happen for a member to go."""
    profiles.journal.append(*(record("track", f"m{n}", NOW_MS, event="Order", userId="u") for n in range(2)))
    profiles.sync_all()
    assert profiles.synced["buyers", "u"] == "true"
    profiles.now_ms += 3_000
    profiles.sync_all()
    assert profiles.synced["buyers", "u"] == "false"


def test_only_who_was_in_can_go(profiles: Profiles) -> None:
    """Whose time is still to come is noted, and is counted as neither come nor gone until something changes."""

    def counts() -> tuple[int, int]:
        syncs = SyncResults(profiles.store.connection).syncs(("audience", "cooling"), 100)
        return sum(each.came for each in syncs), sum(each.went for each in syncs)

    profiles.journal.append(record("track", "m1", NOW_MS + 60_000, event="Order", userId="u"))
    profiles.sync_all()
    assert counts() == (0, 0)
    profiles.now_ms = NOW_MS + 60_500
    profiles.sync_all()
    assert counts() == (1, 0)
    profiles.now_ms += 60_000
    profiles.sync_all()
    assert counts() == (1, 1)


def test_who_was_withheld_is_synced_when_next_looked_at(profiles: Profiles) -> None:
    """The sync ends without them, and until then nobody is sent anything more."""
    profiles.journal.append(*(record("identify", f"m{n}", userId=f"u{n}", traits={"plan": "x"}) for n in range(2)))
    profiles.ingest.step()
    while profiles.sync.evaluate(profiles.now_ms):
        pass
    while (found := profiles.sync.to_send(profiles.now_ms)) is not None:
        sending, messages = found
        people = [person for person, _ in messages]
        profiles.sync.sent(sending, people, profiles.now_ms, withheld=people)
    profiles.sync_all()
    assert profiles.sync.sent_total == len(profiles.synced) == 0
    profiles.journal.append(record("identify", "m9", userId="u1", traits={"seats": 1}))
    profiles.sync_all()
    assert {user_id: value for (trait, user_id), value in profiles.synced.items() if trait == "pros"} == {"u1": "true"}


def test_an_audience_that_changes_while_it_is_synced(profiles: Profiles) -> None:
    """Who was told already that they are in is told that they are out: another sync, another messageId."""
    people = [record("identify", f"m{n}", userId=f"u{n}", traits={"plan": "x"}) for n in range(3)]
    profiles.journal.append(*people)
    profiles.ingest.step()
    while not any(trait == "pros" for trait, _ in profiles.synced):
        profiles.sync.evaluate(profiles.now_ms)
        profiles.tell()
    others = [each for each in AUDIENCES if each.id != "pros"]
    (pros,) = (each for each in AUDIENCES if each.id == "pros")
    condition = msgspec.structs.replace(pros.condition, if_='traits.plan = "y"')
    changed = in_order([*others, msgspec.structs.replace(pros, condition=condition)], TRAITS)
    profiles.sync.follow(changed, profiles.made)
    profiles.sync_all()
    assert {value for (trait, _), value in profiles.synced.items() if trait == "pros"} == {"false"}


def test_an_audience_that_is_made_again_is_synced_again(profiles: Profiles) -> None:
    """Also where its syncs repeat the numbers, users and values of the one that was deleted: another messageId each."""
    profiles.journal.append(*(record("identify", f"m{n}", userId=f"u{n}", traits={"plan": "x"}) for n in range(3)))
    profiles.ingest.step()
    profiles.sync_all()
    synced = dict(profiles.synced)
    assert {key[0] for key in synced} >= {"pros"}
    profiles.make_again()
    profiles.sync_all()
    assert profiles.synced == synced


def test_an_audience_that_was_made_again_between_two_looks_is_synced_again(profiles: Profiles) -> None:
    """Nobody has seen that it was gone: its version says so. Changes come and go with the one that was deleted."""
    profiles.journal.append(*(record("identify", f"m{n}", userId=f"u{n}", traits={"plan": "x"}) for n in range(3)))
    profiles.sync_all()
    synced = dict(profiles.synced)
    profiles.synced.clear()
    profiles.made = dict.fromkeys(profiles.made, 2)
    profiles.sync.follow(READY, profiles.made)
    profiles.sync_all()
    assert profiles.synced == synced
    results = SyncResults(profiles.store.connection)
    assert [each.number for each in results.syncs(("audience", "pros"), 100)][-1] == 1


def test_a_value_that_changed_in_a_sync_that_is_made_anew_is_synced(tmp_path: Path) -> None:
    """A power cut, or a copy that is put back, takes profiles to before a sync that destinations have heard of."""
    path, before = tmp_path / "profiles.db", tmp_path / "before.db"
    profiles = Profiles(path)
    profiles.journal.append(record("track", "m1", NOW_MS, event="Order", userId="u", properties={"total": 3}))
    profiles.ingest.step()
    profiles.store.close()
    copy(path, before)
    profiles.open()
    profiles.sync_all()
    assert profiles.synced["spend", "u"] == "3"
    profiles.store.close()
    copy(before, path)
    profiles.open()
    profiles.journal.append(record("track", "m2", NOW_MS, event="Order", userId="u", properties={"total": 4}))
    profiles.ingest.step()
    profiles.sync_all()
    assert profiles.synced["spend", "u"] == "7"


def renamed(name: str) -> list[CompiledDefinition]:
    """All definitions, the audience of the pros under another name."""
    others = [each for each in AUDIENCES if each.id != "pros"]
    (pros,) = (each for each in AUDIENCES if each.id == "pros")
    return in_order([*others, msgspec.structs.replace(pros, name=name)], TRAITS)


def synced_as(profiles: Profiles, trait: str) -> dict[str, str]:
    """What destinations know of a trait, by user."""
    return {user_id: value for (name, user_id), value in profiles.synced.items() if name == trait}


def test_an_audience_with_a_new_name_is_synced_under_it(profiles: Profiles) -> None:
    """Its name is the trait's: every member is sent as if for the first time, once, and who left before is not."""
    people = [record("identify", f"m{n}", userId=f"u{n}", traits={"plan": "x"}) for n in range(3)]
    profiles.journal.append(*people)
    profiles.sync_all()
    profiles.journal.append(record("identify", "m9", userId="u2", traits={"plan": "y"}))
    profiles.sync_all()
    assert synced_as(profiles, "pros") == {"u0": "true", "u1": "true", "u2": "false"}
    profiles.sync.follow(renamed("Experts"), profiles.made)
    profiles.sync_all()
    assert synced_as(profiles, "experts") == {"u0": "true", "u1": "true"}
    seen = len(profiles.seen)
    profiles.ready = renamed("EXPERTS")
    profiles.restart()
    profiles.sync_all()
    assert len(profiles.seen) == seen


def test_an_audience_that_is_renamed_while_it_is_synced(profiles: Profiles) -> None:
    """Also while it is disabled, and in the middle of a sync: who was sent under the old name is sent under the new."""
    people = [record("identify", f"m{n}", userId=f"u{n}", traits={"plan": "x"}) for n in range(3)]
    profiles.journal.append(*people)
    profiles.ingest.step()
    while not synced_as(profiles, "pros"):
        profiles.sync.evaluate(profiles.now_ms)
        profiles.tell()
    profiles.sync.follow([each for each in READY if each.trait != "pros"], profiles.made)
    profiles.sync.follow(renamed("Experts"), profiles.made)
    profiles.sync_all()
    assert synced_as(profiles, "experts") == {f"u{n}": "true" for n in range(3)}


def test_a_file_from_before_the_names_were_kept_sends_nothing_anew(profiles: Profiles) -> None:
    """The name at the first look is taken for the one that was sent."""
    profiles.journal.append(record("identify", "m1", userId="u", traits={"plan": "x"}))
    profiles.sync_all()
    profiles.store.connection.execute("UPDATE definitions SET trait = NULL")
    seen = len(profiles.seen)
    profiles.restart()
    profiles.sync_all()
    assert len(profiles.seen) == seen
    profiles.sync.follow(renamed("Experts"), profiles.made)
    profiles.sync_all()
    assert synced_as(profiles, "experts") == {"u": "true"}


def test_what_an_earlier_version_began_is_synced_once(profiles: Profiles) -> None:
    """The sync under way goes on under its ids, the next ones are told from those of another definition."""
    profiles.journal.append(*(record("identify", f"m{n}", userId=f"u{n}", traits={"plan": "x"}) for n in range(3)))
    profiles.ingest.step()
    profiles.store.connection.execute("UPDATE definitions SET made = NULL")
    while profiles.sync.evaluate(profiles.now_ms) or (profiles.tell(then_crash=True) and profiles.tell()):
        pass
    assert [profiles.synced["pros", f"u{n}"] for n in range(3)] == ["true"] * 3
    made = profiles.store.connection.execute("SELECT DISTINCT made FROM definitions").fetchall()
    assert made == [(1,)]


def test_an_audience_that_was_disabled_misses_nothing(profiles: Profiles) -> None:
    """What happened meanwhile is told once it is enabled again, and nothing waits for it in between."""
    profiles.sync_all()
    without = [ready for ready in READY if ready.trait != "pros"]
    profiles.sync.follow(without, profiles.made)
    profiles.journal.append(record("identify", "m1", userId="u", traits={"plan": "x"}))
    profiles.sync_all()
    assert profiles.store.connection.execute("SELECT count(*) FROM touched").fetchone() == (0,)
    assert ("pros", "u") not in profiles.synced
    profiles.sync.follow(READY, profiles.made)
    profiles.sync_all()
    assert profiles.synced["pros", "u"] == "true"
