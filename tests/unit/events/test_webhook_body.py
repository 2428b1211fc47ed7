"""Webhook bodies: the fields, their order, and what becomes of the caller's values."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.events import body as webhook_body
from hookline.events import canonical
from hookline.events.body import (
    message_id_header,
    message_id_headers,
    render_all_canonical,
    render_canonical,
    render_plain,
)
from hookline.events.canonical import canonicalize_slowly

AT = "2026-11-20T07:00:00.123Z"


class Event(msgspec.Struct):
    """What a journal record holds, as far as a body needs it."""

    type: str
    body: bytes
    envelope: bytes | None = None
    timestamp: str = AT


def _event(type_: str, caller: object, envelope: object = None) -> Event:
    return Event(type_, json.dumps(caller).encode(), None if envelope is None else json.dumps(envelope).encode())


def _both(event: Event) -> object:
    plain, canonical = render_plain(event), render_canonical(event)
    assert canonicalize_slowly(plain) == canonical
    assert [*json.loads(plain)] == [*json.loads(canonical)]
    return json.loads(plain)


HEAD = {"version": 1, "type": None, "userId": "u1", "timestamp": AT}


@pytest.mark.parametrize(
    ("type_", "caller", "fields"),
    [
        ("track", {"event": "Sold"}, {"event": "Sold", "properties": {}}),
        ("track", {"event": "Sold", "properties": {"a": 1}}, {"event": "Sold", "properties": {"a": 1}}),
        ("page", {}, {"properties": {}}),
        ("page", {"name": "n", "category": "c"}, {"name": "n", "category": "c", "properties": {}}),
        ("page", {"traits": {"url": "x"}}, {"properties": {"url": "x"}}),
        ("page", {"traits": {"url": "x"}, "properties": {}}, {"properties": {"url": "x"}}),
        ("page", {"traits": {"url": "x"}, "properties": {"a": 1}}, {"properties": {"a": 1}, "traits": {"url": "x"}}),
        ("screen", {"name": "Home"}, {"name": "Home"}),
        ("screen", {"name": "Home", "properties": {"a": 1}}, {"name": "Home", "properties": {"a": 1}}),
        ("identify", {}, {"traits": {}}),
        ("identify", {"traits": {"plan": "pro"}}, {"traits": {"plan": "pro"}}),
        ("identify", {"context": {"traits": {"a": 1}}}, {"traits": {"a": 1}, "context": {"traits": {"a": 1}}}),
        ("identify", {"context": {"traits": 7}}, {"traits": {}, "context": {"traits": 7}}),
        (
            "identify",
            {"traits": {"a": 1}, "context": {"traits": {"a": 2}}},
            {"traits": {"a": 1}, "context": {"traits": {"a": 2}}},
        ),
        ("group", {"groupId": "g"}, {"groupId": "g", "traits": {}}),
        ("group", {"groupId": "g", "context": {"ip": "::1"}}, {"groupId": "g", "traits": {}, "context": {"ip": "::1"}}),
    ],
)
def test_fields_of_each_type(type_: str, caller: dict[str, object], fields: dict[str, object]) -> None:
    """Every type has its fields, required objects are there even when empty, nothing else appears."""
    sent = {"userId": "u1", "messageId": "m", "integrations": {"All": True}, "writeKey": "k", "sentAt": AT, **caller}
    expected = {**HEAD, "type": type_, **fields}
    assert _both(_event(type_, sent)) == expected


def test_alias_has_the_two_spaced_keys_and_no_user_id() -> None:
    """Alias says ``Previous ID`` and ``User ID``, exactly so."""
    event = _event("alias", {"previousId": "old", "userId": "new"})
    assert render_plain(event) == (
        b'{"version":1,"type":"alias","timestamp":"%b","Previous ID":"old","User ID":"new"}' % AT.encode()
    )


def test_delete_holds_three_fields() -> None:
    """A delete body is type, userId and timestamp, whatever else was given."""
    event = _event("delete", {"userId": "u1", "context": {}, "traits": {}, "anonymousId": "a"}, {"context": {"a": 1}})
    expected = b'{"type":"delete","userId":"u1","timestamp":"%b"}' % AT.encode()
    assert render_plain(event) == render_canonical(event) == expected


def test_order_of_all_fields() -> None:
    """The order of fields holds however the caller ordered the fields."""
    caller = {
        "context": {"a": 1},
        "traits": {"b": 1},
        "properties": {"c": 1},
        "groupId": "g",
        "category": "c",
        "name": "n",
        "event": "e",
        "anonymousId": "a",
        "userId": "u",
    }
    order = "version type userId anonymousId timestamp event name category groupId properties traits context"
    assert [*_both(_event("track", caller))] == order.split()  # type: ignore[misc]


def test_plain_keeps_numbers_and_canonical_does_not() -> None:
    """Without a secret numbers stay as written; with one they become what JavaScript would write."""
    event = Event("track", b'{"userId":"u","event":"e","properties":{"b":1.50,"2":12345678901234567890,"1":-0}}')
    assert b'{"b":1.50,"2":12345678901234567890,"1":-0}' in render_plain(event)
    assert b'{"1":0,"2":12345678901234567000,"b":1.5}' in render_canonical(event)


def test_minus_zero_is_one_id_in_every_way() -> None:
    """As JavaScript has it, -0 is "0", also in an event that goes the slow way (here for half an emoji)."""
    for rest in (b"}", b',"properties":{"text":"\\ud83d"}}'):
        assert b'"userId":"0"' in render_plain(Event("track", b'{"event":"e","userId":-0' + rest))
        assert b'"userId":"0"' in render_canonical(Event("track", b'{"event":"e","userId":-0' + rest))


@pytest.mark.parametrize("absent", [None, ""])
def test_null_and_empty_ids_are_absent(absent: object) -> None:
    """SDKs send null or empty ids for what they do not know."""
    caller = {"userId": absent, "anonymousId": "a", "event": "e", "name": absent, "context": None}
    expected = ["version", "type", "anonymousId", "timestamp", "event", "properties"]
    assert [*_both(_event("track", caller))] == expected  # type: ignore[misc]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (42, "42"),
        (1.5, "1.5"),
        (12.0, "12"),
        (10**20, str(10**20)),
        (True, "true"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
    ],
)
def test_other_types_become_strings(value: object, text: str) -> None:
    """Ids and names are strings in every body."""
    body = _both(_event("track", {"userId": value, "event": value}))
    assert body["userId"] == body["event"] == text  # type: ignore[index]


@pytest.mark.parametrize("name", ["1.5", "-0", "[1.50,{}]", '{"b":1,"1":2}', "true", "1e400", "9" * 400])
def test_a_name_of_another_type_does_not_send_the_call_the_slow_way(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written of it is the same; the slow way takes up to fifty times as long for all of the call."""
    event = Event("track", f'{{"userId":"u","event":{name},"context":{{"a":[1]}}}}'.encode())
    slowly = canonical.encode_verbatim(webhook_body._tree(event))
    monkeypatch.setattr(webhook_body, "_tree", lambda record: pytest.fail("the slow way"))
    assert _both(event) == json.loads(slowly)


@pytest.mark.parametrize("wrong", [None, 3, "text", [1], True])
def test_objects_of_another_type_are_absent(wrong: object) -> None:
    """A required object is then empty, an optional one left out."""
    caller = {"userId": "u", "event": "e", "properties": wrong, "traits": wrong, "context": wrong}
    assert _both(_event("track", caller)) == {**HEAD, "type": "track", "userId": "u", "event": "e", "properties": {}}


@pytest.mark.parametrize(
    ("own", "merged"),
    [
        (None, {"library": {"name": "go", "version": "3"}, "ip": "1"}),
        ({"ip": "2"}, {"library": {"name": "go", "version": "3"}, "ip": "2"}),
        ({"library": {"name": "own"}, "x": 1}, {"library": {"name": "own", "version": "3"}, "ip": "1", "x": 1}),
        ({"library": "flat"}, {"library": "flat", "ip": "1"}),
    ],
)
def test_envelope_context_lies_under_the_events_own(own: object, merged: object) -> None:
    """What the batch said once holds for each event that does not say otherwise."""
    envelope = {"context": {"library": {"name": "go", "version": "3"}, "ip": "1"}, "integrations": {"All": True}}
    caller = {"userId": "u", "event": "e", **({} if own is None else {"context": own})}
    assert _both(_event("track", caller, envelope))["context"] == merged  # type: ignore[index]


def test_contexts_are_merged_some_levels_deep() -> None:
    """Each level is decoded anew, so below that the event's own stands."""

    def nested(name: str, levels: int) -> object:
        return {"a": nested(name, levels - 1), name: levels} if levels else {name: 0}

    event = _event("track", {"event": "e", "context": nested("own", 20)}, {"context": nested("batch", 20)})
    body = _both(event)
    level, merged = body["context"], 0  # type: ignore[index]
    while "batch" in level:
        level, merged = level["a"], merged + 1
    assert merged == webhook_body.MERGED_LEVELS_MAX
    assert level == nested("own", 20 - merged)
    assert json.loads(canonical.encode_verbatim(webhook_body._tree(event))) == body


@pytest.mark.parametrize("envelope", [b'{"integrations":{}}', b'{"context":null}', b'{"context":[1]}'])
def test_envelope_without_context_changes_nothing(envelope: bytes) -> None:
    """An envelope may hold integrations only, or nonsense."""
    body = b'{"userId":"u","event":"e","context":{"a":1}}'
    assert _both(Event("track", body, envelope)) == _both(Event("track", body))


def test_lone_surrogates_survive() -> None:
    """A cut emoji anywhere in the event neither stops nor changes the rest of it."""
    event = Event(
        "track", b'{"userId":"u\\ud83d","event":"e","properties":{"\\ude00":1.0}}', b'{"context":{"a":"\\ud83d"}}'
    )
    tail = b'"event":"e","properties":{"\\ude00":1%b},"context":{"a":"\\ud83d"}}'
    assert render_plain(event).endswith(tail % b".0")
    assert render_canonical(event).endswith(tail % b"")
    assert b'"userId":"u\\ud83d"' in render_plain(event)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
_NAMES = [
    "userId",
    "anonymousId",
    "event",
    "name",
    "category",
    "groupId",
    "previousId",
    "properties",
    "traits",
    "context",
]
_CALLERS = st.dictionaries(st.sampled_from(_NAMES), _JSON)
_TYPES = st.sampled_from(["identify", "track", "page", "screen", "group", "alias", "delete"])


@given(_TYPES, _CALLERS, st.none() | st.fixed_dictionaries({"context": _JSON}))
def test_quick_and_slow_ways_agree(type_: str, caller: dict[str, object], envelope: object) -> None:
    """Whatever was sent, the canonical body is the canonical form of the plain one, and both are JSON."""
    event = _event(type_, caller, envelope)
    assert render_canonical(event) == canonicalize_slowly(render_plain(event))
    assert canonical.decode(render_plain(event))["type"] == type_  # type: ignore[call-overload, index]


_EVENTS = st.builds(_event, _TYPES, _CALLERS, st.none() | st.fixed_dictionaries({"context": _JSON}))


@given(st.lists(_EVENTS, max_size=6))
def test_rendered_together_as_each_alone(events: list[Event]) -> None:
    """Ordinary or not, no event changes what becomes of its neighbours."""
    assert render_all_canonical(events) == [canonicalize_slowly(render_plain(event)) for event in events]


@pytest.mark.parametrize(
    "unusual",
    [
        b'{"userId":7}',
        b'{"event":"e","properties":{"b":1,"1":2}}',
        b'{"event":"e","properties":{"n":12345678901234567890}}',
        b'{"event":"e","properties":{"n":1e999}}',
        b'{"event":"e","previousId":"p"}',
        b'{"event":"\\ud800"}',
        b'{"event":"e","context":{"a":1,\n"b":[2, 3]}}',
        b'{"event":"e","context":7}',
    ],
)
def test_an_unusual_call_among_ordinary_ones(unusual: bytes) -> None:
    """What the quick way cannot write goes another way by itself, wherever in the burst it stands."""
    calls = [Event("track", b'{"event":"a\\nb","context":{"x":1}}'), Event("page", b"{}"), Event("track", unusual)]
    for turn in range(3):
        events = calls[turn:] + calls[:turn]
        assert render_all_canonical(events) == [canonicalize_slowly(render_plain(event)) for event in events]


@pytest.mark.parametrize("own", [{}, {"context": {"page": {"path": "/"}}}, {"context": {"ip": "1"}}, {"context": 7}])
def test_the_quick_way_merges_contexts(own: dict[str, object]) -> None:
    """What a browser sends has its address in the envelope, and takes no longer for it."""
    events = [_event("track", {"event": "e", **own}, {"context": {"ip": "203.0.113.7"}}) for _ in range(3)]
    expected = [canonicalize_slowly(render_plain(event)) for event in events]
    assert webhook_body.render_ordinary(events) == webhook_body.render_ordinary(events) == expected


def test_long_calls_are_taken_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Joining needs the memory twice, so it is bounded; the bodies are the same."""
    events = [_event("track", {"event": "e" * 40, "properties": {"n": n}}) for n in range(4)]
    together = render_all_canonical(events)
    monkeypatch.setattr(webhook_body, "TOGETHER_BYTES_MAX", 100)
    assert render_all_canonical(events) == together
    assert [webhook_body.render_ordinary((event,)) for event in events] == [[body] for body in together]


@pytest.mark.parametrize(
    ("message_id", "header"),
    [("node-next-1_a.b~c", "node-next-1_a.b~c"), ("a b/é%", "a%20b%2F%C3%A9%25"), ("x\r\ny", "x%0D%0Ay"), ("", "")],
)
def test_message_id_header(message_id: str, header: str) -> None:
    """A messageId can never break out of its header."""
    assert message_id_header(message_id) == header.encode()


def test_message_id_headers_of_several() -> None:
    """One unusual messageId does not change the others' headers, nor does an empty one."""
    ids = ["a-1", "", "ß\n", "0"]
    assert message_id_headers(ids) == [message_id_header(each) for each in ids] == [b"a-1", b"", b"%C3%9F%0A", b"0"]
    assert message_id_headers([]) == []
