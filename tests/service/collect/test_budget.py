"""The journal's bytes with a dead destination, one source that floods and ten honest ones."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.service.client import Answer
from tests.service.harness import Hookline, Receiver, Reply, Request, free_port, new_id, wait_until, webhook

BYTES_MAX = 32 * 1024 * 1024
HONEST = [f"site-{number}" for number in range(10)]
BATCHES_PER_STEP = 10
SLOW_SECONDS = 1.5
ROUNDS = 5
"""Events of each honest source after the flood is refused."""


@pytest.fixture
def service(new_hookline: Callable[..., Hookline], receiver: Receiver) -> Iterator[Hookline]:
    """A small journal; one destination is dead, the others share a receiver that may be slow for the flood."""
    sources = [{"id": each, "name": each, "type": "server", "writeKeys": [f"wk_{each}"]} for each in (*HONEST, "flood")]
    dead = webhook("dead", f"http://127.0.0.1:{free_port()}/", sources=[*HONEST, "flood"])
    crm = webhook("crm", receiver.url("/crm"), sources=HONEST)
    lake = webhook("lake", receiver.url("/lake"), sources=["flood"], delivery={"maxConcurrency": 2})
    settings = {"retention.bytes": f"{BYTES_MAX // 1024 // 1024}MB"}
    with new_hookline(dead, crm, lake, sources=sources, settings=settings) as hookline:
        yield hookline


def flood(service: Hookline) -> tuple[str, Answer]:
    """Send a batch as large as may be; return the id of its last event, and the answer."""
    properties = {"x": "x" * 24_000}
    batch = [
        {"type": "track", "event": "E", "userId": "u", "messageId": new_id(), "properties": properties}
        for _ in range(20)
    ]
    return str(batch[-1]["messageId"]), service.post("/v1/batch", {"batch": batch}, key="wk_flood")


def flood_taken(service: Hookline) -> str:
    """Send such batches until one is taken, for room may be made a moment later; return the id of its last event."""
    taken = wait_until(lambda: next((last for last, answer in [flood(service)] if answer.status == 200), ""), 60)
    return str(taken)


def all_honest(service: Hookline) -> list[str]:
    """One event of each honest source, none of them refused; return their ids."""
    ids = [new_id() for _ in HONEST]
    for source, message_id in zip(HONEST, ids, strict=True):
        body: dict[str, Any] = {"userId": "u1", "event": "Test", "messageId": message_id}
        assert service.post("/v1/track", body, key=f"wk_{source}").status == 200
    return ids


def open_notices(service: Hookline) -> set[tuple[str, str]]:
    """Kind and subject of what is open."""
    items = service.api("GET", "notices?state=open").json["items"]
    return {(item["kind"], item["subject"]) for item in items}


def test_only_the_flood_is_refused(service: Hookline, receiver: Receiver) -> None:
    """What only the dead destination waits for goes, on the record; what a slow one waits for stays: then the source
    that floods is answered 503, and the honest ones are delivered without one refusal."""
    honest: list[str] = []
    while service.api("GET", "destinations/dead/metrics").json["state"] != "unreachable":
        honest += all_honest(service)
    stored = 0
    while stored < 1.5 * BYTES_MAX:
        for _ in range(BATCHES_PER_STEP):
            last = flood_taken(service)
            stored += 20 * 24_000
        honest += all_honest(service)
        receiver.wait_for(last, seconds=60)
    wait_until(lambda: ("retention_passed", "dead") in open_notices(service), 60, "a notice of what was taken")
    assert _ranges(service) == {("dead", "expired_by_retention")}

    slow = Reply(delay_seconds=SLOW_SECONDS)
    receiver.respond = lambda request: slow if _is_flood(request) else Reply()
    for _ in range(2 * BYTES_MAX // (20 * 24_000)):
        answer = flood(service)[1]
        if answer.status != 200:
            break
        honest += all_honest(service)
    assert answer.status == 503
    assert (answer.json["code"], answer.headers["retry-after"]) == ("journal_budget_spent", "5")
    for _ in range(ROUNDS):
        honest += all_honest(service)
        assert flood(service)[1].status == 503
    for message_id in honest:
        receiver.wait_for(message_id, seconds=60)
    wanted = {("events_refused", "flood"), ("journal_filling", "retention.bytes")}
    wait_until(lambda: wanted <= open_notices(service), 60, "notices of who is refused")
    wait_until(lambda: service.metric("hookline_collect_over_budget_total") >= ROUNDS, 60, "a report that counts them")

    receiver.respond = lambda request: Reply()
    wait_until(lambda: flood(service)[1].status == 200, 120, "the flood is taken again")


def _is_flood(request: Request) -> bool:
    return request.path == "/lake"


def _ranges(service: Hookline) -> set[tuple[str, str]]:
    connection = sqlite3.connect(f"file:{service.data}/deliver.db?mode=ro", uri=True)
    try:
        return set(connection.execute("SELECT destination, status FROM ranges").fetchall())
    finally:
        connection.close()
