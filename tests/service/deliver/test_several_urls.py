"""Several receiver URLs: one POST to each at once, any success ends it, only failures worth it are tried again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest

from tests.service.deliver.hostile import HostileReceiver, never_answer
from tests.service.deliver.per_case import Cases, service_per_case
from tests.service.harness import Hookline, Receiver, holds_for, webhook


@dataclass(frozen=True)
class Shape:
    """How the receivers of one destination answer, in the order of their URLs."""

    statuses: tuple[int, ...]
    status: str
    sent_once: tuple[int, ...] = field(default=())
    """Places of the URLs that must get the event exactly once."""


SHAPES = {
    "takenbysecond": Shape((500, 200), "delivered", (0, 1)),
    "takenbyfirst": Shape((200, 503), "delivered", (0, 1)),
    "takenbyboth": Shape((200, 201), "delivered", (0, 1)),
    "takenbyfifth": Shape((500, 404, 503, 429, 204), "delivered", (0, 1, 2, 3, 4)),
    "finalbyall": Shape((400, 404, 410), "failed", (0, 1, 2)),
    "onlyoneworthit": Shape((400, 500), "retrying", (0,)),
}
RECOVERING = "recovering"
"""A destination whose first URL fails finally and whose second one recovers."""


@pytest.fixture(scope="module")
def receivers() -> Iterator[dict[str, list[Receiver]]]:
    """The receivers of each shape."""
    with ExitStack() as stack:
        made = {name: [stack.enter_context(Receiver()) for _ in shape.statuses] for name, shape in SHAPES.items()}
        for name, shape in SHAPES.items():
            for receiver, status in zip(made[name], shape.statuses, strict=True):
                receiver.reply_with(status)
        made[RECOVERING] = [stack.enter_context(Receiver()) for _ in range(2)]
        yield made


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory, receivers: dict[str, list[Receiver]]) -> Iterator[Cases]:
    """One service with a destination per shape."""
    urls = {name: [receiver.url() for receiver in found] for name, found in receivers.items()}
    with service_per_case(tmp_path_factory.mktemp("urls"), urls) as running:
        yield running


@pytest.mark.parametrize("name", list(SHAPES))
def test_any_success_ends_it_and_only_retryable_failures_are_repeated(
    name: str, cases: Cases, receivers: dict[str, list[Receiver]]
) -> None:
    """Every URL is tried at once; afterwards only what may still help."""
    shape = SHAPES[name]
    message_id = cases.send(name)
    part = cases.hookline.wait_status(message_id, name, shape.status)
    for receiver in receivers[name]:
        receiver.wait_for(message_id)
    holds_for(
        lambda: all(len(receivers[name][place].of(message_id)) == 1 for place in shape.sent_once), 0.5, "sent once each"
    )
    first = {attempt["url"]: attempt["httpStatus"] for attempt in part["attempts"] if attempt["number"] == 1}
    told = {receiver.url(): status for receiver, status in zip(receivers[name], shape.statuses, strict=True)}
    if shape.status == "delivered":  # those that lost the race may not have answered when the event was done
        assert first.items() <= told.items()
        assert any(200 <= status < 300 for status in first.values())
    else:
        assert first == told


def test_the_one_worth_it_is_tried_again_until_it_takes_the_event(
    cases: Cases, receivers: dict[str, list[Receiver]]
) -> None:
    """Of a final and a passing failure the passing one alone is repeated, and its success delivers."""
    final, passing = receivers[RECOVERING]
    final.reply_with(400)
    passing.reply_with(500)
    message_id = cases.send(RECOVERING)
    passing.wait_for(message_id, 3)
    passing.reply_with(200)
    cases.hookline.wait_status(message_id, RECOVERING, "delivered")
    assert len(final.of(message_id)) == 1


def test_a_hanging_url_does_not_hold_up_its_neighbour(
    receiver: Receiver, new_hookline: Callable[..., Hookline]
) -> None:
    """The second URL's success counts at once, while the first one still has an hour to answer."""
    with HostileReceiver(never_answer) as hanging:
        hookline = new_hookline(webhook("crm", hanging.url(), receiver.url()), settings={"deliver.timeout": "1h"})
        hookline.start()
        hookline.wait_status(hookline.track(), "crm", "delivered")
        hookline.kill9()
