"""What expressions see of an event: the fields of its body under the names of the collection API."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.events.view import EVENT_FIELDS, EventView, integrations_of
from tests.unit.events.test_webhook_body import AT


class Stored(msgspec.Struct):
    """What a journal record holds, as far as a view needs it."""

    type: str
    body: bytes
    envelope: bytes | None = None
    timestamp: str = AT
    source: str = "website"
    message_id: str = "m1"
    origin: str = "sdk"


def view(type_: str, caller: object, envelope: object = None) -> EventView:
    """The view of an event."""
    body = caller if isinstance(caller, bytes) else json.dumps(caller).encode()
    return EventView(Stored(type_, body, None if envelope is None else json.dumps(envelope).encode()))


OWN = {"type": "track", "source": "website", "messageId": "m1", "timestamp": AT}


@pytest.mark.parametrize(
    ("type_", "caller", "seen"),
    [
        ("track", {"event": "E", "userId": 7, "anonymousId": ""}, {"event": "E", "userId": "7", "properties": {}}),
        ("page", {"name": "N", "category": "C", "traits": {"a": 1}}, {"name": "N", "category": "C"}),
        ("page", {"traits": {"a": 1}}, {"properties": {"a": 1}}),
        ("identify", {"userId": "u", "context": {"traits": {"a": 1}}}, {"traits": {"a": 1}}),
        ("group", {"groupId": "g"}, {"groupId": "g", "traits": {}}),
        ("alias", {"userId": "new", "previousId": "old"}, {"userId": "new", "previousId": "old"}),
        ("track", {"event": {"odd": 1}, "userId": 1.50}, {"event": '{"odd":1}', "userId": "1.5"}),
    ],
)
def test_what_is_seen(type_: str, caller: dict[str, Any], seen: dict[str, Any]) -> None:
    """Each field is what the body says, whichever is asked for first."""
    expected = {**OWN, "type": type_, **seen}
    found = view(type_, caller)
    assert {name: found.get(name, None) for name in expected} == expected
    assert expected.items() <= view(type_, caller).all().items()


def test_what_is_not_there_is_missing() -> None:
    """A field that the body leaves out gives the default, also one that exists in no event."""
    found = view("track", {"event": "E", "userId": None, "name": ""})
    assert [found.get(name, "?") for name in ("userId", "name", "traits", "context", "receivedAt")] == ["?"] * 5


def test_the_context_of_the_batch_is_seen() -> None:
    """It lies under the event's own, as in the body."""
    found = view("track", {"event": "E", "context": {"ip": "1"}}, {"context": {"ip": "0", "locale": "de"}})
    assert found.get("context", None) == {"ip": "1", "locale": "de"}


@pytest.mark.parametrize(
    ("properties", "seen"),
    [(b'{"a":1e400}', {"a": float("inf")}), (b'{"a":"\\ud800"}', {"a": "\ud800"}), (b"[1]", {})],
)
def test_what_the_quick_way_cannot_read(properties: bytes, seen: dict[str, Any]) -> None:
    """Odd values are seen all the same."""
    assert view("track", b'{"event":"E","properties":%b}' % properties).get("properties", None) == seen


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode), st.sampled_from(["track", "alias", "odd"]))
def test_nothing_makes_it_raise(body: bytes, type_: str) -> None:
    """Whatever the bytes are, every field can be asked for."""
    found = view(type_, body)
    assert all(found.get(name, None) is not found for name in EVENT_FIELDS)
    assert found.all()["source"] == "website"


@pytest.mark.parametrize(
    ("own", "shared", "chosen"),
    [
        (b'{"integrations":{"All":false}}', None, {"All": False}),
        (b"{}", b'{"integrations":{"All":false}}', {"All": False}),
        (b'{"integrations":{"A":{"x":1}}}', b'{"integrations":{"All":false,"A":true}}', {"All": False, "A": {"x": 1}}),
        (b'{"integrations":[1]}', b'{"context":{}}', None),
        (b"{}", None, None),
        (b"[", None, None),
    ],
)
def test_which_integrations_the_caller_chose(own: bytes, shared: bytes | None, chosen: Any) -> None:
    """The event's own choice goes before its batch's; what is no object is none."""
    assert integrations_of(Stored("track", own, shared)) == chosen
