"""Five seconds is the whole exchange, from connect to the end of the response head."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.service.deliver.hostile import HostileReceiver, dripping, never_answer
from tests.service.deliver.per_case import Cases, service_per_case
from tests.service.harness import Receiver, new_id, wait_until

BURST = 6
SLOW_SECONDS = 2.5
LATE = {
    "silent": never_answer,
    "burst": never_answer,
    "drip": dripping(b"HTTP/1.1 200 OK\r\n", b"X", 1.0),
    "interim": dripping(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n", 1.0),
}


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cases]:
    """A service with the default deadline, receivers that never finish, and one that takes half of the time."""
    with ExitStack() as stack:
        urls = {name: [stack.enter_context(HostileReceiver(behave)).url()] for name, behave in LATE.items()}
        slow = stack.enter_context(Receiver())
        slow.reply_with(200, delay_seconds=SLOW_SECONDS)
        urls["slow"] = [slow.url()]
        settings = {"deliver.timeout": "5s", "deliver.retry_first": "100h", "deliver.retry_max": "100h"}
        with service_per_case(tmp_path_factory.mktemp("deadline"), urls, settings) as running:
            yield running


@pytest.fixture(scope="module")
def sent(cases: Cases) -> dict[str, list[str]]:
    """An event for every case, several in one batch for ``burst``: the messageIds by case."""
    burst = [new_id("burst") for _ in range(BURST)]
    items = [{"type": "track", "userId": "u1", "event": "Test", "messageId": message_id} for message_id in burst]
    assert cases.hookline.post("/v1/batch", {"batch": items}, key="wk_burst").status == 200
    return {name: burst if name == "burst" else [cases.send(name)] for name in [*LATE, "slow"]}


def test_an_answer_within_the_time_counts(cases: Cases, sent: dict[str, list[str]]) -> None:
    """Half of the time is long, and in time."""
    part = cases.hookline.wait_status(sent["slow"][0], "slow", "delivered")
    assert part["attempts"][0]["milliseconds"] >= 1_000 * SLOW_SECONDS - 10


@pytest.mark.parametrize("name", list(LATE))
def test_what_is_not_answered_in_five_seconds_timed_out(name: str, cases: Cases, sent: dict[str, list[str]]) -> None:
    """Silence and drips end alike: five seconds in total, not since the last byte, which would be never."""
    attempt = cases.wait_attempts(name, sent[name][0])[0]
    assert (attempt["outcome"], attempt["httpStatus"]) == ("timed_out", None)
    assert attempt["milliseconds"] >= 4_900


def test_timeouts_are_logged_together(cases: Cases, sent: dict[str, list[str]]) -> None:
    """Events that time out in the same second make at most two lines, whose counts add up."""
    for message_id in sent["burst"]:
        cases.wait_attempts("burst", message_id)
    wait_until(lambda: sum(_logged(cases)) == BURST, what="every timeout counted")
    assert len(_logged(cases)) <= 2


def _logged(cases: Cases) -> list[int]:
    """The counts of the delivery_timeout lines of the destination ``burst``."""
    lines = [json.loads(line) for line in cases.hookline.log.splitlines() if "delivery_timeout" in line]
    return [line["count"] for line in lines if line["destination"] == "burst"]
