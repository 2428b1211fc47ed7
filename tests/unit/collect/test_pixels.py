"""A pixel is an event in an address: it is stored like any other, and what is asked for is always a picture."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from urllib.parse import quote, urlencode

import pytest

from hookline.collect.http.answers import GIF
from hookline.journal.port import JournalFull
from tests.unit.collect.wire import DISABLED_KEY, KEY, OTHER_KEY, Answer, Running, basic

OPEN = {"writeKey": KEY, "userId": "u1", "event": "Email Opened", "properties": {"subject": "Café"}}
FLAT = {"writeKey": KEY, "userId": "u1", "event": "Open", "properties.subject": "Café", "properties.a.b": "1 + 1"}


def pictured(answer: Answer, status: int = 200) -> str | None:
    """The code of a picture's refusal, having checked that it is one that nobody keeps."""
    assert (answer.status, answer.headers["content-type"], answer.body) == (status, "image/gif", GIF)
    assert answer.headers["cache-control"] == "no-store"
    return answer.headers.get("x-hookline-error")


def data(event: object) -> str:
    """An event as base64, padded."""
    return base64.b64encode(json.dumps(event).encode()).decode()


@pytest.mark.parametrize("type_", ["identify", "track", "page", "screen", "group", "alias"])
def test_the_path_decides_the_type(edge: Running, type_: str) -> None:
    """Each type has a pixel, and a type in the data does not count."""
    event = {**OPEN, "type": "other", "groupId": "g1", "previousId": "p1"}
    assert pictured(edge.get(f"/v1/pixel/{type_}?data={quote(data(event))}")) is None
    (record,) = edge.memory.records
    assert (record.type, record.source, record.user_key) == (type_, "web", "u1")
    assert json.loads(record.body) == event


SPELLINGS: dict[str, Callable[[str], str]] = {
    "quoted": lambda text: quote(text, safe=""),
    "as it is": lambda text: text,
    "a plus that became a space": lambda text: text.replace("+", "%20"),
    "without padding": lambda text: text.rstrip("="),
    "safe for URLs": lambda text: text.translate(str.maketrans("+/", "-_")),
    "safe for URLs without padding": lambda text: text.translate(str.maketrans("+/", "-_")).rstrip("="),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_any_base64_will_do(edge: Running, spelling: str) -> None:
    """Padding may be missing and both alphabets are read: the documents' own sample has no padding."""
    event = {**OPEN, "properties": {"text": "ü>>>???~~~ÿÿÿ!"}}
    written = base64.b64encode(json.dumps(event, ensure_ascii=False).encode()).decode()
    assert {"+", "/", "="} <= set(written)
    assert pictured(edge.get(f"/v1/pixel/track?data={SPELLINGS[spelling](written)}")) is None
    assert json.loads(edge.memory.records[0].body) == event


@pytest.mark.parametrize("path", ["/v1/pixel/track", "/v1/pixel/track/", "/pixel/v1/track", "/pixel/v1/page"])
def test_parameters_are_fields(edge: Running, path: str) -> None:
    """Without data, each parameter is a field and dots lead into objects; every value is text."""
    assert pictured(edge.get(f"{path}?{urlencode(FLAT)}")) is None
    (record,) = edge.memory.records
    assert record.type == path.rstrip("/").rpartition("/")[2]
    event = json.loads(record.body)
    assert event["properties"] == {"subject": "Café", "a": {"b": "1 + 1"}}


def test_a_quoted_anonymous_id_loses_its_quotes(edge: Running) -> None:
    """RudderStack's pixel takes the id as its cookie has it, in quotes; the first of two values counts."""
    query = urlencode([("writeKey", KEY), ("event", "e"), ("anonymousId", '"abc"'), ("anonymousId", "second")])
    assert pictured(edge.get(f"/pixel/v1/track?{query}")) is None
    assert edge.memory.records[0].user_key == "abc"


@pytest.mark.parametrize(
    ("where", "query", "headers"),
    [
        ("data", {"data": data(OPEN)}, {}),
        ("query", {"data": data({**OPEN, "writeKey": None}), "writeKey": KEY}, {}),
        ("data over query", {"data": data(OPEN), "writeKey": OTHER_KEY}, {}),
        ("header over data", {"data": data({**OPEN, "writeKey": OTHER_KEY})}, {"Authorization": basic(KEY)}),
        (
            "many parameters",
            {"writeKey": KEY, "userId": "u", "event": "e"} | {f"context.c{i}": i for i in range(60)},
            {},
        ),
    ],
)
def test_the_key_is_found(edge: Running, where: str, query: dict[str, str], headers: dict[str, str]) -> None:
    """Header, then data, then query; however many parameters there are."""
    assert pictured(edge.get(f"/v1/pixel/track?{urlencode(query)}", **headers)) is None
    assert edge.memory.records[0].source == "web"


BAD = {
    "no query": ("", "missing_write_key"),
    "no key": ("userId=u&event=e", "missing_write_key"),
    "unknown key": ("userId=u&event=e&writeKey=nobody", "unknown_write_key"),
    "disabled source": (f"userId=u&event=e&writeKey={DISABLED_KEY}", "source_disabled"),
    "no user": (f"event=e&writeKey={KEY}", "missing_user_id"),
    "empty event": (f"userId=u&event=&writeKey={KEY}", "missing_event"),
    "no base64": ("data=%21%21%21", "invalid_query"),
    "base64 cut short": ("data=abcde", "invalid_query"),
    "base64 with a pad inside": ("data=ab==cdef", "invalid_query"),
    "no JSON": ("data=" + base64.b64encode(b"{").decode(), "invalid_json"),
    "no object": ("data=" + data([1]), "invalid_body"),
    "deep JSON": ("data=" + base64.b64encode(b'{"a":' + b"[" * 200 + b"]" * 200 + b"}").decode(), "nesting_too_deep"),
    "deep parameter": ("a" + ".a" * 200 + "=1", "nesting_too_deep"),
    "very deep parameter": ("a" + ".a" * 3_900 + "=1", "nesting_too_deep"),
    "bad UTF-8": ("userId=%ff", "invalid_utf8"),
    "bad UTF-8 in JSON": ("data=" + base64.b64encode(b'{"userId":"\xff"}').decode(), "invalid_utf8"),
    "value and object": ("properties.a=1&properties.a.b=2", "invalid_query"),
    "object and value": ("properties.a.b=2&properties.a=1", "invalid_query"),
    "a field that is an object": (f"userId.a=u&event=e&writeKey={KEY}", "invalid_field"),
    "too many parameters": ("&".join(f"p{i}=1" for i in range(300)), "invalid_query"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_named_in_a_header(edge: Running, case: str) -> None:
    """A mistake is answered with a picture and 200 all the same, named, counted, and nothing is delivered."""
    query, code = BAD[case]
    before = edge.edge.counters.refused_pixels[code]
    assert pictured(edge.get(f"/v1/pixel/track?{query}")) == code
    assert edge.edge.counters.refused_pixels[code] == before + 1
    assert all(record.rejection is not None for record in edge.memory.records)


def test_a_refused_event_of_a_known_source_is_kept_to_be_shown(edge: Running) -> None:
    """As with any other call; also when the query holds no event at all."""
    edge.get(f"/v1/pixel/track?event=e&writeKey={KEY}")
    edge.get("/v1/pixel/track?data=%21", Authorization=basic(KEY))
    assert [record.rejection and record.rejection.code for record in edge.memory.records] == [
        "missing_user_id",
        "invalid_query",
    ]


def test_a_bad_header_is_refused_with_a_picture(edge: Running) -> None:
    """A key in the header that nobody has counts as little as one in the query."""
    assert (
        pictured(edge.get(f"/v1/pixel/track?{urlencode(FLAT)}", Authorization=basic("nobody"))) == "unknown_write_key"
    )
    assert edge.memory.records == []


def test_only_a_get_is_an_event(edge: Running) -> None:
    """HEAD is a look without an event, OPTIONS a preflight, and anything else 405."""
    target = f"/v1/pixel/track?{urlencode(FLAT)}"
    assert edge.get(target, "HEAD").headers["content-length"] == str(len(GIF))
    assert edge.get(target, "OPTIONS").headers["access-control-allow-methods"] == "GET, HEAD, OPTIONS"
    answer = edge.post(target, {})
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
    assert edge.memory.records == []


def test_a_picture_comes_after_its_event_is_durable(start: Callable[..., Running]) -> None:
    """Like every other answer; when the event cannot be stored the picture says 503."""
    edge = start()
    edge.memory.hold = True
    wire = edge.wire().send(f"GET /v1/pixel/track?{urlencode(FLAT)} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    edge.until(lambda: len(edge.memory.held) == 1)
    edge.call(edge.memory.release)
    assert pictured(wire.answer()) is None
    edge.memory.hold, edge.memory.error = False, JournalFull()
    answer = edge.get(f"/v1/pixel/track?{urlencode(FLAT)}")
    assert pictured(answer, 503) == "journal_full"
    assert int(answer.headers["retry-after"]) > 0


def test_before_the_first_snapshot_it_is_503(start: Callable[..., Running]) -> None:
    """Nothing is known yet: a picture, but no 200."""
    assert pictured(start(snapshot=None).get(f"/v1/pixel/track?{urlencode(FLAT)}"), 503) == "not_ready"


def test_an_event_of_a_pixel_is_bounded(edge: Running) -> None:
    """An address may have 8 KB."""
    assert edge.get(f"/v1/pixel/track?data={'a' * 9_000}").status == 431
