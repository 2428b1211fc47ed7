"""What a receiver gets for each kind of call, byte for byte."""

from __future__ import annotations

import gzip
import json
from datetime import datetime

import pytest

from tests.service.client import basic, send
from tests.service.collect.conftest import Site
from tests.service.harness import new_id

AT = b'"timestamp":"2026-11-20T07:00:00.123Z"'

# type -> (what the caller sends, the exact body forwarded without a secret)
CALLS: dict[str, tuple[bytes, bytes]] = {
    "identify": (
        b'{"userId":"u1",' + AT + b',"traits":{"plan":"pro","age":31.50}}',
        b'{"version":1,"type":"identify","userId":"u1",' + AT + b',"traits":{"plan":"pro","age":31.50}}',
    ),
    "track": (
        b'{"context":{"ip":"10.9.8.7"},"properties":{"total":12.50,"z":1,"a":[2]},"event":"Order Completed",'
        b'"anonymousId":"a1","integrations":{"All":true},"userId":"u1",' + AT + b"}",
        b'{"version":1,"type":"track","userId":"u1","anonymousId":"a1",' + AT + b',"event":"Order Completed",'
        b'"properties":{"total":12.50,"z":1,"a":[2]},"context":{"ip":"10.9.8.7"}}',
    ),
    "page": (
        b'{"userId":"u1","name":"Home","category":"Docs",'
        + AT
        + b',"properties":{"url":"https://x.test/","path":"/"}}',
        b'{"version":1,"type":"page","userId":"u1",' + AT + b',"name":"Home","category":"Docs",'
        b'"properties":{"url":"https://x.test/","path":"/"}}',
    ),
    "screen": (
        b'{"userId":"u1","name":"Main",' + AT + b',"properties":{"tab":2},"context":{"app":{"version":"1.0"}}}',
        b'{"version":1,"type":"screen","userId":"u1",' + AT + b',"name":"Main","properties":{"tab":2},'
        b'"context":{"app":{"version":"1.0"}}}',
    ),
    "group": (
        b'{"userId":"u1","groupId":"g1",' + AT + b',"traits":{"name":"Acme"}}',
        b'{"version":1,"type":"group","userId":"u1",' + AT + b',"groupId":"g1","traits":{"name":"Acme"}}',
    ),
    "alias": (
        b'{"userId":"new","previousId":"old",' + AT + b"}",
        b'{"version":1,"type":"alias",' + AT + b',"Previous ID":"old","User ID":"new"}',
    ),
}


@pytest.mark.parametrize("kind", CALLS)
@pytest.mark.parametrize("form", ["long", "short", "slash"])
def test_each_call_type_is_forwarded_exactly(site: Site, kind: str, form: str) -> None:
    """Every type, by its long path, its short path and with a trailing slash, arrives as its type is laid out."""
    call, expected = CALLS[kind]
    path = {"long": f"/v1/{kind}", "short": f"/v1/{kind[0]}", "slash": f"/v1/{kind}/"}[form]
    assert site.forward(path, call).body == expected


@pytest.mark.parametrize("path", ["/v1/batch", "/v1/import", "/v1/b"])
def test_a_batch_holds_every_type(site: Site, path: str) -> None:
    """One batch with all six types becomes six requests with the bodies of single calls."""
    ids = {kind: new_id() for kind in CALLS}
    items = [{"type": kind, "messageId": ids[kind], **json.loads(call)} for kind, (call, _) in CALLS.items()]
    answer = site.hookline.post(path, {"batch": items})
    assert answer.status == 200
    assert answer.json["success"] is True
    for kind, (_, expected) in CALLS.items():
        assert site.at("plain", ids[kind]).json == json.loads(expected)


def test_empty_objects_stand_in_for_missing_ones(site: Site) -> None:
    """properties of page and track and traits of identify and group are {} when the caller gave none."""
    assert site.forward("/v1/track", b'{"userId":"u","event":"E"}').json["properties"] == {}
    assert site.forward("/v1/page", b'{"userId":"u"}').json["properties"] == {}
    assert site.forward("/v1/identify", b'{"userId":"u"}').json["traits"] == {}
    assert site.forward("/v1/group", b'{"userId":"u","groupId":"g"}').json["traits"] == {}
    assert "properties" not in site.forward("/v1/screen", b'{"userId":"u","name":"S"}').json


def test_page_traits_count_as_properties(site: Site) -> None:
    """A page call that gives traits and no properties has them forwarded as properties."""
    body = site.forward("/v1/page", b'{"userId":"u","traits":{"url":"https://x.test/"}}').json
    assert body["properties"] == {"url": "https://x.test/"}
    assert "traits" not in body


def test_what_is_no_column_is_left_out(site: Site) -> None:
    """integrations, writeKey, sentAt, messageId and unknown members are not forwarded."""
    call = b'{"userId":"u","event":"E","integrations":{"X":true},"writeKey":"wk_site","sentAt":"%s","_metadata":{}}'
    body = site.forward("/v1/track", call % b"2026-11-20T07:00:00Z").json
    assert set(body) == {"version", "type", "userId", "timestamp", "event", "properties"}


def test_envelope_context_is_merged_under_the_events_own(site: Site) -> None:
    """A batch's context reaches every event; what the event says itself wins."""
    message_id = new_id()
    item = {"type": "track", "userId": "u", "event": "E", "messageId": message_id, "context": {"ip": "1.1.1.1"}}
    envelope = {"batch": [item], "context": {"ip": "9.9.9.9", "library": {"name": "go"}}}
    assert site.hookline.post("/v1/batch", envelope).status == 200
    assert site.at("plain", message_id).json["context"] == {"ip": "1.1.1.1", "library": {"name": "go"}}


def test_unicode_and_hostile_text_survive(site: Site) -> None:
    """Text of every kind reaches both destinations as the same characters."""
    event = 'é中😀 </script> "\\ \u2028 \x7f'
    call = json.dumps({"userId": "u", "event": event, "properties": {"k\u0000": "\u0000"}}).encode()
    plain = site.forward("/v1/track", call)
    signed = site.at("signed", plain.message_id)
    assert plain.json["event"] == signed.json["event"] == event
    assert plain.json["properties"] == signed.json["properties"] == {"k\u0000": "\u0000"}


@pytest.mark.parametrize(
    "given",
    ["é/ü 100%", "with space", "a" * 300, "line\r\nX-Evil: 1", "emoji😀"],
    ids=["umlaut", "space", "long", "crlf", "emoji"],
)
def test_message_id_travels_percent_encoded(site: Site, given: str) -> None:
    """X-Message-Id is the caller's messageId, percent-encoded, whatever characters it holds; no header is injected."""
    message_id = given + new_id()
    site.hookline.track(message_id=message_id)
    request = site.at("plain", message_id)
    assert request.headers["x-message-id"].isascii()
    assert "x-evil" not in request.headers


def test_a_missing_message_id_is_made_up(site: Site) -> None:
    """A call without messageId gets one in the answer, and the receiver sees the same."""
    answer = site.hookline.post("/v1/track", {"userId": "u", "event": "E"})
    assert answer.status == 200
    assert site.at("plain", answer.json["messageId"]).json["event"] == "E"


def test_gzip_is_read_on_single_and_batch_paths(site: Site) -> None:
    """gzip bodies are taken on every path, whatever Content-Type says."""
    odd = {"Content-Encoding": "gzip", "Content-Type": "application/x-www-form-urlencoded"}
    for path in ("/v1/track", "/v1/batch", "/v1/import"):
        message_id = new_id()
        event = {"type": "track", "userId": "u", "event": "E", "messageId": message_id}
        body = event if path == "/v1/track" else {"batch": [event]}
        assert site.hookline.post(path, gzip.compress(json.dumps(body).encode()), headers=odd).status == 200
        site.at("plain", message_id)


def test_write_key_is_found_wherever_sdks_put_it(site: Site) -> None:
    """Basic with and without colon, the body of a single call, a batch and its first event, and the query."""
    port = site.hookline.collect_port

    def event() -> dict[str, object]:
        return {"type": "track", "userId": "u", "event": "E", "messageId": new_id()}

    no_colon = {"Authorization": "Basic d2tfc2l0ZQ=="}
    tries = [
        ("/v1/track", event(), basic("wk_site")),
        ("/v1/track", event(), no_colon),
        ("/v1/track", {**event(), "writeKey": "wk_site"}, {}),
        ("/v1/batch", {"batch": [event()], "writeKey": "wk_site"}, {}),
        ("/v1/batch", {"batch": [{**event(), "writeKey": "wk_site"}]}, {}),
        ("/v1/track?writeKey=wk_site", event(), {}),
    ]
    for path, body, headers in tries:
        answer = send(port, "POST", path, body, headers)
        assert answer.status == 200, (path, body, answer)


def test_clock_skew_is_corrected(site: Site) -> None:
    """A client whose clock is ten years behind: the time forwarded is receivedAt - (sentAt - timestamp)."""
    call = b'{"userId":"u","event":"E","timestamp":"2016-01-01T00:00:00.000Z","sentAt":"2016-01-01T00:00:10.000Z"}'
    request = site.forward("/v1/track", call)
    status = site.hookline.event(request.message_id)
    assert status is not None
    assert _ms(status["receivedAt"]) - _ms(request.json["timestamp"]) == 10_000


@pytest.mark.parametrize(
    ("written", "out"),
    [
        (b'"2014-01-02T03:04:05Z"', "2014-01-02T03:04:05.000Z"),
        (b'"2014-01-02T03:04:05.123456+00:00"', "2014-01-02T03:04:05.123Z"),
        (b'"2014-01-02T03:04:05+0200"', "2014-01-02T01:04:05.000Z"),
        (b'"2014-01-02T03:04:05.123456789Z"', "2014-01-02T03:04:05.123Z"),
        (b"1388631845", "2014-01-02T03:04:05.000Z"),
        (b"1388631845.5", "2014-01-02T03:04:05.500Z"),
    ],
)
def test_timestamps_in_the_forms_sdks_write(site: Site, written: bytes, out: str) -> None:
    """Whatever form the SDK wrote, ISO with milliseconds and Z goes out."""
    call = b'{"userId":"u","event":"E","timestamp":' + written + b"}"
    assert site.forward("/v1/track", call).json["timestamp"] == out


def test_original_timestamp_counts_when_timestamp_is_missing(site: Site) -> None:
    """RudderStack's SDKs send originalTimestamp only."""
    call = b'{"userId":"u","event":"E","originalTimestamp":"2020-05-05T05:05:05.005Z"}'
    assert site.forward("/v1/track", call).json["timestamp"] == "2020-05-05T05:05:05.005Z"


def _ms(value: str) -> int:
    return round(datetime.fromisoformat(value).timestamp() * 1000)
