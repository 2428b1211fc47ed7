"""What is broken on purpose is found: each feature once, by runs that use it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hookline.deliver.dispatcher import Dispatcher
from hookline.deliver.erasures import Erasures
from hookline.deliver.lanes.lane import Lane
from hookline.deliver.lanes.order import Rate
from hookline.deliver.lanes.replay_lane import ReplayLane
from hookline.deliver.read.feeder import Feeder
from hookline.deliver.replays import Replays
from hookline.route.filters import Filters
from tests.worlds import run as module
from tests.worlds.plan import plain_plan_of, plan_of
from tests.worlds.run import run

available = Rate.available


@pytest.mark.parametrize(
    ("seed", "owner", "name", "replacement", "words"),
    [
        (40008, Lane, "passes", lambda lane, record: True, "to which it does not belong"),
        (40000, Filters, "body", lambda filters, record, rendered, canonical: rendered, "filters leave it"),
        (40052, Dispatcher, "_was_the_last", lambda *_: True, "have it"),
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
        (400020, Feeder, "read_anew", lambda *_: None, "erased since"),
        (400003, Erasures, "_give_back", lambda *_: None, "although its erasure is answered"),
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
    """Filters that stop nothing or take nothing out, one URL for all, three times the rate, drains and replays that
    end too early or never, readers and queues that keep what is erased."""
    monkeypatch.setattr(module, "REST_SECONDS_MAX", 60.0)
    monkeypatch.setattr(owner, name, replacement)
    assert any(words in wrong for wrong in run(plan_of(seed)).violations)


def test_a_plain_run_uses_no_feature() -> None:
    """So that seeds that found something long ago still mean the same run."""
    assert all(plain_plan_of(seed).features == () for seed in range(20))
    assert any(plan_of(seed).features for seed in range(20))
