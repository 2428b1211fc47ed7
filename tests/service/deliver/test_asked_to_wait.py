"""Real receivers that send everybody away for a moment, with a ``Retry-After`` of any kind, and are well again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from email.utils import formatdate
from time import time

import pytest

from tests.service.harness import Hookline, Receiver, new_id, wait_until, webhook

KINDS = ("3600", "30000", "31536000", formatdate(time() + 86_400, usegmt=True), "soon")
"""An hour, milliseconds that were meant, a year, tomorrow, and nothing that is a wait."""
EVENTS = 60
HALTED = ("throttling", "erroring")


@pytest.fixture
def receivers() -> Iterator[dict[str, Receiver]]:
    """One for each kind, all of which send everybody away."""
    with ExitStack() as stack:
        made = {f"r{number}": stack.enter_context(Receiver()) for number in range(len(KINDS))}
        for number, (receiver, kind) in enumerate(zip(made.values(), KINDS, strict=True)):
            receiver.reply_with(503 if number % 2 else 429, headers={"Retry-After": kind})
        yield made


def test_a_burst_holds_a_destination_up_no_longer_than_it_lasts(
    new_hookline: Callable[..., Hookline], receivers: dict[str, Receiver]
) -> None:
    """Meanwhile it is said what each waits for; well again, it gets what was never tried, at once by *Try now*."""
    settings = {"deliver.retry_max": "20s", "notices.breaker_open": "1s"}
    hookline = new_hookline(*(webhook(id, each.url()) for id, each in receivers.items()), settings=settings).start()
    ids = [new_id() for _ in range(EVENTS)]
    batch = [{"type": "track", "event": "Test", "userId": "u1", "messageId": id} for id in ids]
    assert hookline.post("/v1/batch", {"batch": batch}).status == 200
    asked = list(receivers)[:-1]  # the last one's is no wait: it is tried as if it had said nothing
    for id in asked:
        wait_until(lambda id=id: _standing(hookline, id)["state"] in HALTED, what=f"{id} is open")
        wait_until(lambda id=id: (_standing(hookline, id)["nextTry"] or {}).get("at"), what="until when is known")
    wait_until(lambda: {"r0", "r1", "r2", "r3"} <= _noticed(hookline), what="notices")
    tried = {id: {request.message_id for request in receivers[id].requests} for id in asked}
    for receiver in receivers.values():
        receiver.reply_with(200)
    for id in asked:
        assert hookline.api("POST", f"destinations/{id}/try", {}).status == 202
    for id in asked:
        fresh = set(ids) - tried[id]
        assert fresh
        wait_until(lambda id=id, fresh=fresh: fresh <= _came(receivers[id]), what=f"{id} gets what was never tried")
    wait_until(lambda: set(ids) <= _came(receivers["r4"]), what="the others go on by themselves")


def _standing(hookline: Hookline, id: str) -> dict[str, object]:
    return dict(hookline.api("GET", f"destinations/{id}/metrics").json)


def _noticed(hookline: Hookline) -> set[str]:
    found = hookline.api("GET", "notices").json["items"]
    return {each["subject"] for each in found if each["kind"] == "destination_breaker_open"}


def _came(receiver: Receiver) -> set[str]:
    return {request.message_id for request in receiver.requests}
