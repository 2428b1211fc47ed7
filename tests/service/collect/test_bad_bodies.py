"""Bad input in what is sent: encodings, JSON, limits and fields, on single, batch and import routes."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.service.client import send
from tests.service.collect.conftest import Site
from tests.service.collect.raw_socket import MARKER, assert_refused
from tests.service.harness import new_id

ROUTES = ["/v1/track", "/v1/batch", "/v1/import"]
EVENT = {"type": "track", "userId": "u", "event": MARKER}
EVENT_BYTES_MAX = 32_768
BATCH_BYTES_MAX = 512_000
BATCH_EVENTS_MAX = 2_500
DEPTH_MAX = 128


def wrap(route: str, event: bytes) -> bytes:
    """An event's JSON text as the body of a route."""
    return event if route == "/v1/track" else b'{"batch":[' + event + b"]}"


def plain(route: str, **fields: Any) -> bytes:
    return wrap(route, json.dumps({**EVENT, **fields}).encode())


WHOLE = {
    "empty": b"",
    "spaces": b"   ",
    "null": b"null",
    "array": b"[]",
    "string": b'"' + MARKER.encode() + b'"',
    "number": b"123",
    "comment": b'{"userId":"u" /* c */,"event":"E"}',
    "single quotes": b"{'userId':'u','event':'E'}",
    "trailing comma": b'{"userId":"u","event":"E",}',
    "two documents": b'{"userId":"u","event":"E"}{"userId":"u","event":"E"}',
    "cut off": b'{"userId":"u","event":"' + MARKER.encode(),
    "gzip without the header": gzip.compress(b'{"userId":"u","event":"E"}'),
    "utf-16": '{"userId":"u","event":"E"}'.encode("utf-16"),
    "utf-32": '{"userId":"u","event":"E"}'.encode("utf-32"),
}

VALUES = {
    "NaN": b"NaN",
    "Infinity": b"-Infinity",
    "plus": b"+1",
    "leading zero": b"01",
    "invalid utf-8": b'"\xff"',
    "overlong": b'"\xc0\xaf"',
    "raw surrogate": b'"\xed\xa0\x80"',
    "raw control": b'"\x01"',
    "bad escape": b'"\\x41"',
    "200,000 arrays": b"[" * 200_000,
    "1,000 arrays": b"[" * 1_000 + b"]" * 1_000,
    "1,000 objects": b'{"a":' * 1_000 + b"1" + b"}" * 1_000,
}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("row", WHOLE)
def test_a_body_that_is_no_json_object_is_400(site: Site, route: str, row: str) -> None:
    """Whatever is not one JSON object in UTF-8 is refused on every route."""
    assert_refused(site.hookline.post(route, WHOLE[row]), {400}, row)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("row", VALUES)
def test_a_bad_value_is_refused(site: Site, route: str, row: str) -> None:
    """Non-JSON literals, broken text and deep nesting inside an event: 400, or 413 when it is too big as well."""
    event = b'{"type":"track","userId":"u","event":"E","properties":{"x":' + VALUES[row] + b"}}"
    assert_refused(site.hookline.post(route, wrap(route, event)), {400, 413}, row)


@pytest.mark.parametrize("route", ROUTES)
def test_nesting_limit(site: Site, route: str) -> None:
    """An event 128 levels deep is taken, alone or in a batch, one of 129 is 400; brackets in text do not count."""

    def nested(levels: int) -> bytes:
        inner = b"[" * (levels - 2) + b"]" * (levels - 2)  # the event and its properties are two levels
        return wrap(route, b'{"type":"track","userId":"u","event":"E","properties":{"x":' + inner + b"}}")

    assert site.hookline.post(route, nested(DEPTH_MAX)).status == 200
    assert_refused(site.hookline.post(route, nested(DEPTH_MAX + 1)), {400})
    assert site.hookline.post(route, plain(route, properties={"x": "[{" * 2_000})).status == 200


GZIPPED = gzip.compress(json.dumps({"batch": [EVENT]}).encode())
BAD_GZIP = {
    "plain": json.dumps({"batch": [EVENT]}).encode(),
    "wrong crc": GZIPPED[:-8] + b"\0\0\0\0" + GZIPPED[-4:],
    "truncated": GZIPPED[:-9],
    "header only": GZIPPED[:10],
    "trailing junk": GZIPPED + b"junk",
    "gzip of gzip": gzip.compress(GZIPPED),
    "zlib": zlib.compress(json.dumps({"batch": [EVENT]}).encode()),
}


@pytest.mark.parametrize("row", BAD_GZIP)
def test_bad_gzip_is_400(site: Site, row: str) -> None:
    """Content-Encoding says gzip and the bytes do not agree."""
    assert_refused(site.hookline.post("/v1/batch", BAD_GZIP[row], headers={"Content-Encoding": "gzip"}), {400}, row)


@pytest.mark.parametrize("encoding", ["deflate", "br", "zstd", "gzip, gzip", "nonsense"])
def test_other_encodings_are_415(site: Site, encoding: str) -> None:
    """Only gzip and identity are read."""
    assert_refused(site.hookline.post("/v1/batch", GZIPPED, headers={"Content-Encoding": encoding}), {415})


def test_identity_and_any_content_type_are_taken(site: Site) -> None:
    """identity is no encoding, and Content-Type decides nothing (research rule 4)."""
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "x/y; charset=utf-7",
    ):
        headers = {"Content-Encoding": "identity", "Content-Type": kind}
        assert site.hookline.post("/v1/track", plain("/v1/track"), headers=headers).status == 200


def test_gzip_bombs_cost_neither_memory_nor_the_process(site: Site) -> None:
    """300 KB that inflate to 300 MB, on every route: 413, and the edge's memory stays where it was."""
    pid = site.hookline.role("collect")
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = (
        packer.compress(b'{"batch":[')
        + b"".join(packer.compress(b" " * 1_000_000) for _ in range(300))
        + packer.flush()
    )
    before = _rss_kb(pid)
    for route in ROUTES:
        assert_refused(site.hookline.post(route, bomb, headers={"Content-Encoding": "gzip"}), {400, 413})
    assert site.hookline.role("collect") == pid
    assert _rss_kb(pid) - before < 16_000


def test_single_call_limit(site: Site) -> None:
    """32,768 bytes are taken, one more is 413, also when they come packed."""
    at_limit = _padded(plain("/v1/track", pad=""), EVENT_BYTES_MAX)
    over = _padded(plain("/v1/track", pad=""), EVENT_BYTES_MAX + 1)
    assert site.hookline.post("/v1/track", at_limit).status == 200
    assert_refused(site.hookline.post("/v1/track", over), {413})
    assert_refused(site.hookline.post("/v1/track", gzip.compress(over), headers={"Content-Encoding": "gzip"}), {413})


@pytest.mark.parametrize("route", ["/v1/batch", "/v1/import"])
def test_batch_limit_in_bytes(site: Site, route: str) -> None:
    """512,000 bytes after inflation are taken, one more is 413."""
    body = b'{"batch":[' + b",".join([json.dumps({**EVENT, "p": "a" * 30_000}).encode()] * 16) + b'],"pad":""}'
    assert site.hookline.post(route, _padded(body, BATCH_BYTES_MAX)).status == 200
    over = _padded(body, BATCH_BYTES_MAX + 1)
    assert_refused(site.hookline.post(route, over), {413})
    assert_refused(site.hookline.post(route, gzip.compress(over), headers={"Content-Encoding": "gzip"}), {413})


def test_batch_limit_in_events(site: Site) -> None:
    """2,500 events are taken, 2,501 are 413."""
    item = b'{"type":"track","userId":"u","event":"E"}'
    answer = site.hookline.post("/v1/batch", b'{"batch":[' + b",".join([item] * BATCH_EVENTS_MAX) + b"]}")
    assert answer.status == 200
    over = b'{"batch":[' + b",".join([item] * (BATCH_EVENTS_MAX + 1)) + b"]}"
    assert_refused(site.hookline.post("/v1/batch", over), {413})


def test_an_oversized_item_is_rejected_alone(site: Site) -> None:
    """In a batch the item of 32,769 bytes is event_too_large and its neighbours, one of 32,768, are taken."""
    good = _padded(json.dumps({**EVENT, "pad": ""}).encode(), EVENT_BYTES_MAX)
    bad = _padded(json.dumps({**EVENT, "pad": ""}).encode(), EVENT_BYTES_MAX + 1)
    answer = site.hookline.post("/v1/batch", b'{"batch":[' + good + b"," + bad + b"," + good + b"]}")
    assert answer.status == 200
    assert answer.json["accepted"] == 2
    assert [(r["index"], r["code"]) for r in answer.json["rejected"]] == [(1, "event_too_large")]


INVALID = {
    "track without event": ("/v1/track", {"userId": "u"}),
    "track with empty event": ("/v1/track", {"userId": "u", "event": ""}),
    "no ids": ("/v1/track", {"event": "E"}),
    "null ids": ("/v1/track", {"event": "E", "userId": None, "anonymousId": None}),
    "empty ids": ("/v1/identify", {"userId": "", "anonymousId": ""}),
    "object id": ("/v1/identify", {"userId": {"a": MARKER}}),
    "group without groupId": ("/v1/group", {"userId": "u"}),
    "alias without previousId": ("/v1/alias", {"userId": "u"}),
    "alias without userId": ("/v1/alias", {"previousId": "p"}),
}


@pytest.mark.parametrize("row", INVALID)
def test_an_invalid_single_call_is_400(site: Site, row: str) -> None:
    """What each type needs, refused with a code of its own."""
    path, body = INVALID[row]
    assert_refused(site.hookline.post(path, body), {400}, row)


def test_bad_items_are_refused_one_by_one(site: Site) -> None:
    """A batch of nothing but bad items is 200 with accepted 0 and one entry each, within bounds."""
    items: list[object] = [{"userId": "u"}, {"type": "nope", "userId": "u"}, 7, None, "x", [], {}, {"type": 1}]
    answer = site.hookline.post("/v1/batch", {"batch": items})
    assert answer.status == 200
    assert answer.json["accepted"] == 0
    assert [r["index"] for r in answer.json["rejected"]] == list(range(len(items)))


ODD_TIMES: list[Any] = [
    *("", "yesterday", "0000-00-00T00:00:00Z", "9999-12-31T23:59:59.999Z", "99999-01-01", "2016-12-31T23:59:60Z"),
    *("2026-11-20", "2026-11-20T25:00:00Z", "2026-11-20T07:00:00+99:99", -1, 1e20, 1e300, True, [], {}),
]


@pytest.mark.parametrize("written", ODD_TIMES, ids=[str(n) for n in range(len(ODD_TIMES))])
@pytest.mark.parametrize("field", ["timestamp", "sentAt", "originalTimestamp"])
def test_odd_times_never_refuse_an_event(site: Site, written: Any, field: str) -> None:
    """Whatever stands in a time field, the event arrives with a well-formed time."""
    message_id = site.hookline.track(**{field: written})
    timestamp = site.at("signed", message_id).json["timestamp"]
    assert len(timestamp) == 24
    assert timestamp.endswith("Z")


def test_odd_members_are_taken_as_javascript_would(site: Site) -> None:
    """Duplicate keys (last wins), __proto__, lone surrogates, huge numbers and numeric ids do not stop an event."""
    call = (
        b'{"userId":"first","userId":12345,"event":"E","properties":{"__proto__":{"x":1},"cut":"\\ud83d",'
        b'"big":123456789012345678901234567890,"huge":1e999,"exact":9007199254740993}}'
    )
    request = site.forward("/v1/track", call)
    assert request.json["userId"] == "12345"
    assert b'"exact":9007199254740993' in request.body
    assert site.at("signed", request.message_id).json["properties"]["huge"] is None


def test_a_long_or_odd_message_id_is_never_an_error_of_the_server(site: Site) -> None:
    """messageId of the wrong type or of great length: taken with an id in the answer, or refused as 400."""
    odds: list[object] = ["a" * 5_000, 12, 1.5, True, [], {}, "", "\u0000", "\ud83d"]
    for odd in odds:
        body = json.dumps({"userId": "u", "event": "E", "messageId": odd}).encode()
        answer = site.hookline.post("/v1/track", body)
        assert answer.status in (200, 400), (odd, answer)
        assert answer.status == 400 or isinstance(answer.json["messageId"], str)


def test_preflight_allows_what_the_sdks_ask_for(site: Site) -> None:
    """OPTIONS before any key check; Retry-After is exposed on answers (research rules 5 and 6)."""
    ask = {
        "Origin": "https://shop.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "anonymousid,authorization,content-type,sentat,x-retry-count",
    }
    answer = send(site.hookline.collect_port, "OPTIONS", "/v1/t", headers=ask)
    assert answer.status in (200, 204)
    allowed = {name.strip().lower() for name in answer.headers["access-control-allow-headers"].split(",")}
    assert {"authorization", "content-type", "x-retry-count", "anonymousid", "sentat"} <= allowed
    assert answer.headers["access-control-allow-origin"] in ("*", "https://shop.example")
    posted = site.hookline.post("/v1/t", plain("/v1/track"), headers={"Origin": "https://shop.example"})
    assert "retry-after" in posted.headers["access-control-expose-headers"].lower()
    assert posted.headers["access-control-allow-origin"] in ("*", "https://shop.example")


def test_telemetry_of_the_sdks_is_taken_and_dropped(site: Site) -> None:
    """/v1/m answers 200 with a JSON object and stores nothing."""
    message_id = new_id()
    answer = site.hookline.post("/v1/m", {"series": [{"messageId": message_id}]})
    assert answer.status == 200
    assert isinstance(answer.json, dict)
    assert site.hookline.event(message_id) is None


def _padded(body: bytes, size: int) -> bytes:
    """Fill the empty ``pad`` member so that the whole is ``size`` bytes long."""
    key = b'"pad":"' if b'"pad":"' in body else b'"pad": "'
    assert key in body
    return body.replace(key, key + b"x" * (size - len(body)), 1)


def _rss_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
