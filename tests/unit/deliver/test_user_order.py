"""``delivery.order: user``: one user's events go one after the other, and one user's trouble is only theirs."""

from __future__ import annotations

import random
from typing import Literal

import pytest

from hookline.connections.model import DeliveryOptions, Pause
from hookline.deliver.lanes.order import UserOrder
from hookline.limits import LIMITS
from hookline.outcomes.reader import NEVER_MS
from hookline.replays.offset_set import OffsetSet
from tests.unit.deliver.conftest import MakeRig
from tests.unit.deliver.late_journal import LateJournal
from tests.unit.deliver.rig import Request, Rig, destination, source
from tests.unit.deliver.test_pausing import pause, resume

ORDERED = DeliveryOptions(order="user", set_aside_after=3)


@pytest.fixture
def crm(rig: Rig) -> Rig:
    """A started rig with one ordered destination."""
    rig.change(source(), destination("crm", delivery=ORDERED))
    rig.start()
    return rig


def send(rig: Rig, *names: str) -> None:
    """Accept events named ``USER-NUMBER``."""
    rig.append(*(rig.record(name, user_key=name.split("-")[0]) for name in names))
    rig.turn()


def send_some(rig: Rig, chance: random.Random, seed: int, count: int) -> int:
    """Store one to six more events of three users after so many; return how many there are then."""
    names = [f"{chance.choice('abc')}-{seed}-{count + n}" for n in range(chance.randint(1, 6))]
    send(rig, *names)
    return count + len(names)


def asked(rig: Rig) -> list[str]:
    """The events that have a request without an answer, by name."""
    return [request.delivery.event.record.message_id for request in rig.network.waiting]


def request(rig: Rig, name: str) -> Request:
    """The request of one event."""
    return next(each for each in rig.network.waiting if each.delivery.event.record.message_id == name)


def test_the_next_one_waits_for_the_answer(crm: Rig) -> None:
    """Other users do not wait."""
    send(crm, "ann-1", "ann-2", "bob-1", "ann-3")
    assert asked(crm) == ["ann-1", "bob-1"]
    crm.answer(request(crm, "ann-1"), 200)
    crm.turn()
    assert asked(crm) == ["bob-1", "ann-2"]
    crm.answer_all(200)
    assert crm.offsets("crm") == [0, 2, 1, 3]


def test_what_holds_its_user_up_waits_for_retry_max_at_most(crm: Rig) -> None:
    """Whatever its receiver asked for: the user's later events, which nobody has seen, would wait for hours as well."""
    send(crm, "ann-1", "ann-2")
    crm.answer(request(crm, "ann-1"), 429, retry_after=b"3600")
    crm.checkpoint()
    crm.pass_time(601)
    assert asked(crm) == ["ann-1"]


@pytest.mark.parametrize("is_saved", [False, True])
def test_an_order_that_begins_brings_near_what_was_to_wait_for_longer(rig: Rig, is_saved: bool) -> None:
    """The receiver's wish was followed while nobody waited for it."""
    rig.change(source(), destination("crm"))
    rig.start()
    send(rig, "ann-1")
    rig.answer(request(rig, "ann-1"), 429, retry_after=b"3600")
    if is_saved:
        rig.checkpoint()
    rig.change(destination("crm", delivery=ORDERED))
    rig.follow()
    rig.checkpoint()
    rig.pass_time(0.1)
    send(rig, "ann-2")
    rig.pass_time(599)
    assert asked(rig) == []
    rig.pass_time(2)
    assert asked(rig) == ["ann-1"]
    rig.answer_all(200)
    assert rig.offsets("crm") == [0, 0, 1]


def begin_order_behind_a_row(rig: Rig) -> None:
    """Have an order begin while one event is saved as to be tried again."""
    rig.change(source(), destination("crm"))
    rig.start()
    send(rig, "ann-1")
    rig.answer(request(rig, "ann-1"), 503)
    rig.checkpoint()
    rig.change(destination("crm", delivery=ORDERED))
    rig.follow()


def test_an_order_that_begins_knows_what_waits_to_be_tried_again(rig: Rig) -> None:
    """What comes before the lane has looked at its rows is not sent before one of its user, nor are others held up."""
    begin_order_behind_a_row(rig)
    send(rig, "ann-2", "bob-1")
    rig.checkpoint()
    rig.turn()
    assert "ann-2" not in asked(rig)
    rig.come_to_rest()
    assert [each for each in rig.offsets("crm") if each < 2] == [0, 0, 1]
    assert 2 in rig.offsets("crm")


def test_an_order_that_begins_knows_what_fails_that_was_under_way(rig: Rig) -> None:
    """It holds up its user like what failed before; the later ones went past it as long as it was tried again."""
    rig.change(source(), destination("crm"))
    rig.start()
    send(rig, "ann-1")
    rig.answer(request(rig, "ann-1"), 503)
    rig.checkpoint()
    rig.pass_time(2)
    rig.change(destination("crm", delivery=ORDERED))
    rig.follow()
    rig.checkpoint()
    rig.pass_time(1)
    rig.answer(request(rig, "ann-1"), 503)
    send(rig, "ann-2", "bob-1")
    assert asked(rig) == ["bob-1"]
    rig.come_to_rest()
    assert rig.offsets("crm") == [0, 0, 2, 0, 1]


@pytest.mark.parametrize("status", [200, 422, 503])
@pytest.mark.parametrize("is_row", [False, True])
def test_an_order_that_begins_waits_for_what_is_under_way(rig: Rig, is_row: bool, status: int) -> None:
    """The next event of the same user was sent beside it. Whose it is the order does not know, so all wait for it."""
    rig.change(source(), destination("crm"))
    rig.start()
    send(rig, "ann-1")
    if is_row:
        rig.answer(request(rig, "ann-1"), 503)
        rig.checkpoint()
        rig.pass_time(2)
    rig.change(destination("crm", delivery=ORDERED))
    rig.follow()
    rig.checkpoint()
    send(rig, "ann-2", "bob-1")
    rig.pass_time(1)
    assert asked(rig) == ["ann-1"]
    rig.answer(request(rig, "ann-1"), status)
    rig.turn()
    rig.checkpoint()
    rig.pass_time(0.1)
    assert asked(rig) == (["bob-1"] if status == 503 else ["ann-2", "bob-1"])
    rig.come_to_rest()
    assert {1, 2} <= set(rig.offsets("crm"))


def test_an_order_that_begins_knows_what_has_just_failed(rig: Rig) -> None:
    """Its row was not saved yet: the order never learned of it, and the user's later events went past it."""
    rig.change(source(), destination("crm"))
    rig.start()
    send(rig, "ann-1")
    rig.answer(request(rig, "ann-1"), 503)
    rig.change(destination("crm", delivery=ORDERED))
    rig.follow()
    send(rig, "ann-2", "bob-1")
    rig.pass_time(0.1)
    rig.checkpoint()
    rig.pass_time(0.1)
    assert {"ann-2", "bob-1"} & {*asked(rig)} == {"bob-1"}
    rig.come_to_rest()
    assert [each for each in rig.offsets("crm") if each < 2] == [0, 0, 1]


def test_an_order_that_begins_waits_for_no_row_that_was_erased(rig: Rig) -> None:
    """The last row that it did not know went with an erasure: what had come stood still until the next event did."""
    begin_order_behind_a_row(rig)
    send(rig, "bob-1")
    assert rig.role.retries.drop(rig.role.engine.lanes[1], {0: OffsetSet([0])}) == 1
    rig.pass_time(0.1)
    assert asked(rig) == ["bob-1"]


@pytest.mark.parametrize("seed", range(8))
def test_whenever_an_order_begins_one_of_a_user_is_sent(rig: Rig, seed: int) -> None:
    """With failures, crashes and checkpoints at random: what left before is waited for, and nothing is lost."""
    chance = random.Random(seed)
    rig.change(source(), destination("crm"))
    rig.start()
    count, before, is_ordered = 0, set[int](), False
    for _ in range(150):
        step = chance.random()
        if step < 0.35:
            count = send_some(rig, chance, seed, count)
        elif step < 0.8 and rig.network.waiting:
            rig.answer(chance.choice(rig.network.waiting), chance.choice([200, 200, 200, 503]))
            rig.turn()
        elif step < 0.86:
            rig.checkpoint()
        elif step < 0.92:
            rig.pass_time(chance.choice([0.1, 0.6, 3.0]))
        elif step < 0.94:
            rig.restart()
            rig.turn()
        else:
            is_ordered = not is_ordered
            before = {each.offset for each in rig.network.waiting}
            order: Literal["user", "none"] = "user" if is_ordered else "none"
            rig.change(destination("crm", delivery=DeliveryOptions(order=order, set_aside_after=100)))
            rig.follow()
        users = [each.delivery.event.record.user_key for each in rig.network.waiting]
        before &= {each.offset for each in rig.network.waiting}
        assert not is_ordered or before or len(users) == len(set(users))
    rig.come_to_rest()
    assert set(rig.offsets("crm")) == set(range(count))


@pytest.mark.parametrize("held_max", [100, 10])
def test_a_rate_after_a_pause_holds_for_what_waits_for_its_users_turn(rig: Rig, held_max: int) -> None:
    """In memory or as rows, also across a kill; it ends with the last of them."""
    rig.limit(held_events_max=held_max)
    rig.change(source(), destination("crm", delivery=DeliveryOptions(order="user")))
    rig.start()
    pause(rig)
    send(rig, *(f"ann-{number}" for number in range(60)))
    resume(rig, rate=10.0)
    for part in range(2):
        before = len(rig.network.sent)
        for _ in range(20):
            rig.answer_all(200)
            rig.checkpoint()
            rig.pass_time(0.1)
        assert 15 <= len(rig.network.sent) - before <= 25
        if not part:
            rig.restart()
    for _ in range(60):
        rig.answer_all(200)
        rig.checkpoint()
        rig.pass_time(0.1)
    assert rig.lane("crm").rate is None
    assert set(rig.offsets("crm")) == set(range(60))


def test_a_failure_holds_up_its_user_only(crm: Rig) -> None:
    """Until it has succeeded, none of the user's later events is sent."""
    send(crm, "ann-1", "ann-2", "bob-1", "bob-2")
    crm.answer(request(crm, "ann-1"), 503)
    crm.answer_all(200, "crm")
    crm.checkpoint()
    assert crm.offsets("crm") == [0, 2, 3]
    crm.pass_time(1.1)
    assert asked(crm) == ["ann-1"]
    crm.answer_all(200)
    assert crm.offsets("crm")[-2:] == [0, 1]


def test_an_event_that_keeps_failing_is_set_aside(crm: Rig) -> None:
    """After three tries the user's others go on, and it is still tried by itself."""
    send(crm, "ann-1", "ann-2")
    for _ in range(3):
        assert asked(crm) == ["ann-1"]
        crm.answer(request(crm, "ann-1"), 503)
        crm.turn()
        crm.checkpoint()
        if not crm.network.waiting:
            crm.pass_time(10)
    crm.answer(request(crm, "ann-2"), 200)
    crm.come_to_rest()
    assert {crm.status_at(name, "crm") for name in ("ann-1", "ann-2")} == {"delivered"}


def test_a_refusal_for_good_lets_the_next_one_go(crm: Rig) -> None:
    """A dead letter holds up nobody."""
    send(crm, "ann-1", "ann-2")
    crm.answer(request(crm, "ann-1"), 400)
    crm.turn()
    assert asked(crm) == ["ann-2"]


def test_the_next_one_goes_when_one_expires(crm: Rig) -> None:
    """Also when nothing else happens in the lane: no answer, no new event, no row."""
    send(crm, "ann-1", "ann-2")
    crm.answer(request(crm, "ann-1"), 503)
    crm.turn()
    crm.checkpoint()
    crm.pass_time(5 * 3_600)
    assert asked(crm) == ["ann-2"]
    crm.come_to_rest()
    assert [crm.status_at(name, "crm") for name in ("ann-1", "ann-2")] == ["expired", "delivered"]


def test_nothing_follows_in_a_lane_that_ended(crm: Rig) -> None:
    """Disabled while one of a user's events is under way: its answer does not send the next one."""
    send(crm, "ann-1", "ann-2")
    crm.change(destination("crm", delivery=ORDERED, enabled=False))
    crm.follow()
    crm.answer(request(crm, "ann-1"), 200)
    crm.turn()
    crm.checkpoint()
    assert asked(crm) == []
    assert crm.status_at("ann-2", "crm") == "discarded"


def test_beyond_a_bound_they_wait_as_rows(crm: Rig) -> None:
    """Memory stays bounded, and the order holds all the same."""
    crm.limit(held_events_max=3)
    send(crm, *(f"ann-{n}" for n in range(20)), "bob-1")
    lane = crm.lane("crm")
    assert lane.order is not None
    assert len(lane.order.held) == 3
    assert lane.retry_count == 16
    crm.checkpoint()
    crm.come_to_rest(seconds=0.1)
    assert [offset for offset in crm.offsets("crm") if offset < 20] == list(range(20))


def test_many_events_of_one_user_hold_up_nobody_else(crm: Rig) -> None:
    """More than readers keep queued wait for one user's turn: the next event of another is read and sent at once."""
    many = 2 * LIMITS.queue_low
    send(crm, *(f"ann-{n}" for n in range(many)))
    crm.answer(request(crm, "ann-0"), 503)
    crm.turn()
    send(crm, "bob-1")
    assert asked(crm) == ["bob-1"]
    crm.checkpoint()
    crm.come_to_rest(seconds=0.1)
    assert [offset for offset in crm.offsets("crm") if offset < many] == [0, *range(many)]


def test_what_is_due_at_once_is_not_put_off_by_what_is_due_later(crm: Rig) -> None:
    """Rows are due after a restart, and others that wait for their turn are saved before anybody looks at them."""
    lane = crm.lane("crm")
    lane.look_at_rows(0)
    lane.row_due(NEVER_MS)
    assert lane.next_retry_ms == 0


def test_a_turn_that_was_called_stays_called(crm: Rig) -> None:
    """Also when the rows are looked at anew, after a breaker called dead letters back, before its row is saved."""
    crm.limit(held_events_max=0)
    send(crm, "ann-1", "ann-2")
    crm.answer(request(crm, "ann-1"), 200)
    crm.lane("crm").rows_changed = True
    crm.pass_time(0.1)
    crm.checkpoint()
    crm.come_to_rest(seconds=0.1)
    assert crm.offsets("crm") == [0, 1]


@pytest.mark.parametrize("saved", [True, False])
def test_the_order_survives_a_crash(crm: Rig, saved: bool) -> None:
    """A failed event holds up its user after a restart too."""
    send(crm, "ann-1", "ann-2", "ann-3")
    crm.answer(request(crm, "ann-1"), 503)
    crm.turn()
    if saved:
        crm.checkpoint()
    crm.restart()
    crm.turn()
    crm.pass_time(1.1)
    assert asked(crm) == ["ann-1"]
    crm.come_to_rest()
    assert crm.offsets("crm")[-2:] == [1, 2]


def test_what_was_in_memory_goes_before_what_waited_as_rows(rig: Rig) -> None:
    """After a restart a slow rate keeps it in the queue for a while: rows of the same users are later events."""
    rig.limit(held_events_max=1)
    rig.change(source(), destination("crm", delivery=DeliveryOptions(order="user", max_rate=20)))
    rig.start()
    send(rig, "bob-1", "cat-1", "ann-1", "ann-2", "ann-3", "ann-4")
    rig.pass_time(0.1)
    rig.checkpoint()
    assert asked(rig) == ["bob-1", "cat-1", "ann-1"]
    rig.restart()
    for _ in range(10):
        rig.pass_time(0.05)
    assert asked(rig) == ["bob-1", "cat-1", "ann-1"]
    rig.come_to_rest(seconds=0.1)
    assert rig.offsets("crm")[-4:] == [2, 3, 4, 5]


def test_a_pause_keeps_the_order(crm: Rig) -> None:
    """What was held in memory comes back in its order, and nothing twice."""
    send(crm, "ann-1", "ann-2", "ann-3", "bob-1")
    crm.store.pause("crm", Pause(since=crm.clock.now_ms()), "test", crm.appender.ends)
    crm.follow()
    crm.answer_all(200)
    crm.checkpoint()
    crm.store.resume("crm", None, "test", crm.appender.ends)
    crm.follow()
    crm.come_to_rest(seconds=0.2)
    assert crm.offsets("crm") == [0, 3, 1, 2]


def test_giving_up_the_order_frees_what_waited(crm: Rig) -> None:
    """Nothing waits for a turn that is no longer called."""
    send(crm, "ann-1", "ann-2", "ann-3")
    crm.change(destination("crm"))
    crm.follow()
    crm.pass_time(0.1)
    crm.checkpoint()
    crm.pass_time(2)
    assert sorted(asked(crm)) == ["ann-1", "ann-2", "ann-3"]
    crm.come_to_rest()
    assert sorted(crm.offsets("crm")) == [0, 1, 2]


def test_giving_up_the_order_frees_what_waited_as_saved_rows(crm: Rig) -> None:
    """They are due when that is saved, although they were looked at before, when they were not."""
    crm.limit(held_events_max=0)
    send(crm, "ann-1", "ann-2", "ann-3")
    crm.checkpoint()
    crm.change(destination("crm"))
    crm.follow()
    crm.pass_time(0.1)
    crm.checkpoint()
    crm.pass_time(0.1)
    assert sorted(asked(crm)) == ["ann-1", "ann-2", "ann-3"]


def test_probes_go_on_where_no_untried_event_has_its_turn(crm: Rig) -> None:
    """The turn of an untried event goes to one that was tried if all untried ones wait for their user's first."""
    lane = crm.lane("crm")
    send(crm, *(f"user{n}-1" for n in range(40)))
    while lane.breaker.state != "open":
        crm.answer_all(500)
        crm.checkpoint()
        crm.pass_time(0.5)
    crm.answer_all(500)
    crm.checkpoint()
    send(crm, *(f"user0-{n}" for n in range(2, 60)))
    before = len(crm.network.sent)
    for _ in range(600):
        crm.answer_all(500)
        crm.checkpoint()
        crm.pass_time(1.0)
    assert len(crm.network.sent) - before >= 12


def test_probes_do_not_read_ahead_of_what_is_queued(crm: Rig) -> None:
    """While a lane is suspect, events that wait for their turn become rows, and none of them is taken twice."""
    send(crm, *(f"{user}-{n}" for n in range(6) for user in ("ann", "bob", "cleo", "dan")))
    for _ in range(60):
        for waiting in list(crm.network.waiting):
            crm.answer(waiting, 503)
        crm.turn()
        crm.checkpoint()
        crm.pass_time(0.5)
    crm.come_to_rest(seconds=0.5)
    assert crm.lane("crm").retry_count == 0
    taken = [each.offset for each in crm.network.sent]
    assert set(taken) == set(range(24))


def test_a_queue_that_a_probe_emptied_fills_again(crm: Rig, small_queues: tuple[int, int]) -> None:
    """One left behind while suspect, full of events that wait for their turn, reads on when one succeeds."""
    crm.change(destination("mail"))
    crm.follow()
    for number in range(4):
        for user in range(20):
            send(crm, f"{user}-{number}")
            crm.answer_all(500, "crm")
            crm.answer_all(200, "mail")
    lane = crm.lane("crm")
    assert (lane.breaker.state, lane.full, len(lane.detached)) == ("suspect", True, 1)
    crm.checkpoint()
    crm.come_to_rest(seconds=0.5)
    assert set(crm.offsets("crm")) == set(range(80))


@pytest.mark.parametrize(
    ("seed", "late"), [*((seed, False) for seed in range(12)), *((seed, True) for seed in range(4))]
)
def test_whatever_happens_each_users_successes_are_in_order(make_rig: MakeRig, seed: int, late: bool) -> None:
    """Failures, crashes, pauses and checkpoints at random: only what was set aside may come late, nothing is lost."""
    rig = make_rig()
    chance = random.Random(seed)
    rig.change(source(), destination("crm", delivery=DeliveryOptions(order="user", set_aside_after=100)))
    count = 0
    if late:
        send(rig, f"a-{seed}-0")
        count = 1
        rig.lookups = LateJournal(rig.folder / "journal", room=1_000)
    rig.start()
    accepted: list[int] = []
    for _ in range(150):
        step = chance.random()
        if step < 0.35:
            count = send_some(rig, chance, seed, count)
        elif step < 0.8 and rig.network.waiting:
            answered = chance.choice(rig.network.waiting)
            status = chance.choice([200, 200, 200, 503])
            if status == 200:
                accepted.append(answered.offset)
            rig.answer(answered, status)
            rig.turn()
        elif step < 0.88:
            rig.checkpoint()
        elif step < 0.96:
            rig.pass_time(chance.choice([0.1, 0.6, 3.0]))
        elif step < 0.98:
            rig.restart()
            rig.turn()
        else:
            rig.store.pause("crm", Pause(since=rig.clock.now_ms()), "test", rig.appender.ends)
            rig.follow()
            rig.checkpoint()
            rig.store.resume("crm", None, "test", rig.appender.ends)
            rig.follow()
    for _ in range(2_000):
        for answered in list(rig.network.waiting):
            accepted.append(answered.offset)
            rig.answer(answered, 200)
            rig.turn()
        rig.checkpoint()
        if rig.at_rest():
            break
        rig.pass_time(0.5)
    firsts = list(dict.fromkeys(accepted))
    users = {offset: record.user_key for offset in firsts if (record := rig.role.journal.get(0, offset))}
    for user in "abc":
        mine = [offset for offset in firsts if users[offset] == user]
        assert mine == sorted(mine)
    assert sorted(firsts) == list(range(count))


class TestPending:
    """The bookkeeping by itself."""

    def test_a_row_is_called_when_its_turn_comes(self) -> None:
        """And not before the one ahead is done."""
        mine = UserOrder()
        assert mine.note(1, "ann")
        assert not mine.note(2, "ann")
        mine.call(2)
        assert mine.called == []
        assert mine.finished(1) is None
        assert mine.called == [2]

    def test_what_was_set_aside_may_be_tried_beside_others(self) -> None:
        """It is pending no more."""
        mine = UserOrder()
        mine.note(1, "ann")
        mine.note(2, "ann")
        mine.finished(1)
        assert mine.may_start(1)
        assert mine.may_start(2)
        assert not mine.holds_up(1)

    def test_never_is_later_than_any_time(self) -> None:
        """In the database's 64-bit integers too."""
        assert 10**15 < NEVER_MS < 2**63


def test_what_waits_for_its_turn_is_due_at_no_time(crm: Rig) -> None:
    """One user's events were refused and come back one after the other: pages have no next try to show."""
    send(crm, *(f"ann-{number}" for number in range(25)))
    lane = crm.lane("crm")
    while lane.breaker.state != "open":
        for each in list(crm.network.waiting):
            crm.answer(each, 404)
        crm.pass_time(0.6)
    crm.checkpoint()
    crm.pass_time(60)
    for _ in range(3):
        crm.answer(crm.network.waiting[0], 200)
        crm.checkpoint()
        crm.pass_time(0.1)
        crm.checkpoint()
    saved = crm.role.store.reader
    assert saved.retry_counts()[lane.number].tried > 10
    assert saved.next_retry_ms(lane.number) is None


def test_rows_that_wait_for_their_turn_do_not_hide_those_whose_time_has_come(crm: Rig) -> None:
    """A schema is repaired after a thousand refusals: one user's events come back, all due at once, and one of them
    fails once more. Its time comes although all that wait for it are due before, and so does that of other users."""
    send(crm, *(f"ann-{number}" for number in range(1_300)))
    lane = crm.lane("crm")
    while lane.breaker.state != "open":
        crm.answer(crm.network.waiting[0], 422)
        crm.pass_time(0.065)
        if lane.breaker.refusals % 10 == 0:
            crm.checkpoint()
    crm.checkpoint()
    fails = "ann-100"
    for _ in range(200):
        while crm.network.waiting:
            (name,) = asked(crm)
            crm.answer(crm.network.waiting[0], 503 if name == fails else 200)
            fails = "" if name == fails else fails
            crm.turn()
        crm.pass_time(0.1)
        crm.checkpoint()
    send(crm, "bob-1")
    for each in list(crm.network.waiting):
        crm.answer(each, 503 if each is request(crm, "bob-1") else 200)
    crm.come_to_rest(seconds=1.0, rounds=1_600)
    assert fails == ""
    assert lane.retry_count == 0
