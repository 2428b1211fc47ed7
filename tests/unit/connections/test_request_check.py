"""What is wrong with the requests that a destination makes: each fault at its place, with a next step that works."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest

from hookline.api.problem import pointer_of
from hookline.connections.check import check_destination
from hookline.connections.file_shape import YamlTree
from hookline.connections.model import Destination


def problems(settings: dict[str, Any] | None = None, kind: str = "http", **request: Any) -> list[tuple[str, str]]:
    """Return pointer and sentence of everything wrong with a destination of one request."""
    mapping = [{"name": "a", "url": "https://api.example/", **request}]
    given = {"id": "api", "name": "API", "kind": kind, "sources": [], "settings": settings or {}, "mapping": mapping}
    found = check_destination("", msgspec.convert(given, Destination))
    return [(pointer_of(each.path), each.message) for each in found]


@pytest.mark.parametrize(
    ("request_parts", "pointer"),
    [
        ({"if": "type ="}, "/mapping/0/if"),
        ({"if": "settings.zone = 1"}, "/mapping/0/if"),
        ({"success": {"if": "code = 1"}}, "/mapping/0/success/if"),
        ({"success": {"refused": "status ="}}, "/mapping/0/success/refused"),
        ({"success": {"retry": "status ="}}, "/mapping/0/success/retry"),
        ({"headers": {"X.Key": {"@path": 1}}}, "/mapping/0/headers/X.Key/@path"),
        ({"body": {"a.b": {"c[0]": {"@liquid": "x"}}}}, "/mapping/0/body/a.b/c[0]/@liquid"),
        ({"body": [{"zone": {"@path": "$.settings.zone"}}]}, "/mapping/0/body/0/zone/@path"),
        ({"url": "https://api.example/{{settings.zone}}"}, "/mapping/0/url"),
    ],
)
def test_a_fault_is_said_once_where_it_was_written(request_parts: dict[str, Any], pointer: str) -> None:
    """A condition of an answer is not taken for the one of the request, and names with dots stay whole."""
    assert [place for place, _ in problems(**request_parts)] == [pointer]


def test_a_wrong_condition_hides_nothing() -> None:
    """All faults of a request are said together."""
    wrong: dict[str, Any] = {"if": "type =", "success": {"if": "code = 1"}, "body": {"a": {"@liquid": "x"}}}
    found = problems(**wrong)
    assert {place for place, _ in found} == {"/mapping/0/if", "/mapping/0/success/if", "/mapping/0/body/a/@liquid"}


@pytest.mark.parametrize(
    "value", ["Bearer {{settings.apiKey}}", "Bearer {{settings.secrets.apiKey}}", "Bearer a-real-token-of-mine"]
)
def test_what_is_said_of_a_credential_works(value: str) -> None:
    """Who does what is said, first in the mapping and then in the settings, has a header that is sent filled."""
    ((pointer, text),) = problems(headers={"Authorization": value})
    assert pointer == "/mapping/0/headers/Authorization"
    assert "a-real-token-of-mine" not in text
    said = re.search(r"\{\"@template.*?\"\}", text)
    assert said is not None
    template = json.loads(said[0])
    assert template == {"@template": "Bearer {{settings.secrets.apiKey}}"}
    ((_, next_step),) = problems(headers={"Authorization": template})
    assert next_step == "there is no apiKey under Secrets (settings.secrets) yet; enter it there first"
    assert problems({"secrets": {"apiKey": "a-real-token-of-mine"}}, headers={"Authorization": template}) == []


def test_what_is_entered_already_is_not_asked_for() -> None:
    """Only the header is left to change."""
    headers = {"Authorization": "Bearer {{settings.apiKey}}"}
    ((_, text),) = problems(headers=headers)
    assert text.endswith("and enter apiKey under Secrets (settings.secrets)")
    ((_, text),) = problems({"secrets": {"apiKey": "a-real-token-of-mine"}}, headers=headers)
    assert text.endswith('{"@template": "Bearer {{settings.secrets.apiKey}}"}')


def test_a_setting_that_the_kind_does_not_have() -> None:
    """It would be empty in each request: the sentence says where it belongs, or what it may be."""
    ((_, text),) = problems(headers={"X-Key": {"@path": "$.settings.apiKey"}})
    assert text == (
        "there is no setting 'apiKey'; write settings.secrets.apiKey, and enter apiKey under Secrets (settings.secrets)"
    )
    ((_, text),) = problems(body={"a": {"@template": "{{settings.variable.region}}"}})
    assert text.endswith("did you mean settings.variables?")


def test_the_line_of_a_name_with_dots() -> None:
    """A file's problems have the line of such a name too."""
    tree = YamlTree("mapping:\n  - headers:\n      X: a\n      X.Key: b\n")
    assert tree.line_of('mapping[0].headers["X.Key"]') == 4
