"""The message that tells a membership: right by itself, and the same whenever it is made."""

from __future__ import annotations

from itertools import product

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
    made = message(ready_of(BUYERS, {}, KINDS), 1, 1, "u", "true", 0, 0, ("crm",))
    body = msgspec.json.decode(made.body)
    assert body["integrations"] == body["context"]["integrations"] == {"All": False, "Webhooks": True, "pigeon": True}
    assert body["traits"] == {"big_buyers": True}
    assert made.to == ("crm",)
    assert made.selection is None


def id_of(made: int | None, number: int, user_id: str, value: str, at_ms: int = 0) -> str:
    """The messageId of a message about the audience."""
    return message(ready_of(BUYERS, {}, KINDS), made, number, user_id, value, at_ms, at_ms + 4, ("crm",)).message_id


def test_another_sync_user_or_value_is_another_message() -> None:
    """The messageId follows from these and the definition, which is another one once it is made again."""
    parts = product((1, 2), (3, 4), ("u", "v"), ("true", "false"))
    assert len({id_of(*each) for each in parts}) == 16
    assert id_of(1, 3, "u", "true", at_ms=5) == id_of(1, 3, "u", "true")


def test_what_an_earlier_version_began_goes_on_under_its_ids() -> None:
    """Its syncs know nothing of when the definition was made, nor of the value."""
    assert id_of(None, 1, "u", "true") == id_of(None, 1, "u", "false") == "audience-fdbed0ab5868a9e8416124d7fea280e6"
