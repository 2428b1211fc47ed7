"""What the roles write down comes out at the commands: `metrics`, `attempts`, `retry-now`, `test`, `schema`."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.service.cli.conftest import Run
from tests.service.harness import Hookline, Receiver, wait_until, webhook
from tests.service.receiver import Reply

SLOT_SECONDS = 60
"""A slot takes ten seconds, and control looks every five."""


def test_what_happened_is_told(new_hookline: Callable[..., Hookline], receiver: Receiver, run: Run) -> None:
    """Real events through real roles: counted in the series after a slot, and each seen as it was sent."""
    settings = {"deliver.retry_first": "10m"}
    with new_hookline(webhook("crm", receiver.url(), secret="a secret"), settings=settings) as hookline:
        ids = [hookline.track(event="Order", properties={"total": number}) for number in range(4)]
        for id in ids:
            hookline.wait_status(id, "crm", "delivered")
        receiver.respond = lambda request: Reply(503, b"busy", {"X-Why": "tests"})
        waiting = hookline.track(event="Waits")
        hookline.wait_status(waiting, "crm", "retrying")

        tested = run(hookline, "test", "crm", "--sample", "identify")
        assert (tested.returncode, "■ server error 503" in tested.stdout, "x-why" in tested.stdout.lower()) == (
            1,
            True,
            True,
        )
        assert "Hookline would retry it. The receiver failed while it handled the request." in tested.stdout
        named = '{"type": "track", "userId": "u", "event": "Order", "integrations": {"All": false}}'
        tested = run(hookline, "test", "crm", "--event", named, "--dry-run").stdout
        assert "the event's integrations turn off all destinations except those they name" in tested
        assert "integrations_all_false" in run(hookline, "test", "crm", "--event", named, "--dry-run", "--json").stdout
        failed = json.loads(run(hookline, "attempts", "crm", "--outcome", "server_error", "--json").stdout)
        assert [each["messageId"] for each in failed] == [waiting]
        shown = run(hookline, "attempts", "crm", failed[0]["id"]).stdout
        assert "X-Signature: " in shown
        assert "busy" in shown

        receiver.respond = lambda request: Reply()
        assert run(hookline, "retry-now", "crm", waiting).returncode == 0
        hookline.wait_status(waiting, "crm", "delivered")
        assert run(hookline, "test", "crm", "--message-id", ids[0]).returncode == 0

        wait_until(lambda: not hookline.api("GET", "sources/site/schema").json["unread"])
        assert "total  number 4" in run(hookline, "schema", "site", "--name", "Order").stdout
        wait_until(lambda: _delivered(hookline) >= 5, SLOT_SECONDS)
        metrics = json.loads(run(hookline, "metrics", "crm", "--json").stdout)
        assert metrics["funnel"]["delivered"] == metrics["funnel"]["attempted"] == 5
        assert [(each["outcome"], each["count"]) for each in metrics["errors"]] == [("server_error", 1)]
        assert ",crm,5," in run(hookline, "usage", "destinations", "--csv").stdout


def test_a_delete_message_is_tested(new_hookline: Callable[..., Hookline], receiver: Receiver, run: Run) -> None:
    """A sample, one for a user of one's own only after a question, and where there is none: said, with the code 1."""
    request = {"name": "Orders", "url": receiver.url("/chat"), "if": 'event = "Order"'}
    chat = {"id": "chat", "name": "Chat", "kind": "http", "sources": ["site"], "settings": {}, "mapping": [request]}
    with new_hookline(webhook("crm", receiver.url())) as hookline:
        assert hookline.api("POST", "destinations", chat).status == 201
        assert run(hookline, "test", "crm", "--sample", "delete").returncode == 0
        assert receiver.requests[-1].json["userId"] == "test-user"
        own = ["test", "crm", "--event", '{"type": "delete", "userId": "u7"}']
        asked = run(hookline, *own)
        assert (asked.returncode, "Ask the receivers of crm to delete u7?" in asked.stderr) == (2, True)
        assert run(hookline, *own, "--dry-run").returncode == 0
        assert len(receiver.requests) == 1
        assert run(hookline, *own, "--yes").returncode == 0
        sent = receiver.requests[-1].json
        assert (list(sent), sent["userId"]) == (["type", "userId", "timestamp"], "u7")
        hookline.track(userId="u8")
        hookline.api("POST", "deletion-requests", {"userId": "u8", "action": "delete"})
        (stored,) = wait_until(lambda: hookline.api("GET", "events?type=delete").json["items"], what="the message")
        receiver.wait_for(stored["messageId"])
        sent_so_far = len(receiver.requests)
        asked = run(hookline, "test", "crm", "--message-id", stored["messageId"])
        assert (asked.returncode, "Ask the receivers of crm to delete whom" in asked.stderr) == (2, True)
        assert len(receiver.requests) == sent_so_far
        none = run(hookline, "test", "chat", "--sample", "delete")
        assert (none.returncode, len(receiver.requests)) == (1, sent_so_far)
        assert "this destination's mapping has no delete message, so nothing was sent. Delete the" in none.stdout


def _delivered(hookline: Hookline) -> float:
    series = hookline.api("GET", "metrics/series?destination=crm").json["series"]
    return sum(value or 0 for value in series["delivered"])
