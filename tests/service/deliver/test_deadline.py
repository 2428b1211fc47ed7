"""Five seconds is the whole exchange, from connect to the end of the response head (SPEC 4.1, DESIGN 6.2)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.service.deliver.hostile import HostileReceiver, dripping, never_answer
from tests.service.deliver.per_case import Cases, service_per_case
from tests.service.harness import Receiver, wait_until

BURST = 6
LATE = {
    "silent": never_answer,
    "burst": never_answer,
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
        settings = {"deliver.timeout": "5s", "deliver.retry_first": "100h", "deliver.retry_max": "100h"}
        with service_per_case(tmp_path_factory.mktemp("deadline"), urls, settings) as running:
            yield running


@pytest.fixture(scope="module")
def sent(cases: Cases) -> dict[str, list[str]]:
    """An event for every case, several for ``burst``, all at once: the messageIds by case."""
    return {name: [cases.send(name) for _ in range(BURST if name == "burst" else 1)] for name in [*LATE, "slow"]}


def test_an_answer_within_the_time_counts(cases: Cases, sent: dict[str, list[str]]) -> None:
    """Four seconds are long, and in time."""
    part = cases.hookline.wait_fate(sent["slow"][0], "slow", "delivered")
    assert part["attempts"][0]["milliseconds"] >= 4_000


@pytest.mark.parametrize("name", list(LATE))
def test_what_is_not_answered_in_five_seconds_timed_out(name: str, cases: Cases, sent: dict[str, list[str]]) -> None:
    """Silence and drips end alike: five seconds in total, not since the last byte."""
    attempt = cases.wait_attempts(name, sent[name][0])[0]
    assert (attempt["outcome"], attempt["status"]) == ("timed_out", None)
    assert 4_900 <= attempt["milliseconds"] <= 6_500


def test_timeouts_are_logged_together(cases: Cases, sent: dict[str, list[str]]) -> None:
    """Events that time out in the same second make at most two lines, whose counts add up (DESIGN 6.2)."""
    for message_id in sent["burst"]:
        cases.wait_attempts("burst", message_id)
    wait_until(lambda: sum(_logged(cases)) == BURST, 3, "every timeout counted")
    assert len(_logged(cases)) <= 2


def _logged(cases: Cases) -> list[int]:
    """The counts of the delivery_timeout lines of the destination ``burst``."""
    lines = [json.loads(line) for line in cases.hookline.log.splitlines() if "delivery_timeout" in line]
    return [line["count"] for line in lines if line["destination"] == "burst"]
