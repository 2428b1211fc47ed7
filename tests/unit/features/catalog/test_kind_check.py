"""A kind that is being written: what is wrong with it is said with its place, and what to do."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hookline.features.catalog.check import example_settings, folder_faults, manifest_faults
from hookline.kinds.catalog import kinds, own_ids
from hookline.kinds.settings import schema_of, settings_problems

GOOD: dict[str, Any] = {
    "name": "Acme",
    "publishedName": "Acme",
    "description": "Sends events to Acme.",
    "calls": ["track"],
    "settings": {
        "required": ["apiKey"],
        "properties": {
            "apiKey": {"type": "string", "title": "API key", "secret": True},
            "region": {"type": "string", "title": "Region", "enum": ["eu", "us"], "default": "eu"},
        },
    },
    "auth": {"type": "bearer", "token": "{{settings.apiKey}}"},
    "requests": [
        {
            "name": "track",
            "if": 'type = "track"',
            "url": "https://{{settings.region}}.acme.example/v1/events",
            "body": {"user": {"@path": "$.userId"}, "name": {"@path": "$.event"}},
        }
    ],
}


def faults(**changed: Any) -> list[tuple[str, str]]:
    """What is wrong with a good manifest that is changed."""
    text = msgspec.yaml.encode({**GOOD, **changed}).decode()
    return [tuple(each) for each in manifest_faults(text)[1]]  # type: ignore[misc]


def request(**changed: Any) -> list[dict[str, Any]]:
    """The good request, changed."""
    return [{**GOOD["requests"][0], **changed}]


def test_a_good_kind_has_no_fault() -> None:
    """Nothing is said of what is right, and what it says is known."""
    manifest, found = manifest_faults(msgspec.yaml.encode(GOOD).decode())
    assert (found, manifest.form if manifest else None) == ([], "requests")


@pytest.mark.parametrize(
    ("changed", "pointer", "words"),
    [
        ({"calls": ["pay"]}, "/calls/0", "Invalid enum value 'pay'; write alias or delete or group or"),
        ({"requests": request(method="FETCH")}, "/requests/0/method", "write DELETE or GET or"),
        ({"auth": {"type": "key"}}, "/auth/type", "write apikey or basic or"),
        ({"requests": request(url="https://{{properties.host}}/x")}, "/requests/0/url", "the host is fixed"),
        ({"requests": request(url="https://{{settings.zone}}.example/")}, "/requests/0/url", "settings.zone"),
        ({"requests": request(**{"if": "settings.zone = 1"})}, "/requests/0/if", "settings.zone"),
        ({"requests": request(success={"retry": "status ="})}, "/requests/0/success/retry", "expected a value"),
        ({"requests": request(headers={"X.Key": {"@path": 1}})}, "/requests/0/headers/X.Key/@path", "a text"),
        ({"requests": [{"name": "a"}]}, "/requests/0/url", "'url' is missing; add it"),
        ({"requests": request(body={"a": {"@liquid": "x"}})}, "/requests/0/body/a/@liquid", "@liquid"),
        ({"requests": request(**{"if": "type = "})}, "/requests/0/if", ""),
        ({"requests": request(headers={"Host": "x"})}, "/requests/0/headers/Host", "leave it out"),
        ({"requests": request(success={"if": "code = 1"})}, "/requests/0/success/if", "code"),
        ({"requests": request() * 2}, "/requests/1/name", "rename one"),
        ({"auth": {"type": "bearer", "token": "{{settings.token}}"}}, "/auth", "settings.token"),
        ({"settings": {"properties": {"a": {"type": "text"}}}}, "/settings/properties/a/type", "write one of"),
        ({"settings": {"properties": {"a": {"type": "string"}}}}, "/settings/properties/a", "add a title"),
        (
            {"settings": {"required": ["a"], "properties": {"a": {"type": "string", "title": "A", "advanced": True}}}},
            "/settings/properties/a/advanced",
            "take advanced out",
        ),
        (
            {"settings": {"properties": {"a": {"type": "string", "title": "A", "advnced": True}}}},
            "/settings/properties/a/advnced",
            "did you mean 'advanced'?",
        ),
        ({"settings": {"required": ["b"]}}, "/settings/required", "'b' is required but is not a property"),
        ({"settings": {"properties": ["apiKey"]}}, "/settings/properties", "write settings by their names"),
        ({"settings": {"properties": {"a": "string"}}}, "/settings/properties/a", "write a schema here"),
        ({"settings": {"required": "apiKey"}}, "/settings/required", "write a list of names"),
        (
            {"settings": {"properties": {"a": {"type": "string", "examples": 5}}}},
            "/settings/properties/a/examples",
            "write a list here",
        ),
        (
            {"settings": {"properties": {"a": {"type": "string", "minLength": 3_000_000_000}}}},
            "/settings/properties/a/minLength",
            "from 0 to 65536",
        ),
        (
            {
                "settings": {
                    "properties": {"a": {"type": "string", "title": "A", "default": "", "pattern": "a{9999999999}"}}
                }
            },
            "/settings/properties/a/pattern",
            "cannot be read",
        ),
        ({"sink": "acme.sink"}, "", "keep one of"),
    ],
)
def test_each_fault_has_its_place(changed: dict[str, Any], pointer: str, words: str) -> None:
    """Whatever is wrong is said once, where it is, with words that help."""
    found = [detail for place, detail in faults(**changed) if place == pointer]
    assert len(found) == 1, faults(**changed)
    assert words in found[0]


def test_one_wrong_condition_is_one_fault() -> None:
    """A mistake in what answers mean is not said of the request's condition too, and hides no other fault."""
    wrong = request(success={"if": "code = 1"}, body={"a": {"@liquid": "x"}})
    assert {place for place, _ in faults(requests=wrong)} == {"/requests/0/success/if", "/requests/0/body/a/@liquid"}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("Bearer {{settings.apiKey}}", '{"@template": "Bearer {{settings.apiKey}}"}'),
        ("Bearer abc", '{"@template": "Bearer {{settings.apiKey}}"}'),
    ],
)
def test_what_is_said_of_a_credential_works(value: str, words: str) -> None:
    """A header with a key names the setting of this kind, and what it says to write has no fault."""
    (fault,) = faults(requests=request(headers={"Authorization": value}))
    assert fault[0] == "/requests/0/headers/Authorization"
    assert words in fault[1]
    assert faults(requests=request(headers={"Authorization": json.loads(words)})) == []


def test_text_that_is_no_manifest() -> None:
    """Neither YAML that cannot be read nor a list ends in anything but a sentence."""
    for text in ("a: [", "- 1", "x" * 100_000, "\x00"):
        manifest, found = manifest_faults(text)
        assert manifest is None
        assert len(found) == 1


def test_text_that_would_take_for_ever() -> None:
    """A few lines that stand for billions of values, or a number with thousands of places, are refused at once."""
    again = [f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]" for before, name in pairwise("abcdefghijk")]
    for text, words in (
        ("\n".join(["a: &a [x]", *again]), "the aliases stand for too much"),
        ("a: " + ":".join(["1"] * 30_000), "cannot be read as int"),
    ):
        manifest, ((pointer, detail),) = manifest_faults(text)
        assert (manifest, pointer, words in detail) == (None, "", True)


@pytest.mark.parametrize("kind", own_ids())
def test_own_kinds_have_no_fault(kind: str) -> None:
    """The kinds that come with Hookline hold to what is asked of others, and their examples are allowed."""
    folder = Path(__import__("hookline.kinds", fromlist=["kinds"]).__file__).parent / kind
    found = [each for each in folder_faults(folder)[1] if each.pointer != "__init__.py"]
    assert found == []
    if kinds()[kind].manifest.form != "webhook":
        assert list(settings_problems(kind, example_settings(schema_of(kind)))) == []


def test_a_folder(tmp_path: Path) -> None:
    """What is missing beside the manifest is named, and so is an icon that would run something."""
    assert [each.pointer for each in folder_faults(tmp_path)[1]] == ["kind.yaml"]
    (tmp_path / "kind.yaml").write_bytes(msgspec.yaml.encode(GOOD))
    assert [each.pointer for each in folder_faults(tmp_path)[1]] == ["guide.md", "icon.svg", "__init__.py"]
    (tmp_path / "guide.md").write_text("## Set it up\n")
    (tmp_path / "__init__.py").write_text("")
    for icon, words in (("<?xml ?><svg/>", "begin the icon"), ("<svg onload='x()'/>", "no scripts"), (" ", "is empty")):
        (tmp_path / "icon.svg").write_text(icon)
        (fault,) = folder_faults(tmp_path)[1]
        assert (fault.pointer, words in fault.detail) == ("icon.svg", True)
    (tmp_path / "icon.svg").write_text("<svg/>")
    assert folder_faults(tmp_path)[1] == []
