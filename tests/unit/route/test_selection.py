"""The destination selection object."""

from __future__ import annotations

import pytest

from hookline.route.decision import refusal


@pytest.mark.parametrize(
    ("selection", "reason"),
    [
        (None, None),
        ({}, None),
        ({"All": True}, None),
        ({"All": False}, "integrations_all_false"),
        ({"All": False, "Webhooks": True}, None),
        ({"All": True, "Webhooks": False}, "integrations_name_false"),
        ({"Webhooks": False}, "integrations_name_false"),
        ({"Webhooks": True}, None),
        ({"Mixpanel": False}, None),
        ({"All": False, "Mixpanel": True}, "integrations_all_false"),
        ({"webhooks": False, "WEBHOOKS": False}, None),
        ({"all": False}, None),
        ({"All": False, "webhooks": True}, "integrations_all_false"),
    ],
)
def test_what_a_selection_means_for_webhooks(selection: dict[str, bool] | None, reason: str | None) -> None:
    """The exact name decides, then All, and by default everything is chosen."""
    assert refusal(selection, "Webhooks") == reason
