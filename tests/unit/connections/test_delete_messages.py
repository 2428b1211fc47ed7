"""What is said of a destination that has no request for a delete message: that nothing was sent, and what to do."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hookline.connections.kinds import no_delete_message
from hookline.connections.model import Destination

IDENTIFY = [{"name": "a", "url": "https://api.example/", "if": 'type = "identify"'}]


@pytest.mark.parametrize(
    ("kind", "mapping", "words"),
    [
        ("slack", None, "Slack has no delete message, so nothing was sent. Delete the person in Slack by hand"),
        (
            "posthog",
            None,
            "PostHog takes no delete message with these settings, so nothing was sent. Delete the person",
        ),
        ("http", IDENTIFY, "this destination's mapping has no delete message, so nothing was sent. Delete the person"),
        ("gone", None, "gone has no delete message, so nothing was sent. Delete the person in gone by hand"),
    ],
)
def test_it_says_why_nothing_was_sent(kind: str, mapping: list[dict[str, Any]] | None, words: str) -> None:
    """By what is missing: the kind's, the settings', or the mapping's; a kind that is not installed is named."""
    fields: dict[str, Any] = {"id": "a", "name": "A", "kind": kind, "sources": [], "settings": {}, "mapping": mapping}
    assert no_delete_message(msgspec.convert(fields, Destination)).startswith(words)
