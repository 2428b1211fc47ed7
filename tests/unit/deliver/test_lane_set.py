"""Lanes follow the connections: nothing is missed, nothing is repeated, and what is dropped is on record."""

from __future__ import annotations

import pytest

from hookline.journal.port import partition_of
from tests.unit.deliver.conftest import MakeRig
from tests.unit.deliver.rig import Delete, Rig, destination, source


def begin(rig: Rig) -> None:
    """Start with two sources and one destination of the first."""
    rig.change(source(), source("app"), destination("crm"))
    rig.start()


def test_a_row_of_one_partition_has_nothing_discarded_in_another(make_rig: MakeRig) -> None:
    """All of the other one was delivered when the destination was deleted."""
    rig = make_rig(2)
    rig.change(source(), destination("crm"))
    rig.start()
    first, second = (next(key for key in map(str, range(99)) if partition_of(key, 2) == each) for each in range(2))
    rig.append(*(rig.record(f"a{number}", user_key=first) for number in range(9)))
    rig.come_to_rest()
    rig.append(rig.record("fails", user_key=second))
    rig.turn()
    rig.answer_all(503)
    rig.change(Delete("destination", "crm"))
    rig.follow()
    ranges = [(row.partition, row.first_offset, row.last_offset) for row in rig.role.engine.batch.ranges]
    assert [each for each in ranges if each[1] <= each[2]] == [(1, 0, 0)]


def test_a_destination_enabled_behind_the_readers_back_catches_up(rig: Rig) -> None:
    """Events accepted after it was enabled are delivered although the reader had passed them when it learnt of it."""
    begin(rig)
    rig.append("m0", "m1")
    rig.change(destination("late"))
    rig.append("m2", "m3")
    rig.turn()
    rig.answer_all()
    assert rig.role.feeder.shared[0].next_offset == 4
    rig.follow()
    rig.append("m4")
    rig.turn()
    rig.come_to_rest()
    assert rig.offsets("late") == [2, 3, 4]
    assert rig.offsets("crm") == [0, 1, 2, 3, 4]


def test_a_destination_enabled_before_the_reader_is_there_waits_for_it(rig: Rig) -> None:
    """A lane that starts ahead of the reader gets nothing from before its start."""
    begin(rig)
    rig.append("m0", "m1", "m2")
    rig.change(destination("late"))
    rig.follow()
    rig.append("m3")
    rig.turn()
    rig.come_to_rest()
    assert rig.offsets("late") == [3]


def test_a_source_added_behind_the_readers_back_catches_up(rig: Rig) -> None:
    """Only the new source's events are read again, from where it was connected; the others go on undisturbed."""
    begin(rig)
    rig.append("m0", rig.record("a1", "app"))
    rig.change(destination("crm", sources=("website", "app")))
    rig.append("m2", rig.record("a3", "app"), rig.record("a4", "app"), "m5")
    rig.turn()
    rig.answer_all()
    rig.follow()
    rig.append(rig.record("a6", "app"), "m7")
    rig.turn()
    rig.come_to_rest()
    assert sorted(rig.offsets("crm")) == [0, 2, 3, 4, 5, 6, 7]
    assert rig.status_at("a1", "crm") == "not_routed"


def test_a_source_added_while_events_are_queued(rig: Rig, small_queues: object) -> None:
    """What is given back afterwards is not read once more with the new source's events."""
    begin(rig)
    rig.change(destination("crm", sources=("website", "app")))
    for n in range(10):
        rig.append(f"m{n}", rig.record(f"a{n}", "app"))
        rig.turn()
    rig.follow()
    rig.role.feeder.detach(rig.lane("crm"))
    rig.role.feeder.room(rig.lane("crm"))
    rig.turn()
    rig.come_to_rest()
    assert sorted(rig.offsets("crm")) == list(range(20))


def test_a_change_of_settings_keeps_the_place(rig: Rig) -> None:
    """A new URL or secret takes effect for what comes; queue, retries and place stay."""
    begin(rig)
    rig.append("m0", "m1")
    rig.turn()
    rig.answer(rig.network.waiting[0], 500)
    lane = rig.lane("crm")
    rig.change(destination("crm", urls=2, secret="s3cret"))
    rig.follow()
    assert rig.lane("crm") is lane
    rig.append("m2")
    rig.turn()
    assert [len(lane.targets), lane.retry_count] == [2, 1]
    rig.come_to_rest()
    assert {rig.status_at(f"m{n}", "crm") for n in range(3)} == {"delivered"}
    assert [b"X-Signature" in request.data for request in rig.network.sent if request.offset == 2] == [True, True]


def test_a_disabled_destination_gets_nothing_more(rig: Rig) -> None:
    """What waits, is to be retried, or was accepted before and not read yet is discarded on the record."""
    begin(rig)
    rig.append(*(f"m{n}" for n in range(20)))
    rig.turn()
    rig.answer(rig.network.waiting[0], 200)
    rig.answer(rig.network.waiting[0], 500)
    rig.checkpoint()
    rig.append("unread")
    rig.change(destination("crm", enabled=False))
    rig.role.follow_connections()
    sent = len(rig.network.sent)
    rig.answer_all(500)
    rig.pass_time(60.0)
    rig.come_to_rest()
    assert len(rig.network.sent) == sent
    discarded = rig.role.store.reader.ranges_discarded("crm", 0)
    assert [(each.first_offset, each.last_offset) for each in discarded] == [(1, 20)]
    statuses = [rig.status_at(id, "crm") for id in ("m0", "m1", "m10", "m19", "unread")]
    assert statuses == ["delivered", "discarded", "discarded", "discarded", "discarded"]


def test_an_idle_destination_leaves_no_record_when_it_ends(rig: Rig) -> None:
    """Nothing waited, so nothing was discarded."""
    begin(rig)
    rig.append("m0")
    rig.turn()
    rig.come_to_rest()
    rig.change(Delete("destination", "crm"))
    rig.follow()
    assert rig.role.engine.batch.ranges == []
    rig.come_to_rest()
    assert rig.role.store.reader.lanes() == []


def test_enabled_again_is_a_new_lane(rig: Rig) -> None:
    """It begins at the journal's end of that moment; what was discarded stays so."""
    begin(rig)
    rig.change(destination("crm", enabled=False))
    rig.append("off")
    rig.change(destination("crm"))
    rig.append("on")
    rig.follow()
    rig.turn()
    rig.come_to_rest()
    assert rig.offsets("crm") == [1]
    assert [rig.status_at(id, "crm") for id in ("off", "on")] == ["not_routed", "delivered"]


def test_a_removed_source_is_not_taken_any_more(rig: Rig, small_queues: object) -> None:
    """Events that were accepted before, but not taken yet, are ``discarded``; never ``delivered``."""
    rig.change(source(), source("app"), destination("crm", sources=("website", "app")))
    rig.start()
    for n in range(10):
        rig.append(f"m{n}", rig.record(f"a{n}", "app"))
        rig.turn()
    rig.change(destination("crm"))
    rig.follow()
    rig.come_to_rest()
    statuses = {rig.status_at(f"a{n}", "crm") for n in range(10)}
    assert statuses == {"delivered", "discarded"}
    assert {rig.status_at(f"m{n}", "crm") for n in range(10)} == {"delivered"}
    sent = {request.delivery.event.record.message_id for request in rig.network.sent}
    assert {f"a{n}" for n in range(10) if rig.status_at(f"a{n}", "crm") == "delivered"} == sent & {
        f"a{n}" for n in range(10)
    }


@pytest.mark.parametrize("how", ["changed", "set, and started again"])
def test_a_missing_secret_parks_the_destination(rig: Rig, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """Nothing is sent unsigned; it is parked, and all is delivered once the secret is there."""
    name = "HOOKLINE_SECRET_CRM"
    monkeypatch.delenv(name, raising=False)
    rig.change(source(), destination("crm", secret=f"env:{name}"), destination("mail"))
    rig.start()
    rig.append("m0")
    rig.turn()
    rig.answer_all()
    rig.checkpoint()
    for _ in range(3):
        rig.pass_time(30.0)
        rig.restart()
        rig.checkpoint()
        rig.pass_time(30.0)
    assert rig.offsets("crm") == []
    assert [rig.status_at("m0", id) for id in ("crm", "mail")] == ["queued", "delivered"]
    if how == "changed":
        rig.change(destination("crm", secret="plain"))
        rig.follow()
    else:
        monkeypatch.setenv(name, "s3cret")
        rig.restart()
    rig.come_to_rest()
    assert rig.offsets("crm") == [0]
    assert b"X-Signature: " in rig.network.sent[-1].data


def test_a_secret_goes_missing_while_requests_are_under_way(rig: Rig) -> None:
    """What they come to does not let others go, which no URL would be asked about: they wait for the secret."""
    rig.change(source(), destination("crm"))
    rig.start()
    rig.append("m0", "m1", "m2")
    rig.turn()
    rig.answer(rig.network.waiting[0], 503)
    rig.checkpoint()
    rig.change(destination("crm", secret="env:HOOKLINE_SECRET_NOT_THERE"))
    rig.follow()
    rig.answer_all(200)
    rig.append("m3")
    for _ in range(30):
        rig.checkpoint()
        rig.pass_time(1.0)
    rig.change(destination("crm", secret="plain"))
    rig.follow()
    rig.come_to_rest()
    assert [rig.status_at(f"m{number}", "crm") for number in range(4)] == ["delivered"] * 4
    assert rig.role.engine.in_flight == 0


def test_a_destination_that_can_be_used_again_is_not_taken_for_unreachable(rig: Rig) -> None:
    """Nothing waits that could show how its receiver is, and nothing says that it is down: what comes goes at once."""
    rig.change(source(), destination("crm", secret="env:HOOKLINE_SECRET_NOT_THERE"))
    rig.start()
    rig.pass_time(1.0)
    rig.change(destination("crm", secret="plain"))
    rig.follow()
    for _ in range(60):
        rig.pass_time(5.0)
    rig.checkpoint()
    assert rig.role.store.reader.lanes() == []
    rig.append("m0")
    rig.turn()
    assert rig.offsets("crm") == [0]


def test_what_was_under_way_when_its_destination_ended_is_counted(rig: Rig) -> None:
    """The receiver has it, so the total says so: what was answered before, and what is answered later."""
    rig.change(source(), destination("crm"))
    rig.start()
    rig.append("m0", "m1", "m2")
    rig.turn()
    rig.answer(rig.network.waiting[0], 200)
    rig.change(destination("crm", enabled=False))
    rig.follow()
    rig.checkpoint()
    rig.answer_all(200)
    rig.checkpoint()
    assert rig.role.store.reader.totals()["crm"].delivered == 3
    assert not rig.role.engine.ended


def test_a_missing_secret_is_said_once_per_change(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    """The log names the destination and what to do, never the value."""
    rig.change(source(), destination("crm", secret="env:HOOKLINE_SECRET_NOT_THERE"))
    rig.start()
    rig.pass_time(60.0)
    printed = "".join(capsys.readouterr())
    assert printed.count("destination_unusable") == 1
    assert "HOOKLINE_SECRET_NOT_THERE is not set" in printed


def test_what_is_aimed_at_a_lane_that_deliver_has_not_heard_of(rig: Rig) -> None:
    """Whoever aims it may hear of a destination sooner. One that has no sources begins where it was enabled, too."""
    rig.change(source(), destination("crm"))
    rig.start()
    rig.append("before", rig.record("too soon", to=("late",), origin="audience"))
    rig.change(destination("late", sources=()))
    rig.append(rig.record("aimed", to=("late",), origin="audience"))
    rig.turn()
    rig.follow()
    rig.come_to_rest()
    assert rig.offsets("late") == [2]
    assert rig.status_at("aimed", "late") == "delivered"


def test_a_source_added_later_does_not_bring_back_what_was_aimed(rig: Rig) -> None:
    """An event for this destination alone is in its stream already when its source joins."""
    rig.change(source(), source("app"), destination("crm"))
    rig.start()
    rig.change(destination("crm", sources=("website", "app")))
    rig.append(rig.record("aimed", "app", to=("crm",), origin="audience"), rig.record("plain", "app"))
    rig.turn()
    rig.answer_all()
    rig.follow()
    rig.come_to_rest()
    assert rig.offsets("crm") == [0, 1]
