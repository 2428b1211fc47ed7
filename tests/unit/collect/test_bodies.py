"""Encodings and JSON: what is not exactly JSON in UTF-8 within its bounds is 400, and never a fault of ours."""

from __future__ import annotations

import gzip
import itertools
import json
import re
import sys
import zlib
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.collect import decode
from hookline.collect.decode import any_nested_deeper, nested_deeper, repair_surrogates
from tests.unit.collect.wire import TRACK, Running, request, sized, zipped

EVENT = json.dumps(TRACK).encode()
PATHS = ["/v1/track", "/v1/batch", "/v1/import"]


def _for(path: str, event: bytes) -> bytes:
    return event if path == "/v1/track" else b'{"batch":[' + event.replace(b"{", b'{"type":"track",', 1) + b"]}"


def _with(property_json: bytes) -> bytes:
    return EVENT[:-1] + b', "properties": {"x": ' + property_json + b"}}"


BAD_GZIP = {
    "wrong CRC": lambda good: good[:-8] + b"\x00\x00\x00\x00" + good[-4:],
    "wrong length": lambda good: good[:-1] + b"\x01",
    "truncated": lambda good: good[:-9],
    "header only": lambda good: good[:10],
    "trailing junk": lambda good: good + b"junk",
    "second member broken": lambda good: good + good[:-3],
    "too many members": lambda good: good + gzip.compress(b"", mtime=0) * 20,
    "plain body": gzip.decompress,
    "gzip of gzip": lambda good: gzip.compress(good),
    "zlib, not gzip": lambda good: zlib.compress(gzip.decompress(good)),
    "empty": lambda good: b"",
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("spoil", BAD_GZIP.values(), ids=BAD_GZIP.keys())
def test_bad_gzip_is_400(edge: Running, path: str, spoil: object) -> None:
    """A body that is not whole, valid gzip though it says so is 400 on every path."""
    answer = edge.post(path, spoil(zipped(_for(path, EVENT))), Content_Encoding="gzip")  # type: ignore[operator]
    assert answer.status == 400
    edge.reason(answer)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "x-gzip"])
def test_gzip_is_taken_on_every_path(edge: Running, path: str, encoding: str) -> None:
    """A gzipped body is stored inflated; several members count as one body."""
    body = _for(path, EVENT)
    assert edge.post(path, zipped(body), Content_Encoding=encoding).status == 200
    assert edge.post(path, zipped(body[:9]) + zipped(body[9:]), Content_Encoding=encoding).status == 200
    assert json.loads(edge.memory.records[0].body).items() >= TRACK.items()


def test_gzip_without_its_header_is_400(edge: Running) -> None:
    """A gzipped body that does not say so is not JSON."""
    assert edge.reason(edge.post("/v1/t", zipped(EVENT))) == "invalid_utf8"


@pytest.mark.parametrize("encoding", ["br", "deflate", "zstd", "gzip, gzip", "gzip, identity", "aws-chunked"])
def test_other_encodings_are_415(edge: Running, encoding: str) -> None:
    """Only gzip is understood; identity is no encoding."""
    assert edge.post("/v1/t", EVENT, Content_Encoding=encoding).status == 415
    assert edge.post("/v1/t", EVENT, Content_Encoding="identity").status == 200


@pytest.mark.parametrize(("path", "code"), [("/v1/track", "event_too_large"), ("/v1/batch", "batch_too_large")])
def test_bombs_are_413(edge: Running, path: str, code: str) -> None:
    """A small body that inflates without end is 413, whether of spaces or of bombs."""
    for filling in (b" " * 100_000_000, zipped(b"\0" * 10_000_000) * 300):
        bomb = gzip.compress(filling)
        if len(bomb) <= decode.EVENT_BYTES_MAX or path == "/v1/batch":
            assert edge.post(path, bomb, Content_Encoding="gzip").code == code


BAD_JSON = {
    "empty": b"",
    "spaces": b"   ",
    "truncated": EVENT[:-1],
    "trailing comma": EVENT[:-1] + b",}",
    "comment": b"{/* x */}",
    "single quotes": b"{'userId': 'u1'}",
    "two documents": EVENT + EVENT,
    "trailing NUL": EVENT + b"\x00",
    "vertical tab": EVENT + b"\x0b",
    "NaN": _with(b"NaN"),
    "Infinity": _with(b"Infinity"),
    "-Infinity": _with(b"[-Infinity]"),
    "leading zero": _with(b"01"),
    "leading plus": _with(b"+1"),
    "no fraction": _with(b"1."),
    "raw newline in a string": _with(b'"a\nb"'),
    "raw NUL in a key": EVENT[:-1] + b', "a\x00b": 1}',
    "bad escape": _with(rb'"\q"'),
    "bad unicode escape": _with(rb'"\u12G4"'),
    "BOM": b"\xef\xbb\xbf" + EVENT,
    "UTF-16": EVENT.decode().encode("utf-16"),
    "UTF-32": EVENT.decode().encode("utf-32"),
    "Latin-1": _with('"é"'.encode("latin-1")),
    "overlong": _with(b'"\xc0\xaf"'),
    "encoded surrogate": _with(b'"\xed\xa0\x80"'),
    "cut-off sequence": _with(b'"\xf0\x9f\x98"'),
    "beyond Unicode": _with(b'"\xf4\x90\x80\x80"'),
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("event", BAD_JSON.values(), ids=BAD_JSON.keys())
def test_what_is_not_json_is_400(edge: Running, path: str, event: bytes) -> None:
    """Anything that is not JSON in UTF-8 is 400 on every path, also in a part that nobody reads."""
    body = event if path == "/v1/track" else b'{"batch":[' + event + b",1]}"
    answer = edge.post(path, body)
    assert answer.status == 400
    assert edge.reason(answer) in ("invalid_json", "invalid_utf8", "invalid_body")
    assert len(answer.body) < 1_000


@pytest.mark.parametrize("body", [b"null", b"[]", b'"x"', b"123", b"true", b"[{}]"])
@pytest.mark.parametrize("path", PATHS)
def test_what_is_no_object_is_400(edge: Running, path: str, body: bytes) -> None:
    """A body must be an object."""
    assert edge.reason(edge.post(path, body)) == "invalid_body"


@pytest.mark.parametrize("batch", [b"{}", b'{"batch":{}}', b'{"batch":"x"}'])
def test_a_batch_without_its_array_is_400(edge: Running, batch: bytes) -> None:
    """A batch must hold an array named batch; one that is null is an empty one, as Segment takes it, with a warning."""
    assert edge.reason(edge.post("/v1/batch", batch)) == "invalid_body"


def _nested(levels: int, opening: bytes, closing: bytes) -> bytes:
    # the event and its properties are two levels
    return _with(opening * (levels - 3) + b"[]" + closing * (levels - 3))


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}"), (b'[{"}":', b"}]")])
@pytest.mark.parametrize("path", PATHS)
def test_nesting_boundary(edge: Running, path: str, opening: bytes, closing: bytes) -> None:
    """An event nested 128 deep is taken, deeper ones are 400, brackets within strings do not count."""
    per = len(closing)
    for levels in (64, 127, 128):
        assert edge.post(path, _for(path, _nested((levels - 3) // per + 3, opening, closing))).status == 200
    edge.memory.records.clear()
    for levels in (129, 1_000, 5_000):
        too_deep = _nested(-(-(levels - 3) // per) + 3, opening, closing)
        assert edge.reason(edge.post(path, _for(path, too_deep))) == "nesting_too_deep"


@pytest.mark.parametrize("path", PATHS)
def test_brackets_in_strings_hide_no_nesting(edge: Running, path: str) -> None:
    """An event nested too deep is refused although brackets in its strings would cancel out the others."""
    body = _for(path, _nested(129, b'{"}":', b',"{":1}'))
    assert edge.reason(edge.post(path, body)) == "nesting_too_deep"


@pytest.mark.parametrize("name", [b"context", b"integrations", b"anything", b"sentAt"])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"":', b"}")])
def test_nesting_of_the_envelope(edge: Running, name: bytes, opening: bytes, closing: bytes) -> None:
    """What stands beside the events may lie as deep as they may, whether or not anyone looks at it."""
    for levels, status in ((129, 200), (130, 400)):
        value = opening * (levels - 1) + b"[]" + closing * (levels - 1)
        body = b'{"batch":[],"%b":%b}' % (name, value)
        assert edge.post("/v1/batch", body).status == status


def test_absurd_nesting_is_400_and_harmless(edge: Running) -> None:
    """200,000 levels in a batch are 400 and the process answers the next request."""
    for opening, closing in ((b"[", b"]"), (b'{"":', b"}")):
        levels = min(200_000, 500_000 // (len(opening) + 1))
        body = b'{"batch":' + opening * levels + b"1" + closing * levels + b"}"
        assert edge.post("/v1/batch", body).status == 400
    assert edge.post("/v1/t", EVENT).status == 200


def test_brackets_in_strings_are_no_nesting() -> None:
    """A long string of brackets is just a string, with escaped quotes and backslashes around it."""
    text = json.dumps({"a": '["\\' * 5_000, "b": [{}] * 400}).encode()
    assert not nested_deeper(text, 128)
    assert nested_deeper(b"[" * 129 + text + b"]" * 129, 128)


LEVELS = {
    "[": "]",
    '{"":': "}",
    '{"a":[],"b":': ',"c":{}}',
    '["[[",': "]",
    '{"}":': ',"{":1}',  # brackets within strings that would cancel out those around them
    r'{"\\\"}]":': r',"\"[{\\":1}',
}


NESTS = st.lists(st.sampled_from(sorted(LEVELS)), max_size=48)


@given(st.lists(NESTS, min_size=1, max_size=4), st.integers(2, 50))
def test_nesting_is_counted_exactly(nests: list[list[str]], levels_max: int) -> None:
    """However objects and arrays are mixed, however short they are written, whatever strings hold and stands beside."""
    written = ("".join(nest) + "{}" + "".join(LEVELS[opening] for opening in reversed(nest)) for nest in nests)
    body = f"[{','.join(written)}]"
    json.loads(body)
    deeper = max(map(len, nests)) + 2 > levels_max
    assert nested_deeper(body.encode(), levels_max) == deeper
    assert any_nested_deeper([b"{}", body.encode()], levels_max) == deeper
    assert not any_nested_deeper([], levels_max)


@pytest.mark.parametrize("levels", [10, 20, 100])
def test_brackets_are_not_counted_one_by_one(monkeypatch: pytest.MonkeyPatch, levels: int) -> None:
    """Half a megabyte of them, which is a kilobyte of gzip, would take as long as all events of a batch."""
    counted = 0

    def accumulate(values: Iterable[int], initial: int | None = None) -> Iterator[int]:
        nonlocal counted
        for total in itertools.accumulate(values, initial=initial):
            counted += 1
            yield total

    monkeypatch.setattr(decode, "accumulate", accumulate)
    body = b"[" + b",".join([b"[" * levels + b"]" * levels] * 1_000) + b"]"
    assert not nested_deeper(body, levels + 1)
    assert nested_deeper(body, levels)
    assert counted < len(body) / 4


@pytest.mark.parametrize(
    ("escaped", "stored", "count"),
    [
        (rb"\ud83d", rb"\ufffd", 1),
        (rb"a\uD83Dz", rb"a\ufffdz", 1),
        (rb"\ude00\ud83d", rb"\ufffd\ufffd", 2),
        (rb"\ud83d\ud83d\ude00", rb"\ufffd\ud83d\ude00", 1),
        (rb"\ud83d\\ude00", rb"\ufffd\\ude00", 1),
        (rb"\\ud83d\ude00", rb"\\ud83d\ufffd", 1),
        (rb"\ud83d\u0041", rb"\ufffd\u0041", 1),
        (rb"\ud83d\ude00 \\ud83d", rb"\ud83d\ude00 \\ud83d", 0),
    ],
)
def test_lone_surrogates_are_repaired_and_counted(edge: Running, escaped: bytes, stored: bytes, count: int) -> None:
    """Half an emoji becomes U+FFFD wherever it stands and on every path; whole ones stay as they were."""
    assert repair_surrogates(escaped) == (stored, count)
    for path in PATHS:
        before = edge.edge.counters.repaired_surrogates
        assert edge.post(path, _for(path, _with(b'"' + escaped + b'"'))).status == 200
        assert edge.edge.counters.repaired_surrogates == before + count
        assert b'"' + stored + b'"' in edge.memory.records[-1].body
    assert edge.post("/v1/track", {**TRACK, "userId": "x"}).status == 200


ESCAPES = [rb"\ud83d", rb"\uDE00", rb"\ud83d\ude00", rb"\\", rb"\n", rb"\u0041", b"ud83d", b"x", "\u00e9".encode()]


@given(st.lists(st.sampled_from(ESCAPES)))
def test_nothing_but_halves_is_repaired(pieces: list[bytes]) -> None:
    """Whatever stands around them, escaped backslashes in particular, what is read differs in the halves alone."""
    written = b"".join(pieces)
    repaired, count = repair_surrogates(written)
    read, halves = re.subn("[\ud800-\udfff]", "\ufffd", json.loads(b'"%b"' % written))
    assert (json.loads(b'"%b"' % repaired), count) == (read, halves)
    assert count or repaired == written


def test_escapes_are_not_looked_at_one_by_one() -> None:
    """A few hundred bytes of gzip hold hundreds of thousands: with a call for each, everybody would wait for them."""
    calls: list[str] = []
    sys.setprofile(lambda frame, event, argument: calls.append(event))
    try:
        assert repair_surrogates(rb"\n\\\ud83d\ude00\ud83d" * 1_000)[1] == 1_000
    finally:
        sys.setprofile(None)
    assert len(calls) < 100


@pytest.mark.parametrize(
    "number", [b"-0", b"1e999", b"9" * 5_000, b"9007199254740993", b"18446744073709551616", b"0.1", b"1E-7"]
)
def test_numbers_are_kept_as_written(edge: Running, number: bytes) -> None:
    """The caller's JSON is stored byte for byte, so no number changes on the way in."""
    body = _with(number)
    assert edge.post("/v1/t", body).status == 200
    assert edge.memory.records[0].body == body


def test_the_last_of_duplicate_keys_wins(edge: Running) -> None:
    """Duplicate keys are allowed and the last one counts, however it is spelled."""
    edge.post("/v1/t", rb'{"userId":"a","event":"E","userI\u0064":"b","__proto__":{"userId":"c"},"constructor":1}')
    assert edge.memory.records[0].user_key == "b"


@pytest.mark.parametrize(
    "body", [b'{"userId":"u","event":"e","' + b"k" * 30_000 + b'":1}', b'{"userId":"u","event":"\\u0000\\u202e"}']
)
def test_odd_but_sound_events_are_accepted(edge: Running, body: bytes) -> None:
    """A giant key, NUL and right-to-left marks as escapes are JSON like any other."""
    assert edge.post("/v1/t", b" \r\n" + body + b"\t\n").status == 200
    assert edge.memory.records[0].body == body


def test_unreadable_calls_are_kept_for_inspection(edge: Running) -> None:
    """When the header names the source, a call that is not JSON is kept, quoted and cut, with its reason."""
    edge.post("/v1/t", b"\xff" * 20_000)
    (record,) = edge.memory.records
    assert record.rejection is not None
    assert (record.rejection.code, record.source, record.type) == ("invalid_utf8", "web", "track")
    assert json.loads(record.body)["bytes"] == 20_000
    assert len(record.body) <= decode.REJECTED_BODY_BYTES_MAX


def test_no_answer_echoes_the_body(edge: Running) -> None:
    """Refusals are short JSON objects that show nothing of what was sent."""
    for body in (b"<script>secret</script>", sized(9_000, event={"secret": 1}), b'{"userId":"secret"}'):
        answer = edge.ask(request("/v1/track", body))
        assert answer.headers["content-type"] == "application/json"
        assert b"secret" not in answer.body
        assert len(answer.body) < 1_000
