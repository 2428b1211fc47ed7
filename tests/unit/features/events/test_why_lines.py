"""What ``hookline why`` prints of a destination: its status and the reason, in words."""

from __future__ import annotations

from typing import Any

import pytest

from hookline.features.events.cli.tail import lines

RULE = 'Filter 1 drops events where event = "Beat" (version 3 of the connections)'


@pytest.mark.parametrize(
    ("at", "line"),
    [
        (
            {"status": "not_routed", "reason": "destination_disabled"},
            "○ crm  not_routed: the destination was disabled when the event arrived",
        ),
        ({"status": "filtered", "rule": RULE}, f"○ crm  filtered: {RULE}"),
        ({"status": "delivered", "reason": "changed", "rule": RULE}, f"● crm  delivered: changed; {RULE}"),
        ({"status": "delivered"}, "● crm  delivered"),
    ],
)
def test_a_destination_is_told_with_its_reason(at: dict[str, Any], line: str) -> None:
    """Codes are put into words, and the rule says itself what it does."""
    event = {"type": "track", "receivedAt": "2026-01-01", "source": "site", "destinations": [{"id": "crm", **at}]}
    assert list(lines(event))[-1].strip() == line
