"""What a failure means follows from the delivery and its failures, and from nothing that happens elsewhere."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hookline.deliver.lanes.delivery import ASKED_TO_WAIT, Delivery, FailedTry
from hookline.deliver.lanes.lane import Target
from hookline.deliver.retry.policy import (
    DeadLetter,
    Decision,
    Hold,
    Retry,
    RetrySchedule,
    are_gone,
    decide,
    wait_asked_for,
)
from hookline.deliver.send.port import Failure
from hookline.outcomes.outcome import of_status
from hookline.settings import Deliver

NOW_MS = 1_795_158_000_000
WINDOW_MS = 4 * 3_600_000


def meaning(*statuses: int, age_ms: int = 0, retry_after: bytes | None = None, **lane: Any) -> Decision:
    """Return what it means that a destination's URLs have answered with these statuses."""
    templates = [SimpleNamespace(url=f"https://crm.example.com/{index}") for index in range(len(statuses))]
    targets = [Target(cast(Any, each), index, 1, cast(Any, None)) for index, each in enumerate(templates)]
    usual = {"fan_out": "any", "order": None, "closed": False, "to_all": False, "mapped": None, "urls": ()}
    fields = usual | {"targets": targets} | lane
    of_lane = SimpleNamespace(options=SimpleNamespace(fan_out=fields.pop("fan_out")), **fields)
    failures = [
        FailedTry(target, Failure(of_status(status), status, "no", retry_after), NOW_MS, 1)
        for target, status in zip(targets, statuses, strict=True)
    ]
    delivery = Delivery(cast(Any, of_lane), cast(Any, None), NOW_MS - age_ms, failures=failures)
    schedule = RetrySchedule(Deliver(), random.Random(1))
    return decide(delivery, failures, are_gone(delivery, failures), wait_asked_for(failures, NOW_MS), schedule, NOW_MS)


@pytest.mark.parametrize(
    ("statuses", "age_ms", "expected"),
    [
        ((401,), 0, DeadLetter("failed")),
        ((422, 404), 0, DeadLetter("failed")),
        ((503,), WINDOW_MS, DeadLetter("expired")),
        ((410,), WINDOW_MS, DeadLetter("expired")),
    ],
)
def test_an_event_is_given_up(statuses: tuple[int, ...], age_ms: int, expected: DeadLetter) -> None:
    """Every URL has refused it for good, or its window has ended."""
    assert meaning(*statuses, age_ms=age_ms) == expected


@pytest.mark.parametrize(
    ("statuses", "lane", "urls"),
    [
        ((503,), {}, 0b1),
        ((422, 500), {}, 0b10),
        ((422, 500), {"to_all": True}, 0b1_00010),
        ((410, 410), {}, 0b11111),
    ],
)
def test_an_event_is_tried_again_where_that_may_help(
    statuses: tuple[int, ...], lane: dict[str, Any], urls: int
) -> None:
    """At the URLs that did not refuse for good; where all are gone, at whatever the destination has by then."""
    found = meaning(*statuses, **lane)
    assert isinstance(found, Retry)
    assert found.urls == urls
    assert NOW_MS < found.due_ms <= NOW_MS + 1_000


def test_a_receiver_is_not_asked_before_the_time_it_wants() -> None:
    """Retry-After counts beyond the longest pause, and is noted in the row."""
    found = meaning(503, retry_after=b"3600")
    assert found == Retry(NOW_MS + 3_600_000, 0b1 | ASKED_TO_WAIT)


def test_a_user_in_order_does_not_wait_for_hours() -> None:
    """Where others of its user wait behind an event, the receiver's wish holds for the longest pause at most."""
    found = meaning(503, retry_after=b"3600", order=object())
    assert isinstance(found, Retry)
    assert found.due_ms == NOW_MS + 600_000


def test_nothing_follows_in_a_lane_that_has_ended() -> None:
    """What it left is discarded as a whole."""
    assert isinstance(meaning(503, closed=True), Hold)
    assert meaning(401, closed=True) == Hold(None)
