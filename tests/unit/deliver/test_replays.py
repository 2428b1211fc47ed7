"""Replays in the deliver role: what they send, that they go second, pause, end, and survive kills."""

from __future__ import annotations

import msgspec
import pytest

from hookline.connections.model import DeliveryOptions, Filter, Pause
from hookline.limits import LIMITS
from hookline.replays.model import Replay
from hookline.settings import Deliver
from tests.unit.deliver.conftest import MakeRig
from tests.unit.deliver.rig import Rig, destination, source
from tests.unit.deliver.test_pausing import pause, resume


def begin(rig: Rig, events: int = 0) -> None:
    """Start with one destination, and so many events that it has received."""
    rig.change(source(), source("app"), destination("crm"))
    rig.start()
    if events:
        rig.append(*(f"m{n}" for n in range(events)))
        rig.turn()
        rig.come_to_rest()
        rig.network.sent.clear()


def cancel(rig: Rig) -> Replay:
    """A replay that was cancelled with one event delivered and others in flight; its end is saved."""
    begin(rig, 100)
    replay = rig.replay()
    rig.follow()
    rig.answer(rig.network.waiting[0])
    rig.turn()
    rig.want(replay, "cancelled")
    rig.checkpoint()
    return replay


@pytest.mark.parametrize("first", ["replay", "destination"])
@pytest.mark.parametrize("restarts", [False, True])
def test_pauses_that_overlap_count_no_time(rig: Rig, first: str, *, restarts: bool) -> None:
    """The one begins before the other ends: an event tried before both is tried again after both."""
    begin(rig, 1)
    replay = rig.replay()
    rig.follow()
    rig.answer(rig.network.waiting[0], 500)
    rig.checkpoint()

    of_replay = (lambda: rig.want(replay, "paused"), lambda: rig.want(replay, "running"))
    of_destination = (lambda: pause(rig), lambda: resume(rig))
    one, two = (of_replay, of_destination) if first == "replay" else (of_destination, of_replay)
    for step in (one[0], two[0], one[1], two[1]):
        step()
        rig.checkpoint()
        if restarts:
            rig.restart()
            rig.follow()
        rig.pass_time(1 if step is two[1] else 5 * 3600)
        rig.checkpoint()
    for _ in range(10):
        rig.pass_time(60)
        rig.answer_all()
        rig.checkpoint()
    assert rig.replay_row(replay) == ("done", 1, 0)


def test_a_range_is_sent_once_more_and_marked(rig: Rig) -> None:
    """Each event goes out again with the id of the replay, the replay ends, and its count is saved."""
    begin(rig, 5)
    replay = rig.replay()
    rig.follow()
    assert b"\r\nX-Hookline-Replay: " + replay.id.encode() + b"\r\n" in rig.network.sent[0].data
    rig.come_to_rest()
    rig.pass_time(0.1)
    rig.checkpoint()
    assert rig.replayed(replay) == [0, 1, 2, 3, 4]
    assert rig.replay_row(replay) == ("done", 5, 0)
    assert replay.lane not in rig.role.engine.lanes


def after_everything_expired(rig: Rig) -> Replay:
    """A replay of forty events after an outage that leaves the breaker open, and no event to probe with."""
    rig.change(source(), destination("crm"))
    rig.start()
    rig.append(*(f"m{n}" for n in range(40)))
    rig.turn()
    for seconds in [1] * 40 + [600] * 200:
        rig.answer_all(503)
        rig.checkpoint()
        rig.pass_time(seconds)
    assert (rig.lane("crm").breaker.state, rig.lane("crm").retry_count) == ("open", 0)
    replay = rig.replay()
    rig.follow()
    return replay


def test_after_an_outage_in_which_everything_expired(rig: Rig) -> None:
    """The breaker is open and no event is left to probe with: the replay itself finds out that the receiver is back."""
    replay = after_everything_expired(rig)
    for _ in range(40):
        rig.answer_all()
        rig.checkpoint()
        rig.pass_time(1)
    assert rig.replay_row(replay) == ("done", 40, 0)


@pytest.mark.parametrize("until", ["it is changed", "a pause ends"])
@pytest.mark.parametrize("last_answer", [200, 503])
def test_its_destination_cannot_be_used_for_a_while(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, last_answer: int, until: str
) -> None:
    """The live lane waits for nothing, so it does not hold the replay: that stops, and goes on, by itself."""
    replay = after_everything_expired(rig)
    unusable = destination("crm", secret="env:HOOKLINE_SECRET_LATER")
    if last_answer == 503:
        rig.answer_all(503)
    rig.change(unusable)
    rig.follow()
    rig.answer_all(last_answer)
    rig.pass_time(60)
    if until == "a pause ends":
        rig.store.pause("crm", Pause(since=rig.clock.now_ms()), "test", rig.appender.ends)
        rig.follow()
    monkeypatch.setenv("HOOKLINE_SECRET_LATER", "later")
    if until == "a pause ends":
        rig.store.resume("crm", None, "test", rig.appender.ends)
    else:
        rig.change(msgspec.structs.replace(unusable, name="usable now"))
    rig.follow()
    for _ in range(40):
        rig.answer_all()
        rig.checkpoint()
        rig.pass_time(30)
    assert rig.replay_row(replay) == ("done", 40, 0)


def test_to_another_destination(rig: Rig) -> None:
    """A destination that came later is sent what was stored before it, and nothing twice."""
    begin(rig, 3)
    rig.change(destination("late"))
    replay = rig.replay("late")
    rig.follow()
    rig.append("m3")
    rig.turn()
    rig.come_to_rest()
    assert sorted(rig.offsets("late")) == [0, 1, 2, 3]
    assert rig.replayed(replay) == [0, 1, 2]
    assert rig.offsets("crm") == [3]


def test_what_is_not_asked_for_stays(rig: Rig) -> None:
    """Source, type and time restrict; a source that is named need not be connected."""
    begin(rig)
    rig.append(rig.record("a", "app"), rig.record("b", type="page"))
    rig.clock.seconds += 60
    rig.append("c")
    rig.turn()
    rig.come_to_rest()
    of_app, pages = rig.replay(source="app"), rig.replay(type="page")
    late = rig.replay(**{"from": "2026-11-20T07:17:00Z"})
    rig.follow()
    rig.come_to_rest()
    assert (rig.replayed(of_app), rig.replayed(pages), rig.replayed(late)) == ([0], [1], [2])


def test_single_events_are_found_without_reading_what_lies_between(rig: Rig) -> None:
    """A replay of places reads their groups only."""
    begin(rig)
    for n in range(50):
        rig.append(f"m{n}")
    rig.turn()
    rig.come_to_rest()
    rig.network.sent.clear()
    before = rig.role.engine.counters.read_again
    replay = rig.replay(positions={0: [3, 20, 49]}, messageIds=["m3", "m20", "m49"])
    rig.follow()
    rig.come_to_rest()
    assert rig.replayed(replay) == [3, 20, 49]
    assert rig.role.engine.counters.read_again - before == 3


def test_repeats_and_erased_events_are_left_out(rig: Rig) -> None:
    """A duplicate is one in a replay too, and what was erased is not there to be sent."""
    begin(rig, 3)
    rig.append("m1")
    rig.turn()
    rig.come_to_rest()
    rig.network.sent.clear()
    rig.appender.erase(0, [2])
    replay = rig.replay()
    rig.follow()
    rig.come_to_rest()
    assert rig.replayed(replay) == [0, 1]


def test_never_more_than_its_rate(rig: Rig) -> None:
    """Ten a second are ten a second, whatever the receiver could take."""
    begin(rig, 50)
    replay = rig.replay(rate=10)
    rig.follow()
    for _ in range(40):
        rig.pass_time(0.05)
        rig.answer_all()
    assert 12 <= len(rig.replayed(replay)) <= 21


def test_the_destination_s_own_rate_is_shared_and_live_goes_first(rig: Rig) -> None:
    """With live events waiting for their rate the replay gets none of it."""
    begin(rig, 20)
    rig.change(destination("crm", delivery=DeliveryOptions(max_rate=10)))
    replay = rig.replay()
    rig.append(*(f"live{n}" for n in range(30)))
    rig.follow()
    for _ in range(20):
        rig.pass_time(0.05)
        rig.answer_all()
    assert len(rig.offsets("crm")) <= 12
    assert len(rig.replayed(replay)) <= 1


def replay_at_full_speed(rig: Rig) -> Replay:
    """A replay whose requests have been answered for a while, with nothing else to send."""
    begin(rig, 500)
    replay = rig.replay()
    rig.follow()
    for _ in range(200):
        rig.answer(rig.network.waiting[0])
        rig.turn()
    return replay


def test_a_replay_has_what_the_receiver_takes_while_nothing_else_is_sent(rig: Rig) -> None:
    """It is given as much as a live lane; an event that arrives then finds places of its own."""
    replay = replay_at_full_speed(rig)
    assert len(rig.network.waiting) == LIMITS.full_allowance
    assert rig.role.engine.unhealthy == LIMITS.full_allowance
    rig.append("live")
    rig.turn()
    assert rig.network.waiting[-1].lane != replay.lane


def test_a_replay_gives_way_to_live_events(rig: Rig) -> None:
    """While the live lane has events queued, a replay begins nothing before it has a quarter of its attempts; then it
    is given no more."""
    replay = replay_at_full_speed(rig)
    rig.append(*(f"live{n}" for n in range(200)))
    rig.turn()
    for request in [each for each in rig.network.waiting if each.lane == replay.lane]:
        rig.answer(request)
        rig.turn()
    assert rig.lane("crm").queue
    assert len([each for each in rig.network.waiting if each.lane == replay.lane]) == LIMITS.replay_in_flight_max


def test_it_waits_while_the_receiver_is_down(rig: Rig) -> None:
    """While the live lane finds nobody there, the replay sends nothing; then it goes on by itself."""
    begin(rig, 5)
    rig.append(*(f"x{n}" for n in range(60)))
    rig.turn()
    while rig.lane("crm").breaker.state != "open":
        rig.answer_all(500)
        rig.checkpoint()
        rig.pass_time(0.5)
    replay = rig.replay()
    rig.follow()
    for _ in range(5):
        rig.pass_time(1.0)
        rig.answer_all(500)
    assert rig.replayed(replay) == []
    rig.come_to_rest()
    assert sorted(rig.replayed(replay)) == list(range(65))


def test_its_retries_wait_too_while_the_receiver_is_down(rig: Rig) -> None:
    """What a replay has tried before is not tried on while the live lane finds nobody there."""
    begin(rig, 5)
    replay = rig.replay()
    rig.follow()
    while rig.network.waiting:
        rig.answer(rig.network.waiting[0], 500)
    rig.checkpoint()
    rig.append(*(f"x{n}" for n in range(60)))
    rig.turn()
    while rig.lane("crm").breaker.state != "open":
        rig.answer_all(500, "crm")
        rig.checkpoint()
        rig.pass_time(0.5)
    sent = len(rig.replayed(replay))
    rig.answer_all(500)
    for _ in range(5):
        rig.checkpoint()
        rig.pass_time(2.0)
        rig.answer_all(500)
    assert len(rig.replayed(replay)) - sent <= 1
    rig.come_to_rest()
    assert set(rig.replayed(replay)) == set(range(5))


def test_paused_and_resumed(rig: Rig) -> None:
    """A paused replay gives back what it holds, sends nothing, over a restart too, and then goes on."""
    begin(rig, 100)
    replay = rig.replay()
    rig.follow()
    rig.want(replay, "paused")
    sent = len(rig.replayed(replay))
    rig.answer_all()
    rig.checkpoint()
    rig.restart()
    rig.pass_time(1.0)
    assert len(rig.replayed(replay)) == sent < 100
    rig.want(replay, "running")
    rig.come_to_rest()
    assert sorted(rig.replayed(replay)) == list(range(100))


def test_cancelled(rig: Rig) -> None:
    """What was not sent is on the record as discarded, what is in flight still counts."""
    replay = cancel(rig)
    in_flight = len(rig.network.waiting)
    rig.answer_all()
    rig.checkpoint()
    assert rig.replay_row(replay) == ("cancelled", 1 + in_flight, 0)
    assert len(rig.replayed(replay)) == 1 + in_flight
    assert rig.at_rest()


def test_answered_when_cancelled_and_killed_then(rig: Rig) -> None:
    """An answer that came after the end was saved, and was not saved itself, counts after the restart, once."""
    replay = cancel(rig)
    late = rig.network.waiting[0].offset
    rig.answer(rig.network.waiting[0])
    for _ in range(2):
        rig.restart()
        rig.checkpoint()
        assert rig.replay_row(replay) == ("cancelled", 2, 0)
    assert rig.status_at(f"m{late}", "crm") == "delivered"


def test_a_replay_cancelled_before_it_began(rig: Rig) -> None:
    """It ends without a lane."""
    begin(rig, 3)
    replay = rig.replay()
    rig.want(replay, "cancelled")
    rig.checkpoint()
    assert rig.replay_row(replay) == ("cancelled", 0, 0)
    assert rig.replayed(replay) == []


def test_its_destination_is_disabled(rig: Rig) -> None:
    """The replay ends with it."""
    begin(rig, 100)
    replay = rig.replay()
    rig.follow()
    rig.change(destination("crm", enabled=False))
    rig.follow()
    rig.checkpoint()
    assert rig.replay_row(replay)[0] == "cancelled"


def test_new_settings_reach_it(rig: Rig) -> None:
    """The next event of a running replay goes to the new URL."""
    begin(rig, 100)
    replay = rig.replay()
    rig.follow()
    rig.change(destination("crm", urls=2))
    rig.follow()
    rig.answer(rig.network.waiting[0])
    rig.turn()
    assert {each.target.url for each in rig.network.sent if each.lane == replay.lane} == {
        "https://crm.example.com/0",
        "https://crm.example.com/1",
    }


def test_only_some_run_at_once(rig: Rig) -> None:
    """The others wait their turn, in the order in which they were asked for."""
    rig.limit(replays_running_max=1)
    begin(rig, 3)
    first, second = rig.replay(), rig.replay()
    rig.follow()
    assert (len(rig.replayed(first)), len(rig.replayed(second))) == (3, 0)
    rig.answer_all()
    rig.pass_time(0.05)
    assert len(rig.replayed(second)) == 3


@pytest.mark.parametrize("is_known", [False, True])
def test_receivers_that_are_down_take_no_place_of_others(rig: Rig, is_known: bool) -> None:
    """A replay to one that is down runs until it is back; others do not wait for that, and further ones to it do."""
    rig.limit(replays_running_max=1)
    begin(rig, 100)
    rig.change(destination("mail"))
    rig.follow()

    def fail(seconds: int) -> None:
        for _ in range(seconds):
            rig.answer_all(503, "crm")
            rig.pass_time(1.0)
            rig.checkpoint()

    if is_known:
        rig.append(*(f"later{number}" for number in range(50)))
        rig.turn()
        rig.answer_all(200, "mail")
        fail(30)
    first = rig.replay()
    rig.follow()
    fail(30)
    second, third = rig.replay(), rig.replay("mail", source="website")
    rig.follow()
    for _ in range(60):
        rig.answer_all(200, "mail")
        fail(1)
    assert first.lane in rig.role.engine.lanes
    assert rig.replay_row(third)[0] == "done"
    assert (second.lane in rig.role.engine.lanes) is not is_known
    rig.come_to_rest()
    rig.pass_time(0.1)
    rig.checkpoint()
    assert [rig.replay_row(each)[0] for each in (first, second)] == ["done", "done"]


@pytest.mark.parametrize("answered", [0, 3, 7])
def test_killed_in_the_middle(rig: Rig, answered: int) -> None:
    """Only what was in flight is sent again; the count is that of the events delivered."""
    begin(rig, 40)
    replay = rig.replay()
    rig.follow()
    rig.checkpoint()
    done = []
    for _ in range(answered):
        done.append(rig.network.waiting[0].offset)
        rig.answer(rig.network.waiting[0])
    rig.restart()
    rig.turn()
    rig.come_to_rest()
    rig.pass_time(0.1)
    rig.checkpoint()
    assert set(rig.replayed(replay)) == set(range(40))
    assert all(rig.replayed(replay).count(offset) == 1 for offset in done)
    assert rig.replay_row(replay) == ("done", 40, 0)


def test_killed_before_any_checkpoint_knew_it(rig: Rig) -> None:
    """What the ring knows of a replay is believed although the database has never heard of it."""
    begin(rig, 5)
    replay = rig.replay()
    rig.follow()
    rig.answer(rig.network.waiting[0])
    rig.restart()
    rig.turn()
    rig.come_to_rest()
    rig.pass_time(0.1)
    rig.checkpoint()
    assert sorted(rig.replayed(replay)) == [0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert rig.replay_row(replay) == ("done", 5, 0)


def test_paused_while_it_was_down(rig: Rig) -> None:
    """What it delivered before any checkpoint knew it is not forgotten until it is resumed."""
    begin(rig, 5)
    replay = rig.replay()
    rig.follow()
    rig.answer(rig.network.waiting[0])
    rig.replays.want(replay.lane, "paused", None)
    rig.restart()
    rig.follow()
    rig.want(replay, "running")
    rig.come_to_rest()
    rig.pass_time(0.1)
    rig.checkpoint()
    assert rig.replayed(replay).count(0) == 1
    assert rig.replay_row(replay) == ("done", 5, 0)


def test_a_pause_that_ended_while_it_was_down_is_not_part_of_the_window(rig: Rig) -> None:
    """What had failed before a pause longer than the window is tried again after it."""
    begin(rig, 1)
    replay = rig.replay()
    rig.follow()
    rig.turn()
    rig.answer_all(503)
    rig.want(replay, "paused")
    rig.checkpoint()
    rig.kill()
    rig.clock.seconds += rig.settings.deliver.retry_window * 3
    rig.replays.want(replay.lane, "running", None)
    rig.start()
    rig.come_to_rest()
    rig.pass_time(0.1)
    rig.checkpoint()
    assert rig.replay_row(replay) == ("done", 1, 0)


def test_an_ended_replay_stays_ended(rig: Rig) -> None:
    """A restart does not begin it anew, although control has not noted its end yet."""
    begin(rig, 3)
    replay = rig.replay()
    rig.follow()
    rig.come_to_rest()
    rig.pass_time(0.1)
    rig.checkpoint()
    rig.restart()
    rig.turn()
    rig.pass_time(0.1)
    assert len(rig.replayed(replay)) == 3


def test_failures_of_a_replay_are_its_own(make_rig: MakeRig) -> None:
    """Retries, expiry and dead letters are counted for the replay, and the live lane's breaker knows nothing of it."""
    rig = make_rig(deliver=Deliver(retry_window=2.0))
    begin(rig, 2)
    replay = rig.replay()
    rig.follow()
    rig.answer(rig.network.waiting[0], 500)
    rig.answer(rig.network.waiting[0], 400)
    assert rig.lane("crm").breaker.failures == 0
    for _ in range(5):
        rig.checkpoint()
        rig.pass_time(1.0)
        rig.answer_all(500)
    rig.checkpoint()
    rig.pass_time(0.1)
    rig.checkpoint()
    assert rig.replay_row(replay) == ("done", 0, 2)


def test_what_control_has_forgotten_is_forgotten(rig: Rig) -> None:
    """Counts of replays that control no longer keeps go; those of open and kept ones stay."""
    begin(rig, 3)
    gone, kept = rig.replay(), rig.replay()
    rig.follow()
    rig.come_to_rest()
    rig.pass_time(0.1)
    rig.checkpoint()
    rig.replays.end(gone.lane, 1_000)
    rig.replays.forget(gone.lane)
    rig.follow()
    rig.loop.run_until_complete(rig.role.checkpointer.forget_replays())
    assert (rig.replay_row(gone)[0], rig.replay_row(kept)[0]) == ("", "done")


def test_filters_of_the_destination(rig: Rig) -> None:
    """They stop events in a replay too, unless that asks for all; what they take out stays out."""
    begin(rig, 2)
    rig.append(rig.record("m2", body=b'{"type":"track","event":"Order","userId":"u1","properties":{"card":"4711"}}'))
    rig.turn()
    rig.come_to_rest()
    rig.network.sent.clear()
    drop = Filter(condition='messageId = "m1"', do="drop")
    hide = Filter(condition="true", do="dropProperties", properties=("properties.card",))
    rig.change(destination("crm", filters=(drop, hide)))
    some, everything = rig.replay(), rig.replay(ignoreFilters=True)
    rig.follow()
    rig.come_to_rest()
    assert (rig.replayed(some), rig.replayed(everything)) == ([0, 2], [0, 1, 2])
    assert not any(b"4711" in each.data for each in rig.network.sent)


def test_filters_that_change_while_it_runs(rig: Rig) -> None:
    """What was queued meets the new ones."""
    begin(rig, 60)
    replay = rig.replay()
    rig.follow()
    sent = len(rig.replayed(replay))
    rig.change(destination("crm", filters=(Filter(condition="true", do="drop"),)))
    rig.follow()
    rig.come_to_rest()
    assert len(rig.replayed(replay)) == sent
