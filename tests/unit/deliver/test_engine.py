"""What each answer means: success, another try, or a dead letter; and what one destination may take from others."""

from __future__ import annotations

import itertools

import pytest
import structlog
from msgspec.structs import replace

from hookline.limits import LIMITS
from hookline.outcomes.outcome import Outcome
from hookline.settings import Deliver, Seconds
from tests.unit.deliver.conftest import MakeRig
from tests.unit.deliver.rig import Request, Rig, destination, source


@pytest.fixture
def five(rig: Rig) -> Rig:
    """A rig with one destination of five URLs and one event sent to all of them."""
    rig.change(source(), destination("crm", urls=5))
    rig.start()
    rig.append("m")
    rig.turn()
    assert [request.target.index for request in rig.network.waiting] == [0, 1, 2, 3, 4]
    return rig


def begin(rig: Rig, *ids: str, events: int = 1, **given: object) -> None:
    """Start with these destinations and so many events."""
    rig.change(source(), *(destination(id, **given) for id in ids))  # type: ignore[arg-type]
    rig.start()
    if events:
        rig.append(*(f"m{n}" for n in range(events)))
        rig.turn()


def waiting(rig: Rig, index: int) -> Request:
    """The request to one of the URLs."""
    return next(request for request in rig.network.waiting if request.target.index == index)


def retry(rig: Rig) -> list[int]:
    """Let the next attempt come due; return the URLs it goes to."""
    rig.checkpoint()
    rig.pass_time(1.1)
    return [request.target.index for request in rig.network.waiting]


# what is kept


def test_credentials_that_come_back_are_not_kept(rig: Rig) -> None:
    """A receiver that answers with the request it got leaves no credential where anybody may read answers."""
    crm = destination("crm")
    webhook = replace(crm.settings.webhooks[0], headers={"Authorization": "Bearer very-secret-token"})
    rig.change(source(), replace(crm, settings=replace(crm.settings, webhooks=(webhook,))))
    rig.start()
    rig.append("m")
    rig.turn()
    rig.answer(rig.network.waiting[0], 401, text="who is 'very-secret-token'?")
    rig.checkpoint()
    (attempt,) = rig.event("m").destinations[0].attempts
    assert attempt.error == "who is '…oken'?"


# several URLs


def test_one_success_ends_it(five: Rig) -> None:
    """When one of five URLs took the event, the others are not tried again, whatever they answer."""
    five.answer(waiting(five, 1), 500)
    five.answer(waiting(five, 3), 200)
    assert five.role.engine.in_flight == 0
    for index in (0, 2, 4):
        five.answer(waiting(five, index), 503)
    assert retry(five) == []
    status = five.event("m").destinations[0]
    assert status.status == "delivered"
    outcomes = sorted((attempt.url[-1], attempt.outcome.value) for attempt in status.attempts)
    assert outcomes == [(n, "success" if n == "3" else "server_error") for n in "01234"]


def test_only_the_urls_that_may_recover_are_tried_again(five: Rig) -> None:
    """None took it: those that failed finally are left alone, the others get the next attempt."""
    answers: tuple[int | Outcome, ...] = (500, 404, Outcome.TIMED_OUT, Outcome.BLOCKED_ADDRESS, 429)
    for index, how in enumerate(answers):
        five.answer(waiting(five, index), how)
    assert retry(five) == [0, 2, 4]
    five.answer(waiting(five, 0), 400)
    five.answer(waiting(five, 2), 503)
    five.answer(waiting(five, 4), 401)
    five.checkpoint()
    five.pass_time(2.1)
    assert [request.target.index for request in five.network.waiting] == [2]
    five.answer_all()
    assert retry(five) == []
    assert five.status_at("m", "crm") == "delivered"


def test_final_failures_everywhere_are_a_dead_letter(five: Rig) -> None:
    """Nothing is tried again when no URL could take it later."""
    for index, status in enumerate((400, 401, 404, 302, 422)):
        five.answer(waiting(five, index), status)
    assert retry(five) == []
    found = five.event("m").destinations[0]
    assert (found.status, len(found.attempts), five.lane("crm").retry_count) == ("failed", 5, 0)


def test_a_url_with_many_lingering_requests_is_left_out(five: Rig) -> None:
    """What still runs although another URL took the event is bounded per URL: one slow URL blocks nothing."""
    five.limit(lingering_max=3)
    five.turn()
    for n in range(12):
        if n:
            five.append(f"more{n}")
            five.turn()
        five.answer(waiting(five, 0), 200)
    assert [request.target.index for request in five.network.waiting].count(4) == 3
    while five.network.waiting:
        five.answer(five.network.waiting[0], 200)
    assert [target.lingering for target in five.lane("crm").targets] == [0] * 5
    five.append("last")
    five.turn()
    assert len(five.network.waiting) == 5


def test_late_failures_free_what_lingers(five: Rig) -> None:
    """An URL that fails after another one succeeded gives its place back."""
    five.answer(waiting(five, 2), 200)
    five.answer_all(Outcome.TIMED_OUT)
    assert [target.lingering for target in five.lane("crm").targets] == [0] * 5


# retries, their time and their end


def test_retry_after_is_kept(rig: Rig) -> None:
    """The receiver's wait replaces a shorter one of ours."""
    begin(rig, "crm")
    rig.answer(rig.network.waiting[0], 429, retry_after=b"90")
    rig.checkpoint()
    rig.pass_time(89.0)
    assert rig.network.waiting == []
    rig.pass_time(1.1)
    assert len(rig.network.waiting) == 1


def test_an_event_expires_at_the_end_of_its_window(make_rig: MakeRig) -> None:
    """It is tried until the window is over, the last time at its end, and then is a dead letter ``expired``."""
    rig = make_rig(deliver=Deliver(retry_max=Seconds(8.0), retry_window=Seconds(30.0)))
    begin(rig, "crm")
    sent_at = []
    for _ in range(45):
        if rig.network.waiting:
            sent_at.append(rig.clock.seconds)
        rig.answer_all(503)
        rig.checkpoint()
        rig.pass_time(1.0)
    assert 29.0 <= sent_at[-1] - sent_at[0] <= 32.0
    assert rig.status_at("m0", "crm") == "expired"
    assert rig.lane("crm").retry_count == 0
    assert rig.role.engine.counters.dead_lettered == 1


def test_what_was_due_while_the_service_was_down_expires(rig: Rig) -> None:
    """An event whose window ended long ago is not sent after a restart."""
    begin(rig, "crm")
    rig.answer_all(500)
    rig.checkpoint()
    rig.kill()
    rig.clock.seconds += 5 * 3600
    rig.start()
    rig.pass_time(0.1)
    rig.checkpoint()
    assert rig.network.waiting == []
    assert rig.status_at("m0", "crm") == "expired"


def test_attempts_and_the_window_survive_a_restart(rig: Rig) -> None:
    """Number and time of the first attempt are as they were before a kill."""
    begin(rig, "crm")
    rig.answer_all(500)
    assert retry(rig) == [0]
    rig.answer_all(500)
    rig.checkpoint()
    before = rig.role.store.rows.oldest(rig.lane("crm").number, 9)
    rig.restart()
    assert rig.role.store.rows.oldest(rig.lane("crm").number, 9) == before
    rig.pass_time(3.0)
    assert rig.network.waiting[0].delivery.attempt == 3
    assert rig.network.waiting[0].delivery.first_at_ms == before[0].first_at_ms


# the breaker


def fail_until_open(rig: Rig, how: int | Outcome, id: str = "crm") -> None:
    """Failures, half a second each, until the breaker opens."""
    for _ in range(80):
        found = [request for request in rig.network.waiting if request.destination == id]
        if found:
            rig.answer(found[0], how)
        if rig.lane(id).breaker.state == "open":
            return
        rig.pass_time(0.5)
        rig.checkpoint()
    raise AssertionError("the breaker did not open")


def test_gone_everywhere_opens_the_breaker_at_once(rig: Rig) -> None:
    """410 from every URL parks the destination; the event that found out waits too."""
    begin(rig, "crm", urls=2, events=3)
    first, second = [request for request in rig.network.waiting if request.offset == 0]
    rig.answer(first, 410)
    assert rig.lane("crm").breaker.state == "closed"
    rig.answer(second, 410)
    assert rig.lane("crm").breaker.state == "open"
    rig.answer_all(410)
    rig.checkpoint()
    assert rig.status_at("m0", "crm") == "retrying"
    rig.append("late")
    rig.turn()
    rig.checkpoint()
    assert rig.network.waiting == []
    assert rig.status_at("late", "crm") == "queued"


def test_gone_from_one_url_of_two_is_a_plain_final_failure(rig: Rig) -> None:
    """Only when every URL says so is the destination gone."""
    begin(rig, "crm", urls=2)
    rig.answer(rig.network.waiting[0], 410)
    rig.answer(rig.network.waiting[0], 404)
    rig.checkpoint()
    assert rig.lane("crm").breaker.state == "closed"
    assert rig.status_at("m0", "crm") == "failed"


def test_final_failures_that_opened_the_breaker_go_back_to_waiting(rig: Rig) -> None:
    """A rotated token must not burn the stream: the dead letters of that run are taken back and delivered."""
    begin(rig, "crm", events=60)
    fail_until_open(rig, 401)
    rig.answer_all(401)
    assert rig.role.engine.counters.dead_lettered >= 20
    rig.checkpoint()
    for _ in range(5):
        statuses = {rig.status_at(f"m{n}", "crm") for n in range(60)}
        assert statuses == {"queued", "retrying"}
        rig.pass_time(60.0)
        rig.answer_all(401)
        rig.checkpoint()
    rig.come_to_rest()
    assert {rig.status_at(f"m{n}", "crm") for n in range(60)} == {"delivered"}
    assert rig.lane("crm").retry_count == 0


def test_a_recall_counts_what_failed_meanwhile(rig: Rig) -> None:
    """Retries that arise while the requeue is being written are not forgotten."""
    begin(rig, "crm", "mail", events=60)
    fail_until_open(rig, 401)
    late = [request for request in rig.network.waiting if request.destination == "crm"]
    assert late, "some requests are still in flight when the breaker opens"

    def answer_late() -> None:
        for request in late:
            rig.answer(request, 500)

    rig.checkpoint_while(answer_late)
    rig.checkpoint()
    lane = rig.lane("crm")
    assert lane.retry_count == len(rig.role.store.rows.oldest(lane.number, 1_000))
    rig.come_to_rest()
    assert {rig.status_at(f"m{n}", "crm") for n in range(60)} == {"delivered"}


def test_an_earlier_dead_letter_is_not_recalled(rig: Rig) -> None:
    """What failed before one that was sent later succeeded failed by its own fault."""
    begin(rig, "crm", events=600)
    rig.answer(rig.network.waiting[0], 400)
    rig.pass_time(1.0)
    rig.answer(rig.network.waiting[-1], 200)  # sent when there was room again
    rig.pass_time(1.0)
    fail_until_open(rig, 401)
    rig.checkpoint()
    assert rig.status_at("m0", "crm") == "failed"


def test_a_success_sent_before_excuses_no_failure(rig: Rig) -> None:
    """The key was changed while requests were under way: one answered before it, and told of later, burns nothing."""
    begin(rig, "crm", events=60)
    rig.answer(rig.network.waiting[0], 401)
    rig.answer(rig.network.waiting[0], 200)
    rig.pass_time(1.0)
    fail_until_open(rig, 401)
    rig.checkpoint()
    rig.come_to_rest()
    assert {rig.status_at(f"m{n}", "crm") for n in range(60)} == {"delivered"}


# what one destination may take


def test_a_success_that_is_noted_late_excuses_no_failure(rig: Rig) -> None:
    """It was answered before the failure of its own turn, which took a second on a busy machine."""
    begin(rig, "crm", events=60)
    answered_seconds = rig.clock.monotonic()
    early = rig.network.waiting[0]
    rig.answer(rig.network.waiting[1], 401)
    rig.clock.seconds += 1.0
    rig.network.waiting.remove(early)
    rig.role.engine.succeeded([([early.token], early.target, 200, 1)], answered_seconds)
    fail_until_open(rig, 401)
    rig.checkpoint()
    rig.come_to_rest()
    assert {rig.status_at(f"m{n}", "crm") for n in range(60)} == {"delivered"}


def test_ill_lanes_share_a_quarter_of_the_places(rig: Rig) -> None:
    """However many destinations fail, the healthy one has the other places, for retries as for first attempts."""
    rig.limit(in_flight_max=40, unhealthy_in_flight_max=10)
    ill = [f"ill{n}" for n in range(12)]
    begin(rig, "well", *ill, events=400)
    most = 0
    for _ in range(30):
        for request in [request for request in rig.network.waiting if request.destination != "well"]:
            rig.answer(request, 500)
            most = max(most, sum(1 for each in rig.network.waiting if each.delivery.unhealthy))
        rig.checkpoint()
        rig.pass_time(1.0)
    assert most == 10
    rig.answer_all(200, "well")
    assert len(rig.offsets("well")) == 400


def test_receivers_that_take_long_leave_places_to_the_others(rig: Rig) -> None:
    """Twelve that take seconds for each event want all places: a quick one beside them never waits for one."""
    rig.limit(in_flight_max=40, slow_in_flight_max=30)
    slow = [f"slow{n}" for n in range(12)]
    begin(rig, *slow, "quick", events=100)
    for _ in range(40):
        rig.pass_time(1.0)
        for request in [each for each in rig.network.waiting if each.destination != "quick"][:20]:
            rig.answer(request, 200, milliseconds=1_000)
        rig.turn()
    assert rig.lane("slow0").breaker.is_slow
    assert sum(len(rig.lane(id).in_flight) for id in slow) <= 30
    rig.answer_all(200, "quick")
    assert len(rig.offsets("quick")) == 100
    assert rig.role.engine.held_long == sum(len(rig.lane(id).in_flight) for id in slow)


def crowded(rig: Rig) -> None:
    """Two receivers take about a second for each event; ``busy`` has a backlog, and all places for such receivers."""
    rig.limit(in_flight_max=40, slow_in_flight_max=30, unhealthy_in_flight_max=10)
    rig.change(source(), source("app"), destination("busy"), destination("calm", sources=("app",)))
    rig.start()
    rig.append(*(rig.record(f"first{n}", "app") for n in range(40)))
    rig.turn()
    while rig.network.waiting:
        answer_a_third(rig)
    assert rig.lane("calm").breaker.is_slow
    rig.append(*(f"m{n}" for n in range(2_300)))
    rig.turn()
    for _ in range(30):
        answer_a_third(rig)
    assert rig.role.engine.held_long == 30


def answer_a_third(rig: Rig) -> None:
    """Let a third of what is under way be answered, and more be sent."""
    rig.pass_time(0.3)
    waiting = list(rig.network.waiting)
    for request in waiting[: max(1, len(waiting) // 3)]:
        rig.answer(request, 200, milliseconds=900)
    rig.turn()


def test_a_place_that_becomes_free_is_that_of_who_waits(rig: Rig) -> None:
    """Not the one's that had it: a receiver that is level would wait for the end of another one's backlog."""
    crowded(rig)
    rig.append(*(rig.record(f"new{n}", "app") for n in range(5)))
    rig.turn()
    for _ in range(5):
        answer_a_third(rig)
    assert len(rig.offsets("calm")) == 45
    assert rig.lane("busy").queue


def test_a_retry_that_is_due_finds_a_place_beside_a_backlog(rig: Rig) -> None:
    """Streams leave some to rows as long as any wait; its time would end otherwise."""
    crowded(rig)
    rig.append(rig.record("once", "app"))
    while not (mine := [each for each in rig.network.waiting if each.destination == "calm"]):
        answer_a_third(rig)
    rig.answer(mine[0], 500)
    rig.checkpoint()
    assert rig.lane("calm").retry_count == 1
    for _ in range(20):
        rig.append(*(f"more{rig.clock.seconds}-{n}" for n in range(20)))
        answer_a_third(rig)
    rig.checkpoint()
    assert rig.lane("calm").retry_count == 0
    assert rig.role.engine.kept_for_rows == 0
    assert rig.lane("busy").queue


def test_a_replay_leaves_places_for_a_probe(rig: Rig) -> None:
    """It shares them with lanes that are not well: a receiver that is back is found beside it, however much it has."""
    rig.limit(in_flight_max=40, slow_in_flight_max=30, unhealthy_in_flight_max=10, replay_in_flight_max=2)
    rig.change(source(), source("app"))
    rig.append(*(f"m{n}" for n in range(1_000)))
    rig.change(destination("crm"), destination("ill", sources=("app",)))
    rig.start()
    rig.append(*(rig.record(f"a{n}", "app") for n in range(60)))
    rig.turn()
    while rig.lane("ill").breaker.state != "open":
        rig.answer_all(503, "ill")
        rig.checkpoint()
        rig.pass_time(1.0)
    rig.replay()
    rig.follow()
    for _ in range(300):
        answer_a_third(rig)
        if rig.lane("ill").breaker.state == "closed":
            break
    assert rig.lane("ill").breaker.state == "closed"
    assert [each for each in rig.network.waiting if each.destination == "crm"], "the replay still has much to send"


def test_no_more_than_all_places_are_used(rig: Rig) -> None:
    """Places are bounded over all lanes, and whoever waits longest gets the one that becomes free."""
    rig.limit(in_flight_max=10)
    begin(rig, "one", "two", "three", events=20)
    assert rig.role.engine.in_flight == 10
    while rig.network.waiting:
        rig.answer(rig.network.waiting[0], 200)
        assert rig.role.engine.in_flight <= 10
    assert [len(rig.offsets(id)) for id in ("one", "two", "three")] == [20, 20, 20]


def test_at_the_cap_of_retry_rows_a_lane_begins_nothing_new(rig: Rig) -> None:
    """Retry rows per destination are bounded: the rest waits in the journal until some are done."""
    rig.limit(retry_rows_max=6)
    begin(rig, "crm", events=40)
    for _ in range(30):
        while rig.network.waiting:
            rig.answer(rig.network.waiting[0], 500)
        rig.checkpoint()
        rig.pass_time(0.1)
        assert rig.lane("crm").retry_count <= 6 + 8 + 10, "what was in flight at the cap, and what probes found"
    rig.come_to_rest()
    assert set(rig.offsets("crm")) == set(range(40))


def test_sending_stops_while_the_ring_is_full(rig: Rig) -> None:
    """When no checkpoint can be saved nothing more is sent than the ring can remember; then it goes on by itself."""
    rig.limit(ring_margin=LIMITS.ring_entries - 50)
    begin(rig, "crm", events=300)
    rig.answer_all(200)
    assert 50 <= len(rig.offsets("crm")) < 50 + 64
    rig.checkpoint()
    assert rig.network.waiting
    rig.come_to_rest()
    assert rig.offsets("crm") == list(range(300))


def test_sending_stops_while_failures_cannot_be_saved(rig: Rig) -> None:
    """What failed is held in memory until a checkpoint has it: only so much of it, then sending waits for one."""
    rig.limit(failures_held_max=50)
    begin(rig, "crm", events=400)

    statuses = itertools.cycle((200, 400))  # by turns, so that the breaker stays closed

    def answer_in_turn() -> None:
        while rig.network.waiting:
            rig.answer(rig.network.waiting[0], next(statuses))

    answer_in_turn()
    assert 100 <= len(rig.offsets("crm")) < 100 + 128
    while len(rig.offsets("crm")) < 400:
        rig.checkpoint()
        assert rig.network.waiting
        answer_in_turn()
    assert rig.offsets("crm") == list(range(400))


def test_timeouts_are_logged_once_a_second_per_destination(rig: Rig) -> None:
    """One line per destination and second, with the number of timeouts since the last one."""
    begin(rig, "crm", "mail", events=8)
    with structlog.testing.capture_logs() as lines:
        for id in ("crm", "crm", "crm", "mail"):
            rig.answer(next(request for request in rig.network.waiting if request.destination == id), Outcome.TIMED_OUT)
        rig.pass_time(0.1)
        rig.answer_all(Outcome.TIMED_OUT, "crm")
        rig.pass_time(0.8)
        rig.pass_time(0.2)
    found = [(line["destination"], line["count"]) for line in lines if line["event"] == "delivery_timeout"]
    assert sorted(found[:2]) == [("crm", 3), ("mail", 1)]
    assert found[2:] == [("crm", 5)]


def test_requests_are_signed_and_named(rig: Rig) -> None:
    """Each request carries the message id; with a secret also a signature over exactly the bytes sent."""
    import hashlib
    import hmac

    begin(rig, "crm", secret="s3cret")
    head, _, body = rig.network.sent[0].data.partition(b"\r\n\r\n")
    lines = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
    assert lines[b"X-Message-Id"] == b"m0"
    assert lines[b"X-Signature"].decode() == hmac.new(b"s3cret", body, hashlib.sha1).hexdigest()
    assert int(lines[b"Content-Length"]) == len(body)
