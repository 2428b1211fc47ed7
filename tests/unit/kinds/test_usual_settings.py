"""Defaults that another setting decides."""

from __future__ import annotations

from typing import Any

import pytest

from hookline.kinds.settings import _with_usual, schema_problems

SCHEMA: dict[str, Any] = {
    "properties": {
        "region": {"type": "string", "enum": ["us", "eu"], "default": "us"},
        "endpoint": {
            "type": "string",
            "defaultBy": {
                "setting": "region",
                "values": {"us": "https://api.example.com", "eu": "https://eu.example.com"},
            },
        },
    }
}


@pytest.mark.parametrize(
    ("given", "endpoint"),
    [
        ({}, "https://api.example.com"),
        ({"region": "eu"}, "https://eu.example.com"),
        ({"region": "eu", "endpoint": ""}, "https://eu.example.com"),
        ({"region": "eu", "endpoint": "https://proxy"}, "https://proxy"),
    ],
)
def test_a_default_by_another_setting(given: dict[str, Any], endpoint: str) -> None:
    """The region decides the endpoint, unless one is given."""
    assert _with_usual(SCHEMA, given)["endpoint"] == endpoint


def test_a_default_that_leads_nowhere() -> None:
    """A manifest whose default names no setting with choices, or not all of the choices, has a problem."""
    assert list(schema_problems(SCHEMA)) == []
    usual = SCHEMA["properties"]["endpoint"]["defaultBy"]
    for broken in ({**usual, "setting": "zone"}, {**usual, "values": {"us": "https://api.example.com"}}, "us"):
        properties = {**SCHEMA["properties"], "endpoint": {"type": "string", "defaultBy": broken}}
        (problem,) = schema_problems({"properties": properties})
        assert problem.startswith("settings.properties.endpoint.defaultBy: defaultBy")
