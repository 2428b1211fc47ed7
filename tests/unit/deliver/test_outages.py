"""Receivers as they are in the field: flapping, back all at once, slowing down, late, or with a rotated token."""

from __future__ import annotations

import random

from hookline.limits import LIMITS
from tests.unit.deliver.rig import Rig, destination, source

HOUR_SECONDS = 3_600


def begin(rig: Rig, *ids: str, events: int) -> list[str]:
    """Start with these destinations and so many events; return the events' names."""
    rig.change(source(), *(destination(id) for id in ids))
    rig.start()
    names = [f"m{n}" for n in range(events)]
    rig.append(*names)
    rig.turn()
    return names


def statuses(rig: Rig, names: list[str], id: str = "crm") -> set[str]:
    """What became of them."""
    rig.checkpoint()
    return {rig.status_at(name, id) for name in names}


def test_a_rotated_token_burns_nothing(rig: Rig) -> None:
    """401 to everything for an hour, then the token is right again: every event arrives, none is a dead letter."""
    names = begin(rig, "crm", events=300)
    for _ in range(HOUR_SECONDS // 10):
        rig.answer_all(401)
        rig.checkpoint()
        rig.pass_time(10)
    assert rig.lane("crm").breaker.state == "open"
    rig.come_to_rest()
    assert statuses(rig, names) == {"delivered"}


def test_a_flapping_receiver_gets_everything(rig: Rig) -> None:
    """Up for seconds, down for seconds, again and again; nothing is lost, nothing waits for ever."""
    names = begin(rig, "crm", events=200)
    chance = random.Random(1)
    for turn in range(400):
        for request in list(rig.network.waiting):
            rig.answer(request, 200 if turn // 8 % 2 or chance.random() < 0.1 else 503)
        rig.turn()
        rig.checkpoint()
        rig.pass_time(0.5)
    rig.come_to_rest()
    assert statuses(rig, names) == {"delivered"}


def test_many_receivers_coming_back_at_once_share_the_places(rig: Rig) -> None:
    """Sixty lanes that were all down: together they never pass their share, and each gets all it missed."""
    ids = [f"d{n}" for n in range(60)]
    names = begin(rig, *ids, events=30)
    while any(rig.lane(id).breaker.state != "open" for id in ids):
        rig.answer_all(503)
        rig.checkpoint()
        rig.pass_time(1)
        assert rig.role.engine.unhealthy <= LIMITS.unhealthy_in_flight_max
    for _ in range(4_000):
        for request in list(rig.network.waiting):
            rig.answer(request, 200)
        rig.turn()
        assert rig.role.engine.in_flight <= LIMITS.in_flight_max
        assert rig.role.engine.unhealthy <= LIMITS.unhealthy_in_flight_max
        rig.checkpoint()
        if rig.at_rest():
            break
        rig.pass_time(1)
    for id in ids[:3]:
        assert statuses(rig, names, id) == {"delivered"}
    assert {len(rig.offsets(id)) >= 30 for id in ids} == {True}


def test_one_that_slows_down_is_asked_less(rig: Rig) -> None:
    """When it begins to run into the time limit, fewer requests are in flight; when it is quick again, more."""
    begin(rig, "crm", events=2_000)
    for request in list(rig.network.waiting):
        rig.answer(request, 200)
    while rig.lane("crm").breaker.allowance < 64:
        rig.answer(rig.network.waiting[0], 200)
        rig.turn()
    most = rig.lane("crm").breaker.allowance
    for _ in range(4):
        rig.answer(rig.network.waiting[0], 504)
        rig.pass_time(1)
    assert rig.lane("crm").breaker.allowance < most / 4
    rig.come_to_rest(seconds=1)
    assert rig.lane("crm").breaker.allowance >= 32


def test_an_answer_after_4_9_seconds_is_a_success(rig: Rig) -> None:
    """It is slow, not ill: it keeps its place, is asked for more at once, and nothing is sent twice."""
    names = begin(rig, "crm", events=400)
    for _ in range(400):
        for request in list(rig.network.waiting):
            rig.answer(request, 200, milliseconds=4_900)
        rig.turn()
        if not rig.network.waiting:
            break
        rig.pass_time(4.9)
    assert rig.lane("crm").breaker.state == "closed"
    assert rig.lane("crm").breaker.allowance > 64
    assert statuses(rig, names) == {"delivered"}
    assert rig.offsets("crm") == sorted(set(rig.offsets("crm")))
