"""Bad input on the level of HTTP, over raw sockets: refused strictly; what could be smuggled ends the connection."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.service.client import basic
from tests.service.collect.conftest import Site
from tests.service.collect.raw_socket import MARKER, RawSocket, assert_refused
from tests.service.harness import new_id

AUTH = f"Authorization: {basic('wk_site')['Authorization']}\r\n".encode()
EVENT = f"{MARKER}-http".encode()
BODY = b'{"userId":"u","event":"' + EVENT + b'"}'
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)


def head(*lines: bytes, start: bytes = b"POST /v1/track HTTP/1.1", host: bytes = b"Host: localhost\r\n") -> bytes:
    """A request head; each line ends itself."""
    return start + b"\r\n" + host + AUTH + b"".join(lines) + b"\r\n"


# Each row: what is sent, and the statuses that are right. The connection must be closed after each of them.
SMUGGLING: dict[str, tuple[bytes, set[int]]] = {
    "length and chunked": (head(LENGTH, CHUNKED) + CHUNKS, {400}),
    "chunked and length": (head(CHUNKED, LENGTH) + CHUNKS, {400}),
    "two lengths": (head(LENGTH, b"Content-Length: 3\r\n") + BODY, {400}),
    "two equal lengths": (head(LENGTH, LENGTH) + BODY, {400}),
    "length plus": (head(b"Content-Length: +%d\r\n" % len(BODY)) + BODY, {400}),
    "length list": (head(b"Content-Length: %d, %d\r\n" % (len(BODY), len(BODY))) + BODY, {400}),
    "length hex": (head(b"Content-Length: 0x%x\r\n" % len(BODY)) + BODY, {400}),
    "length with space": (head(b"Content-Length: 4 0\r\n") + BODY, {400}),
    "length negative": (head(b"Content-Length: -1\r\n") + BODY, {400}),
    "length empty": (head(b"Content-Length: \r\n") + BODY, {400}),
    "length overflow": (head(b"Content-Length: 18446744073709551617\r\n") + BODY, {400, 413}),
    "xchunked": (head(b"Transfer-Encoding: xchunked\r\n") + CHUNKS, {400, 501}),
    "chunked, identity": (head(b"Transfer-Encoding: chunked, identity\r\n") + CHUNKS, {400, 501}),
    "two chunked": (head(CHUNKED, CHUNKED) + CHUNKS, {400, 501}),
    "chunked after vertical tab": (head(b"Transfer-Encoding: \x0bchunked\r\n") + CHUNKS, {400, 501}),
    "gzip, chunked": (head(b"Transfer-Encoding: gzip, chunked\r\n") + CHUNKS, {400, 501}),
    "folded header": (head(b"X-A: 1\r\n b\r\n", LENGTH) + BODY, {400}),
    "folded chunked": (head(b"Transfer-Encoding:\r\n chunked\r\n") + CHUNKS, {400, 501}),
    "bare line feeds": (head(LENGTH).replace(b"\r\n", b"\n") + BODY, {400}),
    "one bare line feed": (head(b"X-A: 1\n", LENGTH) + BODY, {400}),
    "bare carriage return": (head(b"X-A: 1\rX-B: 2\r\n", LENGTH) + BODY, {400}),
    "space before colon": (head(b"Content-Length : 5\r\n") + BODY, {400}),
    "tab before colon": (head(b"Transfer-Encoding\t: chunked\r\n") + CHUNKS, {400}),
    "control in name": (head(b"X-\x01A: 1\r\n", LENGTH) + BODY, {400}),
    "NUL in value": (head(b"X-A: a\0b\r\n", LENGTH) + BODY, {400}),
    "no colon": (head(b"Nonsense\r\n", LENGTH) + BODY, {400}),
    "empty name": (head(b": x\r\n", LENGTH) + BODY, {400}),
    "chunk size overflow": (head(CHUNKED) + b"FFFFFFFFFFFFFFFFF\r\n" + BODY, {400, 413}),
    "chunk size signed": (head(CHUNKED) + b"+%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY), {400}),
    "chunk size prefixed": (head(CHUNKED) + b"0x%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY), {400}),
    "chunk longer than said": (head(CHUNKED) + b"3\r\nabcdef\r\n0\r\n\r\n", {400}),
    "chunk with bare line feed": (head(CHUNKED) + b"%x\n%s\n0\n\n" % (len(BODY), BODY), {400}),
    "chunk extension of a megabyte": (head(CHUNKED) + b"1;" + b"a" * 1_000_000, {400, 413, 431}),
    "bad trailer": (head(CHUNKED) + b"%x\r\n%s\r\n0\r\nbad trailer\r\n\r\n" % (len(BODY), BODY), {400}),
    "no host": (head(LENGTH, host=b"") + BODY, {400}),
    "two hosts": (head(LENGTH, b"Host: other\r\n") + BODY, {400}),
    "http 0.9": (b"GET /v1/track\r\n\r\n", {400, 505}),
    "http 2 preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400, 505}),
    "http 3.7": (head(LENGTH, start=b"POST /v1/track HTTP/3.7") + BODY, {400, 505}),
    "lower-case method": (head(LENGTH, start=b"post /v1/track HTTP/1.1") + BODY, {400, 405}),
    "method of a kilobyte": (head(LENGTH, start=b"A" * 1_024 + b" /v1/track HTTP/1.1") + BODY, {400, 405, 501}),
    "tls hello": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 64, {400}),
    "101 headers": (head(*[b"X-%d: 1\r\n" % n for n in range(101)], LENGTH) + BODY, {400, 431}),
    "64 KB of headers": (head(*[b"X-%d: %s\r\n" % (n, b"a" * 7_000) for n in range(10)], LENGTH) + BODY, {400, 431}),
    "request line too long": (
        head(LENGTH, start=b"POST /v1/track?" + b"a" * 9_000 + b" HTTP/1.1") + BODY,
        {400, 414, 431},
    ),
    "endless header": (head(start=b"POST /v1/track HTTP/1.1")[:-2] + b"X-A: " + b"a" * 200_000, {400, 431}),
    "declared 10 GB": (head(b"Content-Length: 10737418240\r\n"), {413}),
}


@pytest.fixture(scope="module", autouse=True)
def _collect_survives(site: Site) -> Iterator[None]:
    """The same collect process answers after all of this as before."""
    pid = site.hookline.role("collect")
    yield
    assert site.hookline.role("collect") == pid
    site.receiver.wait_for(site.hookline.track())


@pytest.mark.parametrize("row", SMUGGLING)
def test_what_could_be_smuggled_is_refused_and_closed(site: Site, row: str) -> None:
    """One refusal with a JSON body, then the connection is closed and a pipelined request is never answered."""
    data, statuses = SMUGGLING[row]
    with RawSocket(site.hookline.collect_port) as raw:
        raw.write(data)
        raw.write(head(LENGTH) + BODY)
        assert_refused(raw.answer(), statuses, row)
        assert raw.closed()


def test_nothing_refused_was_forwarded(site: Site) -> None:
    """None of the bodies of the rows above reached a receiver: their event name was never seen."""
    site.receiver.wait_for(site.hookline.track())
    assert [r for r in site.receiver.requests if EVENT in r.body] == []


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "TRACE", "HEAD"])
def test_other_methods_are_405_with_allow(site: Site, method: str) -> None:
    """Only POST (and OPTIONS) on the collection paths."""
    with RawSocket(site.hookline.collect_port) as raw:
        raw.write(head(b"Connection: close\r\n", start=f"{method} /v1/track HTTP/1.1".encode()))
        answer = raw.answer()
    assert answer is not None
    assert answer.status == 405
    assert "POST" in answer.headers["allow"]


@pytest.mark.parametrize("start", [b"POST /v1/track HTTP/1.0", b"POST http://localhost/v1/track HTTP/1.1"])
def test_http_1_0_and_targets_in_absolute_form_are_served(site: Site, start: bytes) -> None:
    """HTTP/1.0 works (and closes); a target in absolute form is served as its path."""
    body = b'{"userId":"u","event":"E"}'
    with RawSocket(site.hookline.collect_port) as raw:
        raw.write(head(b"Content-Length: %d\r\n" % len(body), start=start) + body)
        answer = raw.answer()
        assert answer is not None
        assert answer.status == 200
        assert not start.endswith(b"1.0") or raw.closed()


PATHS = [
    *(
        "/v1/./track",
        "/v1/%74rack",
        "/v1/x/../track",
        "/v1/%2e%2e/track",
        "/v1/track%00",
        "/v1/track;x=1",
    ),
    *("/V1/track", "/v1/Track", "/v1/", "/", "/etc/passwd", "/../../etc/passwd", "/api/v1/sources"),
]


@pytest.mark.parametrize("path", PATHS)
def test_other_spellings_of_a_path_are_404(site: Site, path: str) -> None:
    """A path is one string: nothing is decoded or folded into another route. (Only slashes may be repeated.)"""
    with RawSocket(site.hookline.collect_port) as raw:
        raw.write(head(LENGTH, start=f"POST {path} HTTP/1.1".encode()) + BODY)
        assert_refused(raw.answer(), {404}, path)


AUTHS = [
    b"",
    b"Authorization: Bearer wk_site\r\n",
    b"Authorization: Basic !!!\r\n",
    b"Authorization: Basic \r\n",
    b"Authorization: Basic\r\n",
    b"Authorization: Basic d3Jvbmc6\r\n",
    b"Authorization: Basic /////w==\r\n",
    b"Authorization: Basic " + b"QUFB" * 1_700 + b"\r\n",
]


@pytest.mark.parametrize("line", AUTHS, ids=range(len(AUTHS)))
def test_a_missing_or_wrong_key_is_401(site: Site, line: bytes) -> None:
    """No header, another scheme, bad base64, an unknown key, a huge one: 401, and no hint which it was."""
    with RawSocket(site.hookline.collect_port) as raw:
        raw.write(b"POST /v1/track HTTP/1.1\r\nHost: x\r\n" + line + LENGTH + b"\r\n" + BODY)
        assert_refused(raw.answer(), {401}, line)


def test_an_endless_chunked_body_is_cut_off(site: Site) -> None:
    """Chunks without end are answered 413 and closed soon after the limit, not when memory is full."""
    with RawSocket(site.hookline.collect_port) as raw:
        raw.write(head(CHUNKED))
        for _ in range(200):
            raw.write(b"10000\r\n" + b" " * 65_536 + b"\r\n")
        assert_refused(raw.answer(), {413})
        assert raw.closed()


@pytest.mark.parametrize("kind", ["oversize", "bad path"])
def test_expect_continue_gets_a_final_answer_at_once(site: Site, kind: str) -> None:
    """A client that asks first is refused without having to send its body."""
    start = b"POST /nowhere HTTP/1.1" if kind == "bad path" else b"POST /v1/track HTTP/1.1"
    length = b"Content-Length: 999999999\r\n" if kind == "oversize" else b"Content-Length: 50\r\n"
    with RawSocket(site.hookline.collect_port) as raw:
        raw.write(head(b"Expect: 100-continue\r\n", length, start=start))
        assert_refused(raw.answer(), {413} if kind == "oversize" else {404})


def test_surplus_bytes_never_count_to_the_event_before(site: Site) -> None:
    """Content-Length shorter than the body: the event is what was declared, the rest is a bad request and closes."""
    message_id = new_id()
    body = b'{"userId":"u","event":"E","messageId":"' + message_id.encode() + b'"}'
    with RawSocket(site.hookline.collect_port) as raw:
        raw.write(head(b"Content-Length: %d\r\n" % len(body)) + body + b"surplus bytes\r\n\r\n")
        first = raw.answer()
        assert first is not None
        assert first.status == 200
        assert_refused(raw.answer(), {400})
        assert raw.closed()


def test_pipelined_requests_are_answered_in_order(site: Site) -> None:
    """Twenty requests written at once: twenty answers, in their order."""
    ids = [new_id() for _ in range(20)]
    bodies = [b'{"userId":"u","event":"E","messageId":"' + i.encode() + b'"}' for i in ids]
    with RawSocket(site.hookline.collect_port) as raw:
        raw.write(b"".join(head(b"Content-Length: %d\r\n" % len(b)) + b for b in bodies))
        answers = [raw.answer() for _ in ids]
    assert [a.json["messageId"] for a in answers if a is not None] == ids


def test_a_client_that_leaves_harms_nobody(site: Site) -> None:
    """A hundred connections that end inside the headers or the body: what comes next is served."""
    for n in range(100):
        with RawSocket(site.hookline.collect_port) as raw:
            raw.write((head(b"Content-Length: 500\r\n") + BODY)[: 20 + n * 2])
    site.receiver.wait_for(site.hookline.track())
