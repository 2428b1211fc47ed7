"""Replays by the real service: to another destination, killed in the middle, cancelled, and of dead letters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hookline.limits import LIMITS
from tests.service.deliver.per_case import Cases
from tests.service.harness import WRITE_KEY, Hookline, Receiver, holds_for, new_id, wait_until, webhook

CASES = ("live", "counted", "mended", "given-up")
EVENTS = 3_000
BATCH = 500
IN_FLIGHT_MAX = LIMITS.allowance_max
"""Of one replay: what a kill may send twice."""


@pytest.fixture
def other() -> Iterator[Receiver]:
    """A second healthy receiver."""
    with Receiver() as running:
        yield running


@pytest.fixture
def hookline(cases: Cases) -> Hookline:
    """The service of the cases."""
    return cases.hookline


def fill(hookline: Hookline, count: int = EVENTS, key: str = WRITE_KEY) -> list[str]:
    """Store so many events."""
    sent = [new_id() for _ in range(count)]
    for first in range(0, count, BATCH):
        batch = [{"type": "track", "userId": "u1", "event": "Day", "messageId": id} for id in sent[first:][:BATCH]]
        assert hookline.post("/v1/batch", {"batch": batch}, key=key).status == 200
    return sent


def replay(hookline: Hookline, **request: Any) -> str:
    """Begin a replay and return its id."""
    answer = hookline.api("POST", "replays", request)
    assert answer.status == 201, answer
    return str(answer.json["id"])


def view(hookline: Hookline, id: str) -> dict[str, Any]:
    """How a replay stands."""
    return dict(hookline.api("GET", f"replays/{id}").json)


def ended(hookline: Hookline, id: str) -> dict[str, Any]:
    """How a replay ended; one that is done, once it is counted."""
    wait_until(lambda: view(hookline, id)["state"] in ("done", "cancelled"), 60, f"the end of {id}")
    if view(hookline, id)["state"] == "done":
        wait_until(lambda: view(hookline, id)["total"] is not None, what=f"the count of {id}")
    return view(hookline, id)


def test_a_range_to_a_second_destination_over_kill_9(
    new_hookline: Callable[..., Hookline], receiver: Receiver, other: Receiver
) -> None:
    """Every event of the range arrives at the new receiver exactly once, apart from what was in flight."""
    hookline = new_hookline(webhook("first", receiver.url())).start()
    sent = fill(hookline)
    assert hookline.api("POST", "destinations", webhook("second", other.url())).status == 201
    id = replay(hookline, destination="second")
    wait_until(lambda: len(other.requests) > EVENTS // 3, 30, "a third of the replay")
    hookline.kill9()
    hookline.start()
    result = ended(hookline, id)
    assert (result["state"], result["delivered"], result["failed"], result["total"]) == ("done", EVENTS, 0, EVENTS)
    arrived = [request.message_id for request in other.requests]
    assert set(arrived) == set(sent)
    assert len(arrived) - EVENTS <= IN_FLIGHT_MAX
    assert {request.headers["x-hookline-replay"] for request in other.requests} == {id}
    part = hookline.status_at(sent[0], "second")
    assert (part["status"], [(each["id"], each["status"]) for each in part["replays"]]) == (
        "not_routed",
        [(id, "delivered")],
    )


def test_live_events_go_on_beside_a_replay(hookline: Hookline, cases: Cases, receivers: dict[str, Receiver]) -> None:
    """While a slow replay runs, what comes in now is sent at once, without the header."""
    receiver = receivers["live"]
    sent = fill(hookline, 200, "wk_live")
    receiver.wait_for(sent[-1])
    id = replay(hookline, destination="live", rate=20)
    wait_until(lambda: any("x-hookline-replay" in each.headers for each in receiver.requests), what="the replay")
    (live,) = receiver.wait_for(cases.send("live"), seconds=5)
    assert "x-hookline-replay" not in live.headers
    wait_until(lambda: view(hookline, id)["state"] == "running", what="its first checkpoint")


def test_a_dry_run_sends_nothing(hookline: Hookline, receivers: dict[str, Receiver]) -> None:
    """It says how many, shows a few, and nothing arrives."""
    receiver = receivers["counted"]
    sent = fill(hookline, 300, "wk_counted")
    wait_until(lambda: len(receiver.requests) == 300, what="the first delivery")
    run = hookline.api("POST", "replays", {"destination": "counted", "dryRun": True}).json
    wait_until(lambda: view(hookline, run["id"])["state"] == "counted", what="the count")
    found = view(hookline, run["id"])
    assert (found["total"], found["sample"][0]["messageId"]) == (300, sent[0])
    holds_for(lambda: len(receiver.requests) == 300, 1.0, "nothing is sent")


def test_paused_resumed_cancelled(new_hookline: Callable[..., Hookline], receiver: Receiver) -> None:
    """A paused replay sends nothing over a restart; a cancelled one never again, and `why` says so."""
    hookline = new_hookline(webhook("crm", receiver.url())).start()
    sent = fill(hookline, 400)
    wait_until(lambda: len(receiver.requests) == 400, what="the first delivery")
    id = replay(hookline, destination="crm", rate=50)
    wait_until(lambda: view(hookline, id)["delivered"] >= 10, what="some of it")
    assert hookline.api("POST", f"replays/{id}/pause").json["state"] == "paused"
    hookline.restart()
    before = len(receiver.requests)
    holds_for(lambda: len(receiver.requests) == before, 1.0, "nothing is sent while paused")
    hookline.api("POST", f"replays/{id}/resume")
    wait_until(lambda: len(receiver.requests) > before, what="it goes on")
    hookline.api("POST", f"replays/{id}/cancel")
    result = ended(hookline, id)
    assert result["state"] == "cancelled"
    assert 0 < result["delivered"] < 400
    assert [each["status"] for each in hookline.status_at(sent[-1], "crm")["replays"]] == ["discarded"]


def dead_letters(hookline: Hookline, destination: str) -> list[dict[str, Any]]:
    """What a destination did not get, the newest first."""
    return list(hookline.api("GET", f"dead-letters?destination={destination}").json["items"])


def test_dead_letters_are_retried_after_the_receiver_was_mended(
    hookline: Hookline, cases: Cases, receivers: dict[str, Receiver]
) -> None:
    """Refused events become dead letters; retried they are delivered once, and none is left; one is discarded."""
    receiver = receivers["mended"]
    receiver.reply_with(400)
    sent = [cases.send("mended") for _ in range(5)]
    wait_until(lambda: len(dead_letters(hookline, "mended")) == 5, what="dead letters")
    newest = dead_letters(hookline, "mended")[0]
    assert hookline.api("POST", f"dead-letters/{newest['id']}/discard").json == {"matched": 1, "discarded": 1}
    receiver.reply_with(200)
    (made,) = hookline.api("POST", "dead-letters/retry", {"destination": "mended"}).json["items"]
    result = ended(hookline, made["id"])
    assert (result["delivered"], result["total"]) == (4, 4)
    assert dead_letters(hookline, "mended") == []
    retried = [message_id for message_id in sent if message_id != newest["messageId"]]
    assert [len(receiver.of(message_id)) for message_id in retried] == [2, 2, 2, 2]
    assert len(receiver.of(newest["messageId"])) == 1
    assert cases.part("mended", newest["messageId"])["status"] == "discarded"
    assert cases.part("mended", retried[0])["replays"][0]["status"] == "delivered"


def test_everything_given_up_since(hookline: Hookline, cases: Cases, receivers: dict[str, Receiver]) -> None:
    """`deadLetteredSince` sends again what was given up and leaves alone what was delivered."""
    receiver = receivers["given-up"]
    fill(hookline, 50, "wk_given-up")
    wait_until(lambda: len(receiver.requests) == 50, what="the good ones")
    receiver.reply_with(404)
    bad = [cases.send("given-up") for _ in range(3)]
    wait_until(lambda: len(dead_letters(hookline, "given-up")) == 3, what="dead letters")
    receiver.reply_with(200)
    id = replay(hookline, destination="given-up", deadLetteredSince="2020-01-01T00:00:00Z")
    assert ended(hookline, id)["delivered"] == 3
    assert [len(receiver.of(message_id)) for message_id in bad] == [2, 2, 2]
    assert len(receiver.requests) == 56
