"""The cap on retry rows where every event leaves one: fan-out ``all`` with a URL that is dead for long, and order."""

from __future__ import annotations

import pytest

from hookline.connections.model import DeliveryOptions
from hookline.deliver import dispatcher as engine
from hookline.deliver.lanes import lane, order
from tests.unit.deliver.rig import Rig, destination, source

ROWS_MAX = 20
QUEUE_MAX = 8
EVENTS = 400


@pytest.fixture
def crm(rig: Rig, small_queues: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> Rig:
    """A started rig with small limits and events of a few users and many, for a destination with a dead URL."""
    for module in (engine, lane):
        monkeypatch.setattr(module, "RETRY_ROWS_MAX", ROWS_MAX)
    monkeypatch.setattr(order, "HELD_MAX", 3)
    return rig


def begin(rig: Rig, options: DeliveryOptions, users: int) -> None:
    """Start with two URLs and a backlog."""
    rig.change(source(), destination("crm", urls=2, delivery=options))
    rig.start()
    for first in range(0, EVENTS, 4):
        rig.append(*(rig.record(f"m{n}", user_key=f"u{n % users}") for n in range(first, first + 4)))
    rig.turn()


def answer_with_one_dead(rig: Rig, seconds: float) -> int:
    """Let time pass; URL 1 refuses everything. Return the most rows there were."""
    most = 0
    for _ in range(int(seconds)):
        for request in list(rig.network.waiting):
            rig.answer(request, 503 if request.target.index else 200)
            rig.turn()
        rig.checkpoint()
        most = max(most, rig.lane("crm").retry_count)
        rig.pass_time(1.0)
    return most


@pytest.mark.parametrize("users", [2, EVENTS])
@pytest.mark.parametrize("ordered", [True, False])
def test_a_url_that_is_dead_for_long(crm: Rig, ordered: bool, users: int) -> None:
    """The rows stay within the cap and what the queue held, the rest in the journal; nobody gets anything twice."""
    begin(crm, DeliveryOptions(fan_out="all", order="user" if ordered else "none"), users)
    most = answer_with_one_dead(crm, 120)
    assert ROWS_MAX / 2 <= most <= ROWS_MAX + 4 * QUEUE_MAX
    assert len({request.offset for request in crm.network.sent}) < EVENTS
    crm.come_to_rest(seconds=1.0, rounds=3_000)
    for url in (0, 1):
        accepted = [request.offset for request in crm.network.sent if request.target.index == url]
        assert set(accepted) == set(range(EVENTS))
        assert url or len(accepted) == EVENTS
