"""Resent messages: recognised by (source, messageId), counted, forwarded once; also after restarts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.service.collect.conftest import Site
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


def test_a_resend_in_the_same_batch_is_dropped(site: Site) -> None:
    """Two items of one batch with one messageId are one event."""
    message_id = new_id()
    item = {"type": "track", "userId": "u", "event": "E", "messageId": message_id}
    assert site.hookline.post("/v1/batch", {"batch": [item, item, {**item, "event": "F"}]}).status == 200
    site.at("plain", site.hookline.track())
    [request] = [each for each in site.receiver.of(message_id) if each.path == "/plain"]
    assert request.json["event"] == "E"


def test_the_same_id_from_two_sources_is_two_events(site: Site) -> None:
    """messageIds are compared within a source; ``why`` needs ``source`` to tell the two apart."""
    hookline, sources = site.hookline, ("shop", "app")
    for source in sources:
        made = {"id": source, "name": source, "writeKeys": [f"wk_{source}"]}
        assert hookline.api("POST", "sources", made).status == 201
    both = webhook("both", site.receiver.url("/both"), sources=sources)
    assert hookline.api("POST", "destinations", both).status == 201
    message_id = new_id()

    def is_taken(source: str) -> bool:
        event = {"userId": "u", "event": "E", "messageId": message_id}
        return hookline.post("/v1/track", event, key=f"wk_{source}").status == 200

    for source in sources:
        wait_until(partial(is_taken, source), what=f"the key of {source} in force")
    site.receiver.wait_for(message_id, 2)
    for source in sources:
        assert (hookline.event(message_id, source) or {})["source"] == source
