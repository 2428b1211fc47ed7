"""Retries survive kill -9 of everything: nothing is forgotten, nothing starts its window anew."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.service.deliver.per_case import instant
from tests.service.harness import Hookline, Receiver, holds_for, new_id, wait_until, webhook

EVENTS = 12


def test_retries_go_on_after_kill_9(new_hookline: Callable[..., Hookline], receiver: Receiver) -> None:
    """Every event that was failing when the machine died is delivered after it, with its attempts counted on."""
    receiver.reply_with(503)
    hookline = new_hookline(webhook("crm", receiver.url()), settings={"deliver.retry_max": "500ms"}).start()
    sent = [new_id() for _ in range(EVENTS)]
    items = [{"type": "track", "userId": "u1", "event": "Test", "messageId": message_id} for message_id in sent]
    assert hookline.post("/v1/batch", {"batch": items}).status == 200
    for message_id in sent:
        wait_until(lambda id=message_id: hookline.status_at(id, "crm").get("attempts"), what="tried")  # type: ignore[misc]
    hookline.kill9()
    receiver.reply_with(200)
    hookline.start()
    for message_id in sent:
        part = hookline.wait_status(message_id, "crm", "delivered", seconds=60)
        assert len(receiver.of(message_id)) >= 2
        assert part["attempts"][-1]["outcome"] == "success"
        assert part["attempts"][-1]["number"] >= 2


def test_the_window_is_wall_clock_from_the_first_attempt(
    new_hookline: Callable[..., Hookline], receiver: Receiver
) -> None:
    """The time the service was dead counts: soon after its return the event expires and is not sent for ever."""
    receiver.reply_with(500)
    hookline = new_hookline(webhook("crm", receiver.url()), settings={"deliver.retry_window": "3s"}).start()
    message_id = hookline.track()
    first = wait_until(lambda: hookline.status_at(message_id, "crm").get("attempts") or [])[0]
    hookline.kill9()
    wait_until(lambda: time.time() > instant(first["at"]) + 3, what="the window's end")
    hookline.start()
    hookline.wait_status(message_id, "crm", "expired")
    count = len(receiver.of(message_id))
    holds_for(lambda: len(receiver.of(message_id)) == count, 1.0, "not tried after expiry")


def test_a_long_wait_is_kept_over_a_restart(new_hookline: Callable[..., Hookline], receiver: Receiver) -> None:
    """A Retry-After is not forgotten by a restart: the second attempt comes when the receiver asked for it, and what
    had to wait meanwhile arrives, too."""
    receiver.reply_with(429, headers={"Retry-After": "4"})
    hookline = new_hookline(webhook("crm", receiver.url())).start()
    message_id = hookline.track()
    wait_until(lambda: hookline.status_at(message_id, "crm").get("status") == "retrying", what="the failure noted")
    later = [hookline.track() for _ in range(EVENTS)]
    hookline.restart()
    receiver.reply_with(200)
    first, second = receiver.wait_for(message_id, 2)[:2]
    assert second.at - first.at >= 3.5
    for message_id in later:
        hookline.wait_status(message_id, "crm", "delivered")
