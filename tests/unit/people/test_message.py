"""The message that tells a membership: right by itself, and the same whenever it is made."""

from __future__ import annotations

import msgspec

from hookline.connections.definitions.model import Audience
from hookline.people.definitions.definition import ready_of
from hookline.people.sync.sync import message

BUYERS = msgspec.convert(
    {"id": "b", "name": "Big Buyers", "destinations": ["crm", "mail", "shop"], "condition": {"event": "Order"}},
    Audience,
)
KINDS = {"crm": "webhook", "mail": "pigeon", "shop": "webhook"}


def test_integrations_name_the_kinds_of_its_destinations_and_no_other() -> None:
    """At the top as in any call, and in the context, which is what receivers are sent."""
    made = message(ready_of(BUYERS, {}, KINDS), 1, "u", "true", 0, 0, ("crm",))
    body = msgspec.json.decode(made.body)
    assert body["integrations"] == body["context"]["integrations"] == {"All": False, "Webhooks": True, "pigeon": True}
    assert body["traits"] == {"big_buyers": True}
    assert made.to == ("crm",)
    assert made.selection is None


def test_another_sync_or_user_is_another_message() -> None:
    """The messageId follows from definition, number and user, and from nothing else."""
    ready = ready_of(BUYERS, {}, KINDS)
    ids = [message(ready, number, user, "true", 0, 0, ("crm",)).message_id for number in (1, 2) for user in ("u", "v")]
    assert len(set(ids)) == 4
    assert message(ready, 1, "u", "false", 5, 9, ("crm",)).message_id == ids[0]
