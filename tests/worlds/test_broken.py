"""What is broken on purpose is found: each feature once, by runs that use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import pytest

from hookline.connections.model import Destination, LaneConfig
from hookline.deliver.dispatcher import Dispatcher
from hookline.deliver.erasures import Erasures
from hookline.deliver.lanes.lane import Lane, Target
from hookline.deliver.lanes.lane_set import LaneSet
from hookline.deliver.lanes.mapped import RequestParcel
from hookline.deliver.lanes.order import Rate, UserOrder
from hookline.deliver.lanes.replay_lane import ReplayLane
from hookline.deliver.read.feeder import Feeder
from hookline.deliver.replays import Replays
from hookline.kinds.answers import Judge, Verdict
from hookline.kinds.requests import CompiledRequest
from hookline.outcomes.rows import AttemptRows
from hookline.route.filters import Filters
from tests.worlds import run as module
from tests.worlds.plan import plain_plan_of, plan_of
from tests.worlds.run import run

available = Rate.available
configure = Lane.configure
each = Judge.each
end = LaneSet._end
halves = RequestParcel.halves
join = CompiledRequest.join
note_success = Dispatcher._note_success


def _open_without_settings(engine: Dispatcher, lane: Lane, milliseconds: int) -> None:
    targets, lane.targets = lane.targets, lane.targets or (cast(Target, None),)
    note_success(engine, lane, milliseconds)
    lane.targets = targets


def _take_up_anew(lane: Lane, destination: Destination, start: LaneConfig, *given: Any, **named: Any) -> None:
    configure(lane, destination, start, *given, **named)
    lane.catch_up_rate = start.catch_up_rate
    lane.pace()


def _end_and_forget(lanes: LaneSet, lane: Lane) -> None:
    end(lanes, lane)
    lanes._engine.ended.clear()


def _leave_one_out(request: CompiledRequest, items: Sequence[bytes]) -> bytes:
    return join(request, items[:-1] if len(items) > 1 else items)


def _send_one_half(parcel: RequestParcel) -> Iterator[RequestParcel]:
    yield next(iter(halves(parcel)))


def _judge_backwards(judge: Judge, *given: Any) -> list[Verdict]:
    return each(judge, *given)[::-1]


@pytest.mark.parametrize(
    ("seed", "owner", "name", "replacement", "words"),
    [
        (40008, Lane, "passes", lambda lane, record: True, "to which it does not belong"),
        (40000, Filters, "body", lambda filters, record, rendered, canonical: rendered, "filters leave it"),
        (40003, Dispatcher, "_was_the_last", lambda *_: True, "have it"),
        (40013, Rate, "available", lambda rate, now: 3 * available(rate, now) + 3, "attempts per second"),
        (40007, Lane, "is_drained", property(lambda lane: lane.drains), "neither delivered nor given up"),
        (40010, Replays, "tick", lambda *_: None, "not at rest"),
        (
            40010,
            ReplayLane,
            "finished",
            property(lambda lane: not lane.in_flight),
            "neither delivered nor given up",
        ),
        (400060, Feeder, "read_anew", lambda *_: None, "erased since"),
        (400079, Erasures, "_give_back", lambda *_: None, "although its erasure is answered"),
        (400032, Dispatcher, "_note_success", _open_without_settings, "nothing was sent"),
        (400072, Lane, "configure", _take_up_anew, "catches up again"),
        (400000, Lane, "end_catch_up", lambda *_, **given: None, "has nothing to send and keeps to"),
        (400007, AttemptRows, "saved", lambda *_: set(), "its total says"),
        (400004, LaneSet, "_end", _end_and_forget, "its total says"),
        (500006, UserOrder, "admit", lambda order, event: True, "although both are of"),
        (500009, CompiledRequest, "join", _leave_one_out, "no receiver has it"),
        (500026, Judge, "each", _judge_backwards, "which took it"),
        (500004, RequestParcel, "halves", _send_one_half, "nothing was sent"),
    ],
)
def test_it_is_found(
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    owner: type,
    name: str,
    replacement: Callable[..., object] | property,
    words: str,
) -> None:
    """Filters that stop nothing or take nothing out, one URL for all, three times the rate, drains and replays that end
    too early or never, readers and queues that keep what is erased, breakers that close without settings, an order that
    is not kept, rates of a catch-up that go on, results that are counted twice or not at all, and batches that leave
    out events, take one event's answer for another's, or end half tried."""
    monkeypatch.setattr(module, "REST_SECONDS_MAX", 60.0)
    monkeypatch.setattr(owner, name, replacement)
    assert any(words in wrong for wrong in run(plan_of(seed)).violations)


def test_a_plain_run_uses_no_feature() -> None:
    """So that seeds that found something long ago still mean the same run."""
    assert all(plain_plan_of(seed).features == () for seed in range(20))
    assert any(plan_of(seed).features for seed in range(20))
