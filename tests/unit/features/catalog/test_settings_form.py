"""The form of a kind's settings: what stands in view, and how a list is asked for."""

from __future__ import annotations

import pytest

from hookline.features.catalog.settings_form import FormField, settings_form
from hookline.kinds.catalog import kinds, own_ids
from hookline.kinds.settings import schema_of

IN_VIEW_MAX = 8
"""A newcomer reads all of these before the first event; OpenSearch's and Mixpanel's credentials take the most."""


def shown(fields: list[FormField]) -> list[str]:
    """Return the names of the fields that stand in view when nothing is chosen."""
    return [each.path.removeprefix("settings.") for each in fields if not each.advanced and not each.shown_if]


@pytest.mark.parametrize("kind", [id for id in own_ids() if kinds()[id].manifest.form != "webhook"])
def test_a_form_begins_with_little(kind: str) -> None:
    """Each kind shows at most a screen of fields, and every one that has to be filled."""
    schema = schema_of(kind)
    in_view = shown(settings_form(schema, {}))
    assert len(in_view) <= IN_VIEW_MAX
    needed = {name for name in schema.get("required", ()) if "default" not in schema["properties"][name]}
    assert needed <= set(in_view)


def test_slack_shows_messages_of_the_chosen_calls() -> None:
    """URL and calls are asked for; each message belongs to its call, and what few change is put away."""
    fields = {each.path: each for each in settings_form(schema_of("slack"), {"iconEmoji": ":bell:"})}
    assert shown(list(fields.values())) == ["webhookUrl", "calls"]
    calls = fields["settings.calls"]
    assert (calls.shape, calls.value, calls.options[:2]) == ("choices", ["track"], ["identify", "track"])
    assert fields["settings.groupMessage"].shown_if == '{"settings.calls":["group"]}'
    put_away = {path.rpartition(".")[2]: each.is_set for path, each in fields.items() if each.advanced}
    assert put_away == {
        "eventMessages": False,
        "unfurlLinks": False,
        "username": False,
        "iconEmoji": True,
        "channel": False,
    }
