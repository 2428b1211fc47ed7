"""Refusals of single events: each is a dead letter, and the stream goes on; only a long unbroken run stops it."""

from __future__ import annotations

import pytest

from hookline.connections.model import DeliveryOptions
from hookline.deliver.lanes.order import BURST_MIN
from hookline.limits import LIMITS
from hookline.outcomes.outcome import Outcome
from tests.unit.deliver.rig import Request, Rig, destination, source

SECONDS_PER_ROUND_TRIP = 0.05


def begin(rig: Rig, events: int) -> None:
    """Start with one destination and so many events on their way."""
    rig.change(source(), destination("crm"))
    rig.start()
    rig.append(*(f"m{n}" for n in range(events)))
    rig.turn()


def refuses_runs(request: Request) -> int:
    """Answer as a receiver that has no use for 70 in each 100."""
    return 422 if request.offset % 100 < 70 else 200


def round_trip(rig: Rig, how: object = refuses_runs) -> None:
    """Answer what is under way, and let time pass."""
    for request in list(rig.network.waiting):
        rig.answer(request, how(request) if callable(how) else how)  # type: ignore[arg-type]
    rig.pass_time(SECONDS_PER_ROUND_TRIP)


def test_a_receiver_that_refuses_runs_of_events_keeps_its_full_rate(rig: Rig) -> None:
    """Of 4,000 events it refuses runs of 70 in each 100: all are asked about within seconds, none waits."""
    begin(rig, 4_000)
    for _ in range(200):  # ten seconds
        round_trip(rig)
    rig.checkpoint()
    assert sorted(set(rig.offsets("crm"))) == list(range(4_000))
    assert rig.lane("crm").breaker.state == "closed"
    assert rig.lane("crm").breaker.allowance == LIMITS.full_allowance
    assert [rig.status_at(f"m{n}", "crm") for n in (0, 69, 70, 3_969, 3_999)] == [
        "failed",
        "failed",
        "delivered",
        "failed",
        "delivered",
    ]


def test_a_changed_schema_does_not_burn_the_stream(rig: Rig) -> None:
    """From 1,000 refusals in a row over a minute on events wait, and those that were refused go back to waiting. The
    oldest and untried ones are asked about in turns, until one is accepted."""
    begin(rig, 3_000)
    lane = rig.lane("crm")
    while lane.breaker.state != "open":
        for request in rig.network.waiting[:20]:
            rig.answer(request, 422)
        rig.pass_time(1.0)
        assert rig.clock.seconds < 1_200
    rig.answer_all(422)
    rig.checkpoint()
    assert lane.breaker.reason == "refused 422"
    assert {rig.status_at(f"m{n}", "crm") for n in (0, 500)} == {"retrying"}
    asked = len(rig.offsets("crm"))
    assert asked < 1_500
    tried: set[int] = set()
    for _ in range(600):
        tried |= {request.offset for request in rig.network.waiting}
        for request in list(rig.network.waiting):
            rig.answer(request, 422)
        rig.checkpoint()
        rig.pass_time(1.0)
    assert len(tried) <= 20
    assert min(tried) == 0
    assert max(tried) == asked + len(tried) - sum(offset < asked for offset in tried) - 1
    rig.come_to_rest()
    assert {rig.status_at(f"m{n}", "crm") for n in (0, 500, 1_999, 2_999)} == {"delivered"}


def test_a_refused_probe_says_nothing_against_the_receiver(rig: Rig) -> None:
    """While a breaker is open for failures, a refusal stays a dead letter, and the next event is tried at once."""
    begin(rig, 60)
    lane = rig.lane("crm")
    while lane.breaker.state != "open":
        rig.answer_all(503)
        rig.checkpoint()
        rig.pass_time(0.5)
    while not rig.network.waiting:
        rig.pass_time(0.5)
    (probe,) = rig.network.waiting
    rig.answer(probe, 422)
    rig.checkpoint()
    rig.pass_time(0.05)
    assert rig.status_at(f"m{probe.offset}", "crm") == "failed"
    assert len(rig.network.waiting) == 1
    assert lane.breaker.state == "open"
    rig.answer_all(200)
    assert lane.breaker.state != "open"


def test_a_receiver_that_refuses_is_reached(rig: Rig) -> None:
    """Although it was not before: untried events have their turn if refusals open the breaker later."""
    begin(rig, 2)
    rig.answer(rig.network.waiting[0], Outcome.NAME_NOT_RESOLVED)
    assert rig.lane("crm").unreached
    rig.answer(rig.network.waiting[0], 422)
    assert not rig.lane("crm").unreached


@pytest.mark.parametrize("per_second", [4.0, 0.5])
def test_probes_keep_to_the_rate(rig: Rig, per_second: float) -> None:
    """One refused event after the other is tried while a breaker is open or about to be: no faster than the user's
    ``maxRate`` and its one burst."""
    rig.change(source(), destination("crm", delivery=DeliveryOptions(max_rate=per_second)))
    rig.start()
    rig.append(*(f"m{n}" for n in range(60)))
    rig.turn()
    began: list[float] = []
    for answer in (*[503] * 4_000, *[422] * 2_000):
        began += [rig.clock.seconds] * len(rig.network.waiting)
        rig.answer_all(answer)
        rig.checkpoint()
        rig.pass_time(0.05)
    for index, first in enumerate(began):
        assert sum(at <= first + 10.0 for at in began[index:]) <= 10.0 * per_second + 2 * BURST_MIN
