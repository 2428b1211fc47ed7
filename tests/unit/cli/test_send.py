"""Values on the command line of ``hookline send``."""

from __future__ import annotations

import pytest

from hookline.cli.admin_api import CommandFailed
from hookline.features.events.cli.send import parse_values


def test_values_are_json_where_they_can_be() -> None:
    """Numbers, booleans and objects keep their type; anything else is text."""
    given = ["plan=pro", "seats=3", "trial=false", 'tags=["a"]', "note=a=b"]
    expected = {"plan": "pro", "seats": 3, "trial": False, "tags": ["a"], "note": "a=b"}
    assert parse_values("--properties", given) == expected


def test_whole_objects_and_pairs_mix() -> None:
    """A JSON object may be given instead of, or beside, single pairs; the later one wins."""
    assert parse_values("--traits", ['{"a": 1, "b": 2}', "b=3"]) == {"a": 1, "b": 3}


@pytest.mark.parametrize("text", ["plan", "=pro", '{"a": ', ""])
def test_what_is_neither_is_wrong_usage(text: str) -> None:
    """A mistake names the option and ends with exit code 2."""
    with pytest.raises(CommandFailed, match="--properties") as failed:
        parse_values("--properties", [text])
    assert failed.value.exit_code == 2
