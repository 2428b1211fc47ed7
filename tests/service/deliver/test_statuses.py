"""What the answer's status means for an event: delivered, tried again, or kept as a dead letter."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from email.utils import formatdate
from typing import Any

import pytest

from tests.service.deliver.hostile import HostileReceiver, never_answer
from tests.service.deliver.per_case import Cases, instant, service_per_case
from tests.service.harness import Receiver, free_port, holds_for, wait_until
from tests.service.waiting import WAIT_SECONDS

REDIRECTS = (301, 302, 303, 307, 308)
FINAL = (400, 401, 403, 404, 413, 422, 999, 300, 304, *REDIRECTS)
RETRIED = {408: "timed_out", 429: "throttled", 500: "server_error", 501: "server_error", 503: "server_error"}
EXPIRING = ("never", "far")
WINDOW_SECONDS = 5.0


@pytest.fixture(scope="module")
def canary() -> Iterator[HostileReceiver]:
    """Where redirects lead: nothing may ever connect to it."""
    with HostileReceiver(never_answer, port=free_port()) as listening:
        yield listening


@pytest.fixture(scope="module")
def receivers() -> Iterator[dict[str, Receiver]]:
    """A receiver per case, told by each test how to answer."""
    names = [*(f"s{status}" for status in (*FINAL, *RETRIED)), "after", "date", "negative", "garbage", "gone"]
    with ExitStack() as stack:
        yield {name: stack.enter_context(Receiver()) for name in (*names, *EXPIRING)}


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory, receivers: dict[str, Receiver]) -> Iterator[Cases]:
    """One service with all that do not expire."""
    urls = {name: [receiver.url()] for name, receiver in receivers.items() if name not in EXPIRING}
    with service_per_case(tmp_path_factory.mktemp("statuses"), urls) as running:
        yield running


@pytest.fixture(scope="module")
def brief(tmp_path_factory: pytest.TempPathFactory, receivers: dict[str, Receiver]) -> Iterator[Cases]:
    """One with a short window for the others."""
    urls = {name: [receivers[name].url()] for name in EXPIRING}
    settings = {"deliver.retry_window": f"{WINDOW_SECONDS:g}s"}
    with service_per_case(tmp_path_factory.mktemp("brief"), urls, settings) as running:
        yield running


@pytest.fixture(scope="module")
def sent(cases: Cases, receivers: dict[str, Receiver], canary: HostileReceiver) -> dict[str, str]:
    """One event for each final answer, all at once: the messageIds by case."""
    for status in FINAL:
        location = {"Location": canary.url("/elsewhere")} if status < 400 else {}
        receivers[f"s{status}"].reply_with(status, body=b"not <b>here</b>", headers=location)
    return {name: cases.send(name) for name in [f"s{status}" for status in FINAL]}


@pytest.mark.parametrize("status", FINAL)
def test_a_final_answer_makes_a_dead_letter_at_once(
    status: int, cases: Cases, sent: dict[str, str], receivers: dict[str, Receiver]
) -> None:
    """One attempt, status failed, outcome refused, listed among the dead letters."""
    name = f"s{status}"
    part = cases.hookline.wait_status(sent[name], name, "failed")
    (attempt,) = part["attempts"]
    assert (attempt["outcome"], attempt["httpStatus"], attempt["nextAt"]) == ("refused", status, None)
    assert attempt["url"] == receivers[name].url()
    assert _dead_letters(cases)[sent[name]]["status"] == "failed"


def test_no_final_answer_is_tried_again_and_no_redirect_followed(
    sent: dict[str, str], receivers: dict[str, Receiver], canary: HostileReceiver
) -> None:
    """Beyond the longest back-off every receiver has the event once, and the redirects' target nothing."""
    for name, message_id in sent.items():
        receivers[name].wait_for(message_id)
    holds_for(lambda: all(len(receivers[name].of(sent[name])) == 1 for name in sent), 0.6, "sent once")
    assert canary.connections == 0


@pytest.mark.parametrize(("status", "outcome"), RETRIED.items())
def test_a_passing_failure_is_tried_again_until_it_is_taken(
    status: int, outcome: str, cases: Cases, receivers: dict[str, Receiver]
) -> None:
    """The event waits with the outcome of the closed set and is delivered once the receiver recovers; every attempt has
    the same bytes."""
    receiver = receivers[f"s{status}"]
    receiver.reply_with(status, body=b"later")
    message_id = cases.send(f"s{status}")
    receiver.wait_for(message_id, 2)
    receiver.reply_with(200)
    attempts = cases.hookline.wait_status(message_id, f"s{status}", "delivered")["attempts"]
    assert [(a["outcome"], a["httpStatus"]) for a in attempts[:-1]] == [(outcome, status)] * (len(attempts) - 1)
    assert (attempts[-1]["outcome"], attempts[-1]["httpStatus"]) == ("success", 200)
    assert [a["number"] for a in attempts] == list(range(1, len(attempts) + 1))
    assert len({(request.body, request.headers["x-message-id"]) for request in receiver.of(message_id)}) == 1


def test_retry_after_in_seconds_is_honoured_beyond_retry_max(cases: Cases, receivers: dict[str, Receiver]) -> None:
    """The receiver asks for 2 s where retry_max is 0.3 s: the second attempt comes after them."""
    first, second = _two_attempts(cases, receivers["after"], "after", 429, "2")
    assert second - first >= 1.9


def test_retry_after_as_a_date_is_honoured(cases: Cases, receivers: dict[str, Receiver]) -> None:
    """The same with an HTTP date three seconds ahead: the second attempt comes after it."""
    date = int(time.time()) + 3
    _, second = _two_attempts(cases, receivers["date"], "date", 503, formatdate(date, usegmt=True))
    wall_clock = time.time() - time.monotonic()
    assert second + wall_clock >= date - 0.1


@pytest.mark.parametrize(("name", "value"), [("negative", "-1"), ("garbage", "soon; or $(later)")])
def test_an_unreadable_retry_after_is_ignored(
    name: str, value: str, cases: Cases, receivers: dict[str, Receiver]
) -> None:
    """The event is tried again on its own schedule, not at the end of its four hours."""
    _two_attempts(cases, receivers[name], name, 503, value)


def test_retry_after_never_goes_past_the_window(brief: Cases, receivers: dict[str, Receiver]) -> None:
    """Ten years are cut to the window's end; there the event becomes a dead letter."""
    receivers["far"].reply_with(503, headers={"Retry-After": str(10 * 365 * 86_400)})
    message_id = brief.send("far")
    attempt = brief.wait_attempts("far", message_id)[0]
    assert instant(attempt["nextAt"]) - instant(attempt["at"]) <= WINDOW_SECONDS + 0.5
    brief.hookline.wait_status(message_id, "far", "expired", seconds=WINDOW_SECONDS + WAIT_SECONDS)


def test_the_window_ends_in_a_dead_letter(brief: Cases, receivers: dict[str, Receiver]) -> None:
    """An event that fails all along is tried until the window ends, and its dead letter says expired."""
    receivers["never"].reply_with(500)
    message_id = brief.send("never")
    part = brief.hookline.wait_status(message_id, "never", "expired", seconds=WINDOW_SECONDS + WAIT_SECONDS)
    attempts = part["attempts"]
    assert len(attempts) >= 2
    assert all(instant(each["nextAt"]) - instant(attempts[0]["at"]) <= WINDOW_SECONDS + 0.5 for each in attempts[:-1])
    assert _dead_letters(brief)[message_id]["status"] == "expired"
    count = len(receivers["never"].of(message_id))
    holds_for(lambda: len(receivers["never"].of(message_id)) == count, 0.6, "not tried after the window")


def test_a_receiver_that_is_gone_stops_its_destination(cases: Cases, receivers: dict[str, Receiver]) -> None:
    """410 parks the destination: no event is burned on it, later ones are not even tried, and all go out afterwards.

    Until it is paused probes take the oldest event; while its last answer is being saved, the one behind it.
    """
    receiver = receivers["gone"]
    receiver.reply_with(410)
    first = cases.send("gone")
    attempt = cases.wait_attempts("gone", first)[0]
    assert (attempt["outcome"], attempt["httpStatus"]) == ("refused", 410)
    later = [cases.send("gone") for _ in range(5)]
    wait_until(lambda: _standing(cases)["state"] == "paused", what="paused")
    assert _standing(cases)["paused"]["by"] == "hookline"
    assert not cases.hookline.wait_status(later[-1], "gone", "queued", reason="paused")["attempts"]
    receiver.reply_with(200)
    assert cases.hookline.api("POST", "destinations/gone/resume").status == 200
    for message_id in (first, *later):
        cases.hookline.wait_status(message_id, "gone", "delivered")
    assert len(receiver.of(later[-1])) == 1
    holds_for(lambda: _standing(cases)["paused"] is None, 2.5, "it stays resumed")


def _standing(cases: Cases) -> dict[str, Any]:
    """How the destination whose receiver is gone stands."""
    return dict(cases.hookline.api("GET", "destinations/gone/metrics").json)


def _two_attempts(cases: Cases, receiver: Receiver, name: str, status: int, retry_after: str) -> tuple[float, float]:
    """When the first two attempts of an event arrived; the second is taken."""
    receiver.reply_with(status, headers={"Retry-After": retry_after})
    message_id = cases.send(name)
    receiver.wait_for(message_id)
    attempt = cases.hookline.wait_status(message_id, name, "retrying")["attempts"][0]
    assert attempt["nextAt"] > attempt["at"]
    receiver.reply_with(200)
    first, second = receiver.wait_for(message_id, 2)[:2]
    return first.at, second.at


def _dead_letters(cases: Cases) -> dict[str, dict[str, Any]]:
    """The newest dead letters by messageId."""
    return {item["messageId"]: item for item in cases.hookline.api("GET", "dead-letters?limit=200").json["items"]}
