"""The status of an event, read by another process from what the deliver role left."""

from __future__ import annotations

import msgspec
import pytest

from hookline.connections.model import DeliveryOptions, Pause
from hookline.database.connect import connect
from hookline.database.location import location_of
from hookline.journal.record import Rejection
from hookline.outcomes.event_status import NOTHING_KNOWN, EventStatuses
from hookline.outcomes.outcome import Outcome
from hookline.settings import Deliver, Seconds
from tests.unit.deliver.conftest import MakeRig
from tests.unit.deliver.rig import Delete, Rig, destination, source


def begin(rig: Rig, *messages: str) -> None:
    """Start with one destination and these events on their way."""
    rig.change(source(), source("app"), destination("crm"))
    rig.start()
    if messages:
        rig.append(*messages)
        rig.turn()


def test_the_shape(rig: Rig) -> None:
    """The answer has the keys of an event's status (and ``status`` and ``rejection`` for the event as a whole)."""
    begin(rig, "m")
    rig.answer(rig.network.waiting[0], 503, milliseconds=12)
    rig.checkpoint()
    rig.pass_time(2.0)
    rig.answer(rig.network.waiting[0], 204, milliseconds=7)
    rig.checkpoint()
    found = msgspec.json.decode(msgspec.json.encode(rig.event("m")))
    (target,) = found.pop("destinations")
    first, second = target.pop("attempts")
    assert first.pop("id") != second.pop("id")
    next_at = first.pop("nextAt")
    assert "2026-11-20T07:16:40.000Z" < next_at <= "2026-11-20T07:16:41.000Z"
    assert found == {
        "messageId": "m",
        "source": "website",
        "type": "track",
        "userId": "u1",
        "receivedAt": "2026-11-20T07:16:40.000Z",
        "duplicates": 0,
        "status": None,
        "rejection": None,
        "event": {"type": "track", "event": "Order", "userId": "u1"},
        "warnings": [],
    }
    assert target == {"id": "crm", "status": "delivered", "reason": None, "rule": None, "replays": [], "detail": None}
    url = "https://crm.example.com/0"
    assert first == {
        "number": 1,
        "url": url,
        "at": "2026-11-20T07:16:39.988Z",
        "outcome": "server_error",
        "httpStatus": 503,
        "error": "no",
        "milliseconds": 12,
        "replay": None,
        "remark": None,
    }
    assert second == {
        "number": 2,
        "url": url,
        "at": "2026-11-20T07:16:41.993Z",
        "outcome": "success",
        "httpStatus": 204,
        "error": None,
        "milliseconds": 7,
        "nextAt": None,
        "replay": None,
        "remark": None,
    }


def test_waiting_before_anything_happened(rig: Rig) -> None:
    """Accepted is enough: no role needs to have seen the event, no database to exist."""
    rig.change(source(), destination("crm"))
    rig.append("m")
    assert rig.status_at("m", "crm") == "queued"
    rig.start()
    assert rig.status_at("m", "crm") == "queued"
    rig.turn()
    rig.checkpoint()
    assert rig.status_at("m", "crm") == "queued"


def test_delivered_at_once(rig: Rig) -> None:
    """A success is seen before any checkpoint, and the same after it."""
    begin(rig, "m")
    rig.answer_all(200)
    before = rig.event("m")
    assert before.destinations[0].status == "delivered"
    rig.checkpoint()
    assert rig.event("m") == before


def test_what_nothing_is_known_of_is_not_delivered(rig: Rig) -> None:
    """Attempts are kept as long as their events: where an event is there and nothing of its delivery, no status is
    made up, and the reason says so."""
    begin(rig, "m")
    rig.answer_all(200)
    rig.checkpoint()
    rig.kill()
    (rig.settings.data_path / "progress.ring").unlink()
    connection = connect(location_of(rig.settings, "deliver"))
    connection.execute("DELETE FROM outcome_blocks")
    connection.close()
    (found,) = rig.event("m").destinations
    assert (found.status, found.reason, found.detail) == ("queued", "next", NOTHING_KNOWN)


def test_retrying(rig: Rig) -> None:
    """A failure that is to be tried again says when."""
    begin(rig, "m")
    rig.answer_all(Outcome.NAME_NOT_RESOLVED)
    rig.checkpoint()
    found = rig.event("m").destinations[0]
    assert (found.status, found.attempts[0].outcome, found.attempts[0].http_status) == (
        "retrying",
        Outcome.NAME_NOT_RESOLVED,
        None,
    )
    assert found.attempts[0].next_at is not None


@pytest.mark.parametrize("how", [400, 302, 404, Outcome.BLOCKED_ADDRESS])
def test_failed(rig: Rig, how: int | Outcome) -> None:
    """A final answer ends it, and there is no next time."""
    begin(rig, "m")
    rig.answer_all(how)
    rig.checkpoint()
    found = rig.event("m").destinations[0]
    assert (found.status, found.attempts[0].next_at) == ("failed", None)


def test_expired(make_rig: MakeRig) -> None:
    """The window ended."""
    rig = make_rig(deliver=Deliver(retry_window=Seconds(2.0)))
    begin(rig, "m")
    for _ in range(6):
        rig.answer_all(500)
        rig.checkpoint()
        rig.pass_time(1.0)
    assert rig.status_at("m", "crm") == "expired"


def test_a_status_outlives_its_dead_letter(rig: Rig) -> None:
    """When the row of a dead letter was trimmed, the last attempt still tells which status it was."""
    begin(rig, "final", "late")
    rig.answer(rig.network.waiting[0], 404)
    rig.answer(rig.network.waiting[0], 500)
    rig.checkpoint()
    late = rig.role.engine.batch
    late.settle(rig.lane("crm").number, 0, 1)
    rig.checkpoint()
    rig.role.store._write.execute("DELETE FROM dead_letters")
    assert [rig.status_at(id, "crm") for id in ("final", "late")] == ["failed", "expired"]


def test_queued_behind_an_open_breaker(rig: Rig) -> None:
    """Behind an open breaker an event waits without an attempt, and the status says why."""
    begin(rig)
    lane = rig.lane("crm")
    rig.role.feeder.detach(lane)
    lane.breaker.open("test")
    rig.append("m")
    rig.turn()
    rig.checkpoint()
    found = rig.event("m").destinations[0]
    assert (found.status, found.reason, found.attempts) == ("queued", "breaker_open", ())


def test_queued_because_a_secret_is_missing(rig: Rig) -> None:
    """Nothing is sent, so the receiver is not what fails; once the settings are right, nothing of it is left."""
    rig.change(source(), destination("crm", secret="env:HOOKLINE_SECRET_NOT_THERE"))
    rig.start()
    rig.append("m")
    rig.turn()
    rig.checkpoint()
    found = rig.event("m").destinations[0]
    assert (found.status, found.reason) == ("queued", "breaker_open")
    assert "nothing is sent, because the environment variable HOOKLINE_SECRET_NOT_THERE" in (found.detail or "")
    rig.change(destination("crm", secret="plain"))
    assert rig.event("m").destinations[0].detail is None


def test_not_routed_with_each_reason(rig: Rig) -> None:
    """Every destination that did not get the event says why not."""
    begin(rig)
    rig.change(destination("off", enabled=False), destination("apps", sources=("app",)))
    rig.follow()
    rig.append("m", rig.record("unwanted", selection={"All": False}), rig.record("aimed", to=("apps",)))
    rig.turn()
    rig.come_to_rest()
    found = {each.id: (each.status, each.reason) for each in rig.event("m").destinations}
    assert found == {
        "crm": ("delivered", None),
        "off": ("not_routed", "destination_disabled"),
        "apps": ("not_routed", "source_not_connected"),
    }
    assert {each.reason for each in rig.event("unwanted").destinations if each.id == "crm"} == {
        "integrations_all_false"
    }
    assert {each.id: each.status for each in rig.event("aimed").destinations} == {
        "crm": "not_routed",
        "off": "not_routed",
        "apps": "delivered",
    }


def test_an_event_with_nowhere_to_go(rig: Rig) -> None:
    """Without any destination the event as a whole is not routed."""
    rig.change(source())
    rig.start()
    rig.append("m")
    rig.turn()
    rig.checkpoint()
    assert (rig.event("m").status, rig.event("m").destinations) == ("not_routed", ())


def test_repeats_are_counted_with_the_first(rig: Rig) -> None:
    """Asked by its id, a message is the first event; the repeat itself, as a record, is a duplicate of it."""
    begin(rig, "m", "other", "m")
    rig.come_to_rest()
    assert (rig.event("m").duplicates, rig.event("m").destinations[0].status) == (1, "delivered")
    assert rig.event("other").duplicates == 0
    record = rig.role.journal.get(0, 2)
    assert record is not None
    statuses = EventStatuses(rig.settings)
    repeat = statuses.of_record(0, 2, record).destinations[0]
    statuses.close()
    assert repeat.status == "duplicate"
    assert repeat.reason is not None
    assert "offset 0" in repeat.reason


def test_rejected(rig: Rig) -> None:
    """An item that was refused at the edge says why; a good one of the same id counts before it."""
    begin(rig)
    rejection = Rejection("missing_user_id", "Give a userId.")
    rig.append(rig.record("bad", rejection=rejection), rig.record("mended", rejection=rejection), "mended")
    rig.turn()
    rig.come_to_rest()
    bad = rig.event("bad")
    assert bad.rejection is not None
    assert (bad.status, bad.rejection.code, bad.destinations) == ("rejected", "missing_user_id", ())
    assert rig.status_at("mended", "crm") == "delivered"


def test_an_item_that_is_not_json_is_shown_as_text(rig: Rig) -> None:
    """What cannot be shown as it came is shown as a string, and the answer stays JSON."""
    begin(rig)
    for n, body in enumerate((b"{broken", b'{"a":"\xff"}', b"[" * 5_000)):
        rig.append(rig.record(f"m{n}", body=body, rejection=Rejection("invalid_json", "Not JSON.")))
        shown = msgspec.json.decode(msgspec.json.encode(rig.event(f"m{n}")))["event"]
        assert shown == body.decode("utf-8", "replace")


@pytest.mark.parametrize(
    ("given", "shown"), [(b"7", "7"), (b"7.0", "7"), (b"9.2233720368547758e+18", "9223372036854776000")]
)
def test_a_user_id_that_is_a_number_is_shown_as_it_is_sent(rig: Rig, given: bytes, shown: str) -> None:
    """By what is shown people are looked for, and deleted."""
    begin(rig, rig.record("m", body=b'{"type":"track","event":"Order","userId":%b}' % given))
    assert rig.event("m").user_id == shown
    assert msgspec.json.decode(rig.network.waiting[0].data.partition(b"\r\n\r\n")[2])["userId"] == shown


def test_erased(rig: Rig) -> None:
    """Nothing of an erased event is left to look up by its id; its record says erased and shows nothing."""
    begin(rig, "m")
    rig.come_to_rest()
    rig.appender.erase(0, [0])
    statuses = EventStatuses(rig.settings)
    record = rig.role.journal.get(0, 0)
    assert record is not None
    found = statuses.of_record(0, 0, record)
    gone = statuses.of_message("m")
    statuses.close()
    assert (found.status, bytes(found.event), found.destinations) == ("erased", b"null", ())
    assert gone is None


def test_discarded(rig: Rig) -> None:
    """A destination that was deleted with events waiting: each says so."""
    begin(rig, "m")
    rig.checkpoint()
    rig.change(Delete("destination", "crm"))
    rig.follow()
    rig.checkpoint()
    found = rig.event("m").destinations[0]
    assert (found.status, found.reason) == ("discarded", "the destination was disabled or deleted")


def test_deleted_before_the_role_had_heard_of_it(rig: Rig) -> None:
    """A destination that came and went while the role was down was never sent anything, and the status says so."""
    begin(rig)
    rig.checkpoint()
    rig.kill()
    rig.change(destination("brief"))
    rig.append("m")
    rig.change(Delete("destination", "brief"))
    rig.start()
    rig.role.beat()
    rig.turn()
    rig.come_to_rest()
    assert [rig.status_at("m", id) for id in ("crm", "brief")] == ["delivered", "discarded"]


@pytest.mark.parametrize("to", [None, ("brief",)])
def test_deleted_and_made_again_before_the_role_had_heard_of_it(rig: Rig, to: tuple[str, ...] | None) -> None:
    """What was for the first one is not for the other, also what was aimed at its name."""
    begin(rig)
    rig.checkpoint()
    rig.kill()
    rig.change(destination("brief"))
    rig.append(rig.record("m", to=to))
    rig.change(Delete("destination", "brief"))
    rig.change(destination("brief"))
    rig.start()
    rig.role.beat()
    rig.turn()
    rig.come_to_rest()
    assert rig.status_at("m", "brief") == "discarded"


def test_waiting_while_no_checkpoint_knows_the_lane(rig: Rig) -> None:
    """An event for a destination that was enabled behind the reader's back waits; it is not taken for delivered."""
    begin(rig)
    rig.change(destination("late"))
    rig.append("m")
    rig.turn()
    rig.checkpoint()
    assert rig.status_at("m", "late") == "queued"
    rig.follow()
    assert rig.status_at("m", "late") == "queued"
    rig.come_to_rest()
    assert rig.status_at("m", "late") == "delivered"


def test_the_connections_of_that_moment_count(rig: Rig) -> None:
    """Routing is explained by what was in force when the event was accepted, not by what is now."""
    begin(rig, "early")
    rig.come_to_rest()
    rig.change(destination("late"))
    rig.follow()
    rig.append("m")
    rig.turn()
    rig.come_to_rest()
    assert [each.id for each in rig.event("early").destinations] == ["crm"]
    assert {each.id: each.status for each in rig.event("m").destinations} == {"crm": "delivered", "late": "delivered"}


def test_an_unknown_message(rig: Rig) -> None:
    """None, also for another source's message; the same id of two sources are two events."""
    begin(rig, "m")
    rig.append(rig.record("m", "app"))
    statuses = EventStatuses(rig.settings)
    assert statuses.of_message("nobody") is None
    assert statuses.of_message("m", "nowhere") is None
    found = [statuses.of_message("m", name) for name in ("website", "app")]
    statuses.close()
    assert [each.source for each in found if each is not None] == ["website", "app"]


def test_an_event_outlives_its_source(rig: Rig) -> None:
    """Whoever asks for it by its id alone need not know that the source was deleted."""
    begin(rig, "m")
    rig.answer_all()
    rig.checkpoint()
    rig.change(Delete("destination", "crm"), Delete("source", "website"))
    assert (rig.event("m").source, rig.status_at("m", "crm")) == ("website", "delivered")


def test_a_damaged_record_is_named(rig: Rig) -> None:
    """Where a message is not found, what the disk has lost is said, and not what it cannot be."""
    begin(rig, "m")
    statuses = EventStatuses(rig.settings)
    assert statuses.why_unknown("m") == "it was never accepted, or is older than what is kept"
    (segment,) = (rig.settings.data_path / "journal" / "0").glob("*.seg")
    with segment.open("r+b") as file:
        file.seek(segment.read_bytes().index(b"website"))
        file.write(b"Website")
    assert statuses.of_message("m") is None
    assert "damaged ones, 1 event at most: offset 0 of partition 0 (damaged" in statuses.why_unknown("m")
    statuses.close()


def test_each_partition_is_searched(make_rig: MakeRig) -> None:
    """Whichever partition an event is in, it is found, and its delivery with it."""
    rig = make_rig(3)
    begin(rig)
    rig.append(*(rig.record(f"m{n}", user_key=f"u{n}") for n in range(12)))
    rig.turn()
    rig.come_to_rest()
    assert {request.partition for request in rig.network.sent} == {0, 1, 2}
    assert {rig.status_at(f"m{n}", "crm") for n in range(12)} == {"delivered"}


@pytest.mark.parametrize(
    ("reason", "options"), [("next", DeliveryOptions()), ("rate_limited", DeliveryOptions(max_rate=0.01))]
)
def test_what_the_lane_has_is_queued(make_rig: MakeRig, reason: str, options: DeliveryOptions) -> None:
    """Taken by the lane and not on its way yet: it is sent next, or as soon as the rate allows."""
    rig = make_rig()
    rig.change(source(), destination("crm", delivery=options))
    rig.start()
    rig.append(*(f"m{n}" for n in range(200)))
    rig.turn()
    rig.checkpoint()
    found = rig.event("m199").destinations[0]
    assert (found.status, found.reason) == ("queued", reason)


def test_behind_the_shared_reader(rig: Rig) -> None:
    """A detached lane that is neither paused nor held by its breaker is catching up."""
    begin(rig)
    rig.role.feeder.detach(rig.lane("crm"))
    rig.append("m")
    rig.turn()
    rig.checkpoint()
    found = rig.event("m").destinations[0]
    assert (found.status, found.reason) == ("queued", "catching_up")


def test_paused(rig: Rig) -> None:
    """A paused destination says so, also of an event that was tried before."""
    begin(rig, "tried")
    rig.answer(rig.network.waiting[0], 503)
    rig.store.pause("crm", Pause(since=rig.clock.now_ms(), reason="a test"), "test", rig.appender.ends)
    rig.follow()
    rig.append("new")
    rig.turn()
    rig.checkpoint()
    found = [rig.event(id).destinations[0] for id in ("tried", "new")]
    assert [(each.status, each.reason) for each in found] == [("queued", "paused")] * 2
    assert [len(each.attempts) for each in found] == [1, 0]


def test_one_after_the_other(make_rig: MakeRig) -> None:
    """With ``order: user`` the second event of a user waits while the first is tried again."""
    rig = make_rig()
    rig.change(source(), destination("crm", delivery=DeliveryOptions(order="user")))
    rig.start()
    rig.append("first", "second")
    rig.turn()
    rig.answer(rig.network.waiting[0], 503)
    rig.turn()
    rig.checkpoint()
    found = [rig.event(id).destinations[0] for id in ("first", "second")]
    assert [(each.status, each.reason) for each in found] == [("retrying", None), ("queued", "ordered")]


def test_a_call_of_a_sync_is_found_by_its_id(rig: Rig) -> None:
    """No source of the connections sent it, and lists, search and ``why`` lead to it like to any other event."""
    begin(rig)
    rig.append(rig.record("audience-1", source="profiles"))
    rig.turn()
    rig.checkpoint()
    found = rig.event("audience-1")
    assert (found.message_id, found.source) == ("audience-1", "profiles")
