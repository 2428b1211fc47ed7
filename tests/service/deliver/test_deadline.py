"""Five seconds is the whole exchange, from connect to the end of the response head (SPEC 4.1, DESIGN 6.2)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.service.deliver.hostile import HostileReceiver, dripping, never_answer
from tests.service.deliver.per_case import Cases, service_per_case
from tests.service.harness import Receiver

LATE = {
    "silent": never_answer,
    "drip": dripping(b"HTTP/1.1 200 OK\r\n", b"X", 1.0),
    "interim": dripping(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n", 1.0),
}


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cases]:
    """A service with the default deadline, receivers that never finish, and one that answers after four seconds."""
    with ExitStack() as stack:
        urls = {name: [stack.enter_context(HostileReceiver(behave)).url()] for name, behave in LATE.items()}
        slow = stack.enter_context(Receiver())
        slow.reply_with(200, delay_seconds=4.0)
        urls["slow"] = [slow.url()]
        settings = {"deliver.timeout": "5s", "deliver.retry_first": "1m"}
        with service_per_case(tmp_path_factory.mktemp("deadline"), urls, settings) as running:
            yield running


def test_what_is_not_answered_in_five_seconds_timed_out(cases: Cases) -> None:
    """Silence and drips end alike after five seconds in total; an answer after four still counts."""
    sent = {name: cases.send(name) for name in [*LATE, "slow"]}
    part = cases.hookline.wait_fate(sent["slow"], "slow", "delivered")
    assert part["attempts"][0]["milliseconds"] >= 4_000
    for name in LATE:
        (attempt,) = cases.wait_attempts(name, sent[name])
        assert (attempt["outcome"], attempt["status"]) == ("timed_out", None)
        assert 4_900 <= attempt["milliseconds"] <= 6_500


def test_a_timeout_is_logged_at_most_once_a_second(cases: Cases) -> None:
    """Many events that time out together make few lines, each with a count (DESIGN 6.2)."""
    before = cases.hookline.log.count("delivery_timeout")
    started = time.monotonic()
    sent = [cases.send("silent") for _ in range(30)]
    for message_id in sent:
        cases.wait_attempts("silent", message_id)
    lines = cases.hookline.log.count("delivery_timeout") - before
    assert 1 <= lines <= time.monotonic() - started + 1
