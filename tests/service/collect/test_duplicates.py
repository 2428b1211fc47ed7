"""Resent messages: recognised by (source, messageId), counted, forwarded once; also after restarts."""

from __future__ import annotations

from collections.abc import Callable

from tests.service.harness import Hookline, Receiver, new_id, wait_until, webhook

NewHookline = Callable[..., Hookline]


def test_a_resend_is_dropped_and_counted_across_restarts(receiver: Receiver, new_hookline: NewHookline) -> None:
    """The same messageId sent again at once, after a clean restart and after kill -9 arrives exactly once."""
    hookline = new_hookline(webhook("crm", receiver.url())).start()
    message_id = hookline.track()
    receiver.wait_for(message_id)
    hookline.track(message_id=message_id)
    hookline.restart()
    hookline.track(message_id=message_id)
    hookline.kill9()
    hookline.start()
    hookline.track(message_id=message_id)
    receiver.wait_for(hookline.track())  # one journal, read in order: what came before it has been looked at
    assert len(receiver.of(message_id)) == 1
    wait_until(lambda: (hookline.event(message_id) or {})["duplicates"] == 3, what="three duplicates counted")


def test_a_resend_in_the_same_batch_is_dropped(receiver: Receiver, new_hookline: NewHookline) -> None:
    """Two items of one batch with one messageId are one event."""
    hookline = new_hookline(webhook("crm", receiver.url())).start()
    message_id = new_id()
    item = {"type": "track", "userId": "u", "event": "E", "messageId": message_id}
    assert hookline.post("/v1/batch", {"batch": [item, item, {**item, "event": "F"}]}).status == 200
    receiver.wait_for(hookline.track())
    [request] = receiver.of(message_id)
    assert request.json["event"] == "E"


def test_the_same_id_from_two_sources_is_two_events(receiver: Receiver, new_hookline: NewHookline) -> None:
    """messageIds are compared within a source; ``why`` needs ``source`` to tell the two apart."""
    sources = [
        {"id": "site", "name": "Site", "writeKeys": ["wk_site"]},
        {"id": "app", "name": "App", "writeKeys": ["wk_app"]},
    ]
    hookline = new_hookline(webhook("crm", receiver.url(), sources=["site", "app"]), sources=sources).start()
    message_id = hookline.track()
    event = {"userId": "u", "event": "E", "messageId": message_id}
    assert hookline.post("/v1/track", event, key="wk_app").status == 200
    receiver.wait_for(message_id, 2)
    assert (hookline.event(message_id, "app") or {})["source"] == "app"
    assert (hookline.event(message_id, "site") or {})["source"] == "site"
