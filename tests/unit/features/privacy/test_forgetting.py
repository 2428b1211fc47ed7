"""Ids of erased people leave control's own database: rows, free pages and log."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from hookline.api.audit.log import AuditChange, AuditLog
from hookline.api.caller import Caller
from hookline.api.services import control_database
from hookline.connections.store import Store
from hookline.database.connect import Shared
from hookline.features.issues.store import IssueStore
from hookline.features.notifications.channels import Result
from hookline.features.privacy.forgetting import ErasedIds, ErasedProfiles, Forgetting
from hookline.features.replays.service import replay_store
from hookline.outcomes.rows import CauseCount
from hookline.people.definitions.definition import in_order
from hookline.privacy.suppressions import LogNotEmptied
from hookline.replays.dead_letters import DeadLetterFilter
from hookline.replays.model import ReplayRequest
from hookline.replays.store import ReplayFeed, ReplayStore
from hookline.settings import Settings
from tests.unit.conftest import LocationOf
from tests.unit.control.running import Running
from tests.unit.database.held_log import held_log
from tests.unit.features.notifications.rig import Rig
from tests.unit.people.memory_journal import NOW_MS
from tests.unit.people.memory_journal import record as profile_record
from tests.unit.people.test_sync_model import AUDIENCES, TRAITS, Profiles

USER, MESSAGE = "person-of-the-test", "message-of-the-test"
NAMED = {"event_name_new": False, "events_rejected": True}
"""Which notices still say the person's id: as the name of a source, not as what came in."""


def test_replays_and_the_audit_log_forget_a_person(location_of: LocationOf) -> None:
    """What named them is cancelled and says ``erased``, what is about others stays; no byte is left in a file."""
    place = location_of("control")
    connections = Store(place)
    replays, shared = ReplayStore(place), Shared(place)
    audit = AuditLog(shared)
    requests = [
        ReplayRequest(destination="crm", user_id=USER),
        ReplayRequest(destination="crm", message_ids=(MESSAGE, "another")),
        ReplayRequest(destination="crm", user_id="somebody else"),
    ]
    lanes = [replays.create(each, 1, {0: 0}, {0: 9}, "me", "running").lane for each in requests]
    for lane, value in zip(lanes, (USER, [MESSAGE, "another"], "somebody else"), strict=True):
        change = AuditChange(f"replays/r{lane}", "userId", None, value)
        audit.record(
            Caller("account", "me", "owner", 1), "create_replay", f"replays/r{lane}", "127.0.0.1", "r", [change]
        )
    Forgetting(shared, replays).forget({USER}, {MESSAGE})
    found = [replays.get(lane) for lane in lanes]
    assert [each and each.state for each in found] == ["cancelled", "cancelled", "running"]
    assert [each and each.request.user_id for each in found] == ["erased", None, "somebody else"]
    assert found[1] is not None
    assert found[1].request.message_ids == ("erased", "another")
    assert [entry.changes[0].after for entry in audit.newest(9)] == ["somebody else", ["erased", "another"], "erased"]
    if isinstance(place, Path):
        files = b"".join(file.read_bytes() for file in place.parent.glob("control.db*"))
        assert USER.encode() not in files
        assert MESSAGE.encode() not in files
    shared.close()
    replays.close()
    connections.close()


def test_issues_forget_words_that_name_a_person(location_of: LocationOf) -> None:
    """What names them says nothing any more, whatever the case; the issue itself stays, and others are not touched."""
    place = location_of("control")
    issues, replays, shared = IssueStore(place), ReplayStore(place), Shared(place)
    words = {
        1: f"No account {USER.upper()}.",
        2: "Unknown: ann lee",
        3: f"Not {USER}s",
        4: "another",
        5: "No account auth0|ann-lee",
    }
    counts = [CauseCount("crm", cause, "refused", 422, 0, 1, 1, 10, 10, cause) for cause in words]
    issues.add(counts, lambda count: words[count.cause], (0, 0), (5, 10), 0)
    Forgetting(shared, replays).forget({USER, "Ann Lee", "auth0|ann-lee"}, {MESSAGE})
    left = {each.cause: each.message for each in issues.newest(9)}
    assert left == {1: None, 2: None, 3: words[3], 4: words[4], 5: None}
    if isinstance(place, Path):
        files = b"".join(file.read_bytes() for file in place.parent.glob("control.db*"))
        assert USER.upper().encode() not in files
    for each in (issues, replays, shared):
        each.close()


@pytest.mark.parametrize(
    ("id", "text", "left"),
    [
        ("4711", "/users/4711/orders", "/users/erased/orders"),
        ("4711", "order_4711", "order_erased"),
        ("4711", "14711 and 4711x", "14711 and 4711x"),
        ("Ann@Example.com", "mail to ann@example.com.", "mail to erased."),
        ("ann lee", "“Ann  Lee” or “ann lee”", "“Ann  Lee” or “erased”"),
        ("auth0|5f", "auth0|5f, auth0|5, auth0-5f", "erased, auth0|5, auth0-5f"),
        ("5f-00", "a5f-00 5f-00-5f-00 5f-001", "a5f-00 erased-erased 5f-001"),
        ("/7/", "Step 7", "Step erased"),
        ("user ßmith", "USER SSMITH", "erased"),
        ("--", "a -- b", "a -- b"),
        ("", "nobody", "nobody"),
    ],
)
def test_ids_are_found_in_texts(id: str, text: str, left: str) -> None:
    """Wherever no letter or digit is next to them: more than was meant is no harm, and less is."""
    erased = ErasedIds({id, "another"})
    assert erased.taken_from(text) == left
    assert erased.are_in(text) == (left != text)


def test_notices_and_notifications_forget_names_that_hold_an_id(location_of: LocationOf) -> None:
    """A new event name that named the person does so no more, in what was said and in what is still to be sent; other
    notices are as they were, for they quote nobody."""
    place = location_of("control")
    rig, replays, shared = Rig(place), ReplayStore(place), Shared(place)
    rig.put(when=["new_event_name", "rejected_events"])
    rig.put(id="later", when=["new_event_name"], quietHours={"from": "10:00", "to": "13:00", "timeZone": "UTC"})
    rig.look()
    rig.channels.results = [Result("refused")] * 99
    rig.begins("site", "event_name_new", detail=f"“Order of {USER}”")
    rig.begins(USER, "events_rejected", detail="3 in the last hour")
    rig.begins("warehouse", "destination_schema_changed", detail=f"table order_of_{USER}")
    assert rig.pass_time(120)
    rig.channels.results.clear()
    forgetting = Forgetting(shared, replays)
    forgetting.forget_names({USER})
    forgetting.forget_names({USER})
    held = [notice.message for outage in rig.log.outages() for notice in outage.notices.values()]
    assert sorted(USER in each for each in held) == [False, False, True]
    assert sorted(USER in each.message for each in rig.notices.newest(9)) == [False, False, True]
    items = [item for content in rig.pass_time(1_200) for item in content.items]
    assert {each.kind: USER in each.message for each in items} == NAMED
    assert any("“Order of erased”" in each.message for each in items)
    rig.close()
    shared.close()
    replays.close()


def test_views_that_look_for_a_person_go(control: Running) -> None:
    """Whoever saved them, and however the id is written; those of others stay."""
    wanted = (
        ("/events", "userId=alice%40example.com", True),
        ("/people/user/alice%40example.com", "", False),
        ("/events", "messageId=m1&source=site", False),
        ("/events", "userId=bob&text=alice", True),
    )
    for number, (path, query, shared) in enumerate(wanted):
        made = control.api("POST", "/views", {"name": f"v{number}", "path": path, "query": query, "shared": shared})
        assert made.status == 201
    forgetting = Forgetting(control_database(control.services), replay_store(control.services))
    forgetting.forget({"alice@example.com"}, {"m1"})
    assert [each["name"] for each in control.api("GET", "/views").json["items"]] == ["v3"]


@pytest.mark.parametrize(
    ("path", "query", "stays"),
    [
        ("/events", "event=Order+of+4711", False),
        ("/events", "text=%224711%22&source=site", False),
        ("/sources/site/events/Order%20of%204711", "", False),
        ("/events", "event=Order+of+14711", True),
        ("/destinations/crm-4711/attempts", "httpStatus=4711&source=s-4711", True),
    ],
)
def test_views_of_names_that_hold_an_id_go(control: Running, path: str, query: str, stays: bool) -> None:
    """As names are looked for everywhere; what an operator named, or counted, is no reason."""
    assert control.api("POST", "/views", {"name": "v", "path": path, "query": query}).status == 201
    Forgetting(control_database(control.services), replay_store(control.services)).forget_names({"4711"})
    assert bool(control.api("GET", "/views").json["items"]) == stays


def test_names_that_hold_an_id_go_from_replays_and_what_was_asked_of_dead_letters(location_of: LocationOf) -> None:
    """And from what the audit log says of these: also of a retry that began several replays. Open ones are cancelled,
    others are as they were."""
    place = location_of("control")
    connections = Store(place)
    replays, shared = ReplayStore(place), Shared(place)
    audit = AuditLog(shared)
    names = f"Order of {USER}", "Order", f"Order of {USER}s"
    lanes = [
        replays.create(request, 1, {0: 0}, {0: 9}, "me", "running").lane
        for name in names
        for request in (
            ReplayRequest(destination="crm", event=name),
            ReplayRequest(destination="crm", dead_letters=DeadLetterFilter(destination="crm", event=name)),
        )
    ]
    for name in names:
        replays.discard(DeadLetterFilter(destination="crm", event=name), "me")
        changes = [
            AuditChange("replays/r1", "event", None, name),
            AuditChange("replays/r2", "deadLetters", None, {"destination": "crm", "event": name}),
            AuditChange("destinations/crm", "event", None, name),
        ]
        audit.record(Caller("account", "me", "owner", 1), "retry", "dead-letters", "127.0.0.1", "r", changes)
    forgetting = Forgetting(shared, replays)
    for _ in range(2):
        forgetting.forget_names({USER})
    left = "Order of erased", "Order", f"Order of {USER}s"
    found = [each for lane in lanes if (each := replays.get(lane)) is not None]
    assert [each.state for each in found] == ["cancelled"] * 2 + ["running"] * 4
    events = [each.request.event or (each.request.dead_letters or DeadLetterFilter()).event for each in found]
    assert events == [name for name in left for _ in range(2)]
    feed = ReplayFeed(place)
    assert [each.dead_letters.event for each in feed.actions(0)] == list(left)
    entries = list(reversed(audit.newest(9)))
    assert [entry.changes[0].after for entry in entries] == list(left)
    assert [entry.changes[1].after for entry in entries] == [{"destination": "crm", "event": name} for name in left]
    assert [entry.changes[2].after for entry in entries] == list(names)
    feed.close()
    for each in (shared, replays, connections):
        each.close()


def test_a_log_that_cannot_be_emptied_is_no_success(tmp_path: Path) -> None:
    """Somebody reads the rows as they were, so they stand in the log still; it is tried again."""
    place = tmp_path / "control.db"
    replays, shared = ReplayStore(place), Shared(place)
    replays.create(ReplayRequest(destination="crm", user_id=USER), 1, {0: 0}, {0: 9}, "me", "running")
    forgetting = Forgetting(shared, replays)
    with held_log(place, shared.read):
        for _ in range(2):
            with pytest.raises(LogNotEmptied):
                forgetting.forget({USER}, ())
        with pytest.raises(LogNotEmptied):
            forgetting.forget_names({USER})
    forgetting.forget({USER}, ())
    forgetting.forget_names({USER})
    assert USER.encode() not in b"".join(file.read_bytes() for file in tmp_path.glob("control.db*"))
    with pytest.raises(LogNotEmptied, match="insights"):
        Forgetting(shared, replays, lambda is_named: False).forget_names({USER})
    shared.close()
    replays.close()


def test_what_syncs_have_sent_is_known_for_good(tmp_path: Path) -> None:
    """Of who has left since, after the audience or the person got another name, where one destination was sent nothing,
    and of an audience that was deleted and made again."""
    profiles = Profiles(tmp_path / "profiles.db")
    profiles.journal.append(
        *(profile_record("identify", f"m{n}", userId=f"u{n}", traits={"plan": "x"}) for n in (0, 1))
    )
    profiles.sync_all()
    profiles.journal.append(profile_record("identify", "m2", NOW_MS + 1, userId="u0", traits={"plan": "y"}))
    profiles.sync_all()
    erased = ErasedProfiles(Settings(data_dir=str(tmp_path)))
    sent = [{("audience", "pros"), ("audience", "idle")}] * 2
    assert erased.synced_by(["u0", "u1"]) == sent
    profiles.aim(("crm", "mail"))
    while (found := profiles.sync.to_send(profiles.now_ms)) is not None:
        sending, messages = found
        people = [person for person, _ in messages]
        profiles.sync.sent(sending, people, profiles.now_ms, withheld=people)
    assert erased.synced_by(["u0", "u1"]) == sent
    others = [each for each in AUDIENCES if each.id != "pros"]
    (pros,) = (each for each in AUDIENCES if each.id == "pros")
    profiles.sync.follow(in_order([*others, msgspec.structs.replace(pros, name="Experts")], TRAITS), profiles.made)
    profiles.sync_all()
    assert erased.synced_by(["u0", "u1"]) == sent
    profiles.journal.append(*(profile_record("alias", f"m{n}", userId=f"v{n}", previousId=f"u{n}") for n in (3, 4)))
    profiles.journal.append(profile_record("alias", "m5", userId="v0", previousId="u0"))
    profiles.sync_all()
    assert erased.synced_by(["u0", "u1"]) == sent
    profiles.journal.append(profile_record("alias", "m6", userId="v1", previousId="u1"))
    while profiles.ingest.step():  # and no sync has looked at them since
        pass
    assert erased.synced_by(["u0", "u1"]) == sent
    for _ in range(2):
        profiles.make_again()
        assert erased.synced_by(["u0", "u1"]) == sent
    erased.close()
    profiles.store.close()
