"""Successes that are told together, and what else comes with them."""

from __future__ import annotations

import pytest

from hookline.connections.model import DeliveryOptions
from hookline.deliver.dispatcher import SLOW_MS
from hookline.deliver.send.port import Successes
from hookline.outcomes.outcome import Outcome
from hookline.outcomes.progress import MILLISECONDS_MAX, Entry, entries
from tests.unit.deliver.rig import Request, Rig, destination, source


def begin(rig: Rig, *ids: str, events: int, **given: object) -> None:
    """Start with these destinations and so many events."""
    rig.change(source(), *(destination(id, **given) for id in ids))  # type: ignore[arg-type]
    rig.start()
    rig.append(*(f"m{n}" for n in range(events)))
    rig.turn()


def tell(rig: Rig, requests: list[Request], milliseconds: int = 1) -> None:
    """Requests succeed within one turn."""
    successes: list[Successes] = []
    for request in requests:
        rig.network.waiting.remove(request)
        successes.append(([request.token], request.target, 204, milliseconds))
    rig.role.engine.succeeded(successes)
    rig.role.engine.go_on()


def written(rig: Rig) -> list[Entry]:
    """What the ring says since the last checkpoint."""
    return list(entries(rig.role.engine.ring.since_checkpoint()))


def test_all_of_one_turn_are_marked_and_followed(rig: Rig) -> None:
    """Each has its entry in the ring and gives its place back; the lanes go on in the same turn."""
    begin(rig, "crm", "mail", events=40)
    told = list(rig.network.waiting)
    tell(rig, told)
    assert [entry.position for entry in written(rig)] == [request.delivery.event.position for request in told]
    assert {(entry.result, entry.milliseconds) for entry in written(rig)} == {(204, 1)}
    assert rig.role.engine.in_flight == len(rig.network.waiting) > len(told)
    rig.come_to_rest()
    assert rig.offsets("crm") == rig.offsets("mail") == list(range(40))


def test_answers_of_one_turn_that_differ(rig: Rig) -> None:
    """Each entry has its own place, time, status and duration, in the order of the answers; all are counted."""
    begin(rig, "crm", "mail", events=4)
    told = list(rig.network.waiting)
    answers = [(204, 1), (204, 1), (200, 1), (200, SLOW_MS + 5), (200, 1), (200, 0), (204, 0), (204, 10**6)]
    runs: list[Successes] = []
    for request, (status, milliseconds) in zip(told, answers, strict=True):
        rig.network.waiting.remove(request)
        if runs and runs[-1][1:] == (request.target, status, milliseconds):
            runs[-1][0].append(request.token)
        else:
            runs.append(([request.token], request.target, status, milliseconds))
    assert max(len(tokens) for tokens, _, _, _ in runs) > 1
    engine = rig.role.engine
    engine.succeeded(runs)
    now_ms = rig.clock.now_ms()
    kept = [min(milliseconds, MILLISECONDS_MAX) for _, milliseconds in answers]
    lanes = [request.lane for request in told]
    positions = [request.delivery.event.position for request in told]
    statuses = [status for status, _ in answers]
    expected = zip(positions, [now_ms - each for each in kept], lanes, statuses, kept, strict=True)
    assert [entry[:3] + entry[4:] for entry in written(rig)] == list(expected)
    counters = engine.counters
    assert counters.delivered == sum(counters.durations.buckets) == sum(counters.latencies.buckets) == 8
    assert counters.durations.sum_ms == sum(kept)
    assert counters.latencies.sum_ms == sum(now_ms - request.delivery.event.record.received_at for request in told)


def test_what_is_not_usual_is_looked_at_by_itself(rig: Rig) -> None:
    """A retry, a lane of several URLs and one that keeps an order are among the successes of a turn."""
    begin(rig, "crm", events=1)
    rig.answer(rig.network.waiting[0], 500)
    rig.change(destination("five", urls=5))
    rig.follow()
    rig.append("m")
    rig.turn()
    rig.checkpoint()
    rig.pass_time(1.1)
    assert len(rig.network.waiting) == 7
    tell(rig, list(rig.network.waiting))
    rig.come_to_rest()
    assert [rig.status_at(id, "crm") for id in ("m0", "m")] == ["delivered"] * 2
    assert rig.status_at("m", "five") == "delivered"
    assert [target.lingering for target in rig.lane("five").targets] == [0] * 5
    assert (rig.role.engine.in_flight, rig.role.engine.unhealthy, rig.lane("crm").retry_count) == (0, 0, 0)


def test_an_order_set_while_requests_run_is_kept(rig: Rig) -> None:
    """What left before the lane kept an order ends as what leaves afterwards does."""
    begin(rig, "crm", events=3)
    rig.change(destination("crm", delivery=DeliveryOptions(order="user")))
    rig.follow()
    rig.append("m3", "m4")
    rig.turn()
    tell(rig, list(rig.network.waiting))
    rig.come_to_rest()
    assert sorted(rig.offsets("crm")) == list(range(5))


@pytest.mark.parametrize(
    ("milliseconds", "kept"), [(-1, 0), (0, 0), (SLOW_MS + 1, SLOW_MS + 1), (10**6, MILLISECONDS_MAX)]
)
def test_any_duration_can_be_written(rig: Rig, milliseconds: int, kept: int) -> None:
    """A slow receiver's answer, and one that seems to have come before its request, has its entry too."""
    begin(rig, "crm", events=1)
    tell(rig, list(rig.network.waiting), milliseconds)
    assert [entry.milliseconds for entry in written(rig)] == [kept]
    assert rig.role.engine.in_flight == 0


def test_an_event_that_cannot_be_rendered_stops_no_other(rig: Rig) -> None:
    """It alone becomes a dead letter; those of the same batch are sent."""
    rig.change(source(), destination("crm", secret="s"))
    rig.start()
    rig.append("a", rig.record("b", body=b"no JSON"), "c")
    rig.turn()
    assert rig.offsets("crm") == [0, 2]
    rig.come_to_rest()
    assert [status for _, _, status in rig.dead_letters()] == ["failed"]
    assert [rig.status_at(id, "crm") for id in "abc"] == ["delivered", "failed", "delivered"]


def test_a_failure_between_successes(rig: Rig) -> None:
    """It narrows nothing that succeeded, and its event is tried again."""
    begin(rig, "crm", events=8)
    first, *others = rig.network.waiting
    rig.answer(first, Outcome.TIMED_OUT)
    tell(rig, others)
    rig.come_to_rest()
    assert [rig.status_at(f"m{n}", "crm") for n in range(8)] == ["delivered"] * 8
    assert rig.offsets("crm").count(first.offset) == 2


def test_a_failed_first_attempt_counts_from_when_it_began(rig: Rig) -> None:
    """As long as nothing fails an event has no more than its place in flight; the time is known all the same."""
    begin(rig, "crm", events=2)
    began_ms = rig.clock.now_ms()
    rig.clock.seconds += 3
    rig.answer(rig.network.waiting[0], 500)
    (row,) = rig.role.engine.batch.retries.values()
    assert (row.attempt, row.first_at_ms) == (1, began_ms)
    assert list(rig.lane("crm").in_flight) == [1]
