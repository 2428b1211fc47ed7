"""Hookline's own directives: what they make of an event, what they leave out, and what they refuse."""

from __future__ import annotations

import base64
import hashlib
import re
import uuid
from typing import Any

import pytest

from hookline.kinds.mapping import MISSING, MappingError, MappingFailed, compile_mapping

EVENT = {
    "event": "9th Order: Completed! (new)",
    "messageId": "ajs-1",
    "timestamp": "2026-11-24T12:00:00.123Z",
    "properties": {"a b": 1, "ga_x": 2, "list": [1], "long": "x" * 200, "no": None, "yes": True, "": "nameless"},
}


def resolved(document: Any) -> Any:
    return compile_mapping(document).resolve(EVENT)


@pytest.mark.parametrize(
    ("form", "written"),
    [
        ("seconds", 1_795_521_600),
        ("milliseconds", 1_795_521_600_123),
        ("microseconds", 1_795_521_600_123_000),
        ("iso", "2026-11-24T12:00:00.123Z"),
        ("date", "2026-11-24"),
    ],
)
def test_a_time_in_each_form(form: str, written: Any) -> None:
    """A time of the event is written as the API wants it, whole numbers for the epoch."""
    assert resolved({"@time": {"value": {"@path": "$.timestamp"}, "as": form}}) == written


@pytest.mark.parametrize("given", [{"@path": "$.event"}, {"@path": "$.nothing"}, None, True, "", {}])
def test_no_time(given: Any) -> None:
    """What is no time is left out, so that no API gets a wrong one."""
    assert resolved({"@time": {"value": given, "as": "seconds"}}) is MISSING


def test_hashes_and_base64() -> None:
    """Both are of the text's UTF-8 bytes; what has no text has neither."""
    text = {"@template": "{{messageId}}:é"}
    written = "ajs-1:é".encode()
    assert resolved({"@hash": {"value": text}}) == hashlib.sha256(written).hexdigest()
    assert resolved({"@hash": {"value": text, "algorithm": "md5"}}) == hashlib.md5(written).hexdigest()
    assert resolved({"@base64": text}) == base64.b64encode(written).decode()
    assert resolved({"@hash": {"value": {"@path": "$.properties"}}}) is MISSING
    assert resolved({"@base64": {"@path": "$.nothing"}}) is MISSING


def test_uuids() -> None:
    """A UUID stays; any other id becomes one that is always the same, and different from those of other ids."""
    given = "5E884898-DA28-4711-A1B2-0123456789AB"
    assert resolved({"@uuid": given}) == given.lower()
    made = resolved({"@uuid": {"@path": "$.messageId"}})
    assert (uuid.UUID(made).version, made) == (5, resolved({"@uuid": "ajs-1"}))
    assert resolved({"@uuid": "ajs-2"}) != made
    assert resolved({"@uuid": {"@path": "$.nothing"}}) is MISSING


def test_names_and_lengths() -> None:
    """A name begins with a letter and has letters, digits and underscores; a text is cut, a list is none."""
    assert resolved({"@text": {"value": {"@path": "$.event"}, "name": True}}) == "th_Order_Completed_new"
    assert resolved({"@text": {"value": {"@path": "$.event"}, "name": True, "max": 8}}) == "th_Order"
    assert resolved({"@text": {"value": {"@path": "$.properties.long"}, "max": 100}}) == "x" * 100
    assert resolved({"@text": {"value": {"@path": "$.properties.yes"}}}) == "true"
    assert resolved({"@text": {"value": {"@path": "$.properties.list"}}}) is MISSING
    assert resolved({"@text": {"value": "!!", "name": True}}) is MISSING


@pytest.mark.parametrize("reserved", ["th_Order_Completed_new", "th_*"])
def test_a_reserved_name_fails_the_event(reserved: str) -> None:
    """An event whose name the receiver reserves says so, instead of being dropped there without a word."""
    with pytest.raises(MappingFailed, match=re.escape(f"{reserved!r} is a name that the receiver reserves")):
        resolved({"name": {"@text": {"value": {"@path": "$.event"}, "name": True, "refuse": ["x", reserved]}}})


def test_a_failure_shows_nothing_of_the_settings() -> None:
    """Who may write a mapping does not read by it, as a reserved name, what a secret is."""
    token = {"@path": "$.settings.secrets.token"}
    with pytest.raises(MappingFailed, match=r"'\*' is a name that the receiver reserves") as failed:
        compile_mapping({"@text": {"value": token, "refuse": ["*"]}}).resolve(
            {"settings": {"secrets": {"token": "s3cr3t"}}}
        )
    assert "s3cr3t" not in failed.value.sentence


def test_what_is_needed_and_missing_fails_the_event() -> None:
    """An event without what the receiver needs says so; with it, nothing is different."""
    assert resolved({"@text": {"value": {"@path": "$.messageId"}, "needed": True}}) == "ajs-1"
    for nothing in ({"@path": "$.nothing"}, "", "!"):
        with pytest.raises(MappingFailed, match="the receiver needs this"):
            resolved({"@text": {"value": nothing, "name": True, "needed": True}})


def test_entries_of_an_object() -> None:
    """Names and values are made anew; nulls, values of other types and reserved beginnings are left out."""
    document = {
        "@entries": {
            "of": {"@path": "$.properties"},
            "key": {"@text": {"value": {"@path": "$.key"}, "name": True}},
            "value": {"value": {"@path": "$.value"}},
            "without": ["ga_*"],
        }
    }
    made = resolved(document)
    assert list(made) == ["a_b", "list", "long", "no", "yes"]
    assert (made["a_b"], made["no"]) == ({"value": 1}, {"value": None})
    document["@entries"] |= {"value": {"@path": "$.value"}, "types": ["number", "string"], "max": 1}
    assert resolved(document) == {"a_b": 1}
    document["@entries"] |= {"types": ["string"]}
    assert list(resolved(document)) == ["long"]


def test_entries_of_a_list_and_of_nothing() -> None:
    """A list's items have their numbers as keys; this is how a name that an event gives gets its value."""
    pair = {"type": "company", "id": {"@path": "$.messageId"}}
    of_one = {"of": [pair], "key": {"@path": "$.value.type"}, "value": {"@path": "$.value.id"}}
    assert resolved({"@entries": of_one}) == {"company": "ajs-1"}
    assert resolved({"@entries": {**of_one, "of": {"@path": "$.nothing"}}}) == {}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"@time": {"value": 1, "as": "days"}}, "seconds"),
        ({"@time": {"as": "seconds"}}, 'needs "value"'),
        ({"@hash": {"value": 1, "algorithm": "crc"}}, "md5"),
        ({"@text": {"value": 1, "max": 0}}, "from 1"),
        ({"@text": {"value": 1, "max": True}}, "from 1"),
        ({"@text": {"value": 1, "refuse": "x"}}, "list of names"),
        ({"@entries": {"of": {}, "key": "k"}}, 'needs "value"'),
        ({"@entries": {"of": {}, "key": "k", "value": 1, "types": ["date"]}}, "list of string"),
        ({"@entries": {"of": {}, "key": "k", "value": 1, "types": [["string"]]}}, "list of string"),
        ({"@tme": {}}, "did you mean @time"),
    ],
)
def test_what_cannot_be_meant(document: Any, said: str) -> None:
    """A mistake is refused when the mapping is read, with what to write."""
    with pytest.raises(MappingError, match=said):
        compile_mapping(document)
