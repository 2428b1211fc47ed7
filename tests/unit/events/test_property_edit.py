"""Taking fields out of events: what goes, what stays as it was written, and that both forms of an event agree."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.events.canonical import canonicalize_slowly
from hookline.events.property_edit import PropertyEdit, edit_body, edit_fields

BODY = {
    "type": "track",
    "properties": {
        "card": "4242",
        "total": 9,
        "address": {"city": "Bonn", "street": "A"},
        "items": [{"sku": "a", "price": 1}, {"sku": "b", "price": 2}, "loose", [{"price": 3}]],
    },
    "context": {"ip": "10.0.0.1", "device": {"model": "X"}},
}


def edited(keep: bool, *paths: str) -> dict[str, Any]:
    """The body after an edit; the fields, decoded, are edited the same way."""
    edit = PropertyEdit.of([tuple(path.split(".")) for path in paths], keep)
    found: dict[str, Any] = json.loads(edit_body(json.dumps(BODY).encode(), [edit], canonical=False))
    assert edit_fields(BODY, edit) == found
    return found


@pytest.mark.parametrize(
    ("paths", "changed"),
    [
        (("properties.card",), {"properties": {k: v for k, v in BODY["properties"].items() if k != "card"}}),  # type: ignore[attr-defined]
        (("properties.nowhere", "traits.x", "properties.card.deeper"), {}),
        (("properties",), {"properties": {}}),
        (("context",), {"context": None}),
        (("context.ip", "context.device.model"), {"context": {"device": {}}}),
        (("context.device", "context.device.model"), {"context": {"ip": "10.0.0.1"}}),
    ],
)
def test_dropping(paths: tuple[str, ...], changed: dict[str, Any]) -> None:
    """What is named goes, whatever is around it stays; properties are emptied, a context is left out."""
    expected = {name: changed.get(name, value) for name, value in BODY.items()}
    assert edited(False, *paths) == {name: value for name, value in expected.items() if value is not None}


def test_dropping_goes_through_lists() -> None:
    """A path means the field of every element, however lists lie in each other."""
    left = edited(False, "properties.items.price")["properties"]["items"]
    assert left == [{"sku": "a"}, {"sku": "b"}, "loose", [{}]]


def test_keeping() -> None:
    """Of an object that a path names only what is named stays; objects that none names stay whole."""
    left = edited(True, "properties.total", "properties.address.city", "properties.items.sku", "properties.card.x")
    assert left["properties"] == {
        "total": 9,
        "address": {"city": "Bonn"},
        "items": [{"sku": "a"}, {"sku": "b"}, [{}]],
    }
    assert left["context"] == BODY["context"]
    assert edited(True, "context")["context"] == BODY["context"]


def test_the_rest_stays_as_it_was_written() -> None:
    """Numbers, escapes and order of what stays are the caller's."""
    body = b'{"type":"track","properties":{"b":1.50,"card":1,"a":12345678901234567890123,"\\u00e9":"\\u00e9"}}'
    edit = PropertyEdit.of([("properties", "card")], keep=False)
    assert edit_body(body, [edit], canonical=False) == (
        b'{"type":"track","properties":{"b":1.50,"a":12345678901234567890123,"\xc3\xa9":"\\u00e9"}}'
    )


@pytest.mark.parametrize("canonical", [False, True])
def test_a_key_with_half_a_character(canonical: bool) -> None:
    """A lone surrogate goes the slow way and stays the escape it was."""
    body = b'{"properties":{"\\ud800":1.0,"card":2}}'
    edit = PropertyEdit.of([("properties", "card")], keep=False)
    number = b"1" if canonical else b"1.0"
    assert edit_body(body, [edit], canonical) == b'{"properties":{"\\ud800":%b}}' % number


NAMES = st.sampled_from(["a", "b", "10", "2", "é", "\u2028", '"'])
TREES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
BODIES = st.fixed_dictionaries({"type": st.just("track")}, optional={"properties": st.dictionaries(NAMES, TREES)})
PATHS = st.lists(st.tuples(st.just("properties"), NAMES) | st.tuples(st.just("properties"), NAMES, NAMES), min_size=1)


@given(BODIES, PATHS, st.booleans())
def test_a_canonical_body_stays_canonical(body: dict[str, Any], paths: list[tuple[str, ...]], keep: bool) -> None:
    """What is signed after an edit is what JavaScript makes of it, and the decoded fields say the same."""
    edit = PropertyEdit.of(paths, keep)
    found = edit_body(canonicalize_slowly(json.dumps(body).encode()), [edit], canonical=True)
    assert canonicalize_slowly(found) == found
    assert json.loads(found) == json.loads(canonicalize_slowly(json.dumps(edit_fields(body, edit)).encode()))
