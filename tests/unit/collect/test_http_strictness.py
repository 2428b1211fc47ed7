"""HTTP is read strictly: what two servers could read differently is 400 and closed, and nothing of it is stored."""

from __future__ import annotations

import pytest

from tests.unit.collect.wire import KEY, TRACK, Running, basic, request

BODY = b'{"userId":"u1","event":"Order","messageId":"m1"}'
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
AUTHORIZATION = b"Authorization: " + basic(f"{KEY}:").encode() + b"\r\n"
START = b"POST /v1/track HTTP/1.1\r\n"
HOST = b"Host: localhost\r\n"
HEAD = START + HOST + AUTHORIZATION

MALFORMED = {
    "length and coding": HEAD + LENGTH + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKED,
    "coding and length": HEAD + b"Transfer-Encoding: chunked\r\n" + LENGTH + b"\r\n" + CHUNKED,
    "two lengths": HEAD + LENGTH + b"Content-Length: 0\r\n\r\n" + BODY,
    "two equal lengths": HEAD + LENGTH + LENGTH + b"\r\n" + BODY,
    "length with plus": HEAD + b"Content-Length: +48\r\n\r\n" + BODY,
    "length list": HEAD + b"Content-Length: 48, 48\r\n\r\n" + BODY,
    "length in hex": HEAD + b"Content-Length: 0x30\r\n\r\n" + BODY,
    "length with a space": HEAD + b"Content-Length: 4 8\r\n\r\n" + BODY,
    "length negative": HEAD + b"Content-Length: -48\r\n\r\n" + BODY,
    "length empty": HEAD + b"Content-Length:\r\n\r\n" + BODY,
    "length overflowing": HEAD + b"Content-Length: 99999999999999999999999\r\n\r\n" + BODY,
    "coding xchunked": HEAD + b"Transfer-Encoding: xchunked\r\n\r\n" + CHUNKED,
    "coding chunked, identity": HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n" + CHUNKED,
    "coding gzip, chunked": HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + CHUNKED,
    "coding identity": HEAD + b"Transfer-Encoding: identity\r\n" + b"\r\n" + BODY,
    "coding twice": HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKED,
    "coding after a vertical tab": HEAD + b"Transfer-Encoding: \x0bchunked\r\n\r\n" + CHUNKED,
    "coding in HTTP/1.0": b"POST /v1/track HTTP/1.0\r\n"
    + AUTHORIZATION
    + b"Transfer-Encoding: chunked\r\n\r\n"
    + CHUNKED,
    "folded header": HEAD + b"X-A: b\r\n c\r\n" + LENGTH + b"\r\n" + BODY,
    "folded with a tab": HEAD + b"X-A: b\r\n\tc\r\n" + LENGTH + b"\r\n" + BODY,
    "folded length": HEAD + b"Content-Length:\r\n 48\r\n\r\n" + BODY,
    "bare LF after the request line": b"POST /v1/track HTTP/1.1\n" + HOST + AUTHORIZATION + LENGTH + b"\r\n" + BODY,
    "bare LF after a header": HEAD + b"X-A: b\n" + LENGTH + b"\r\n" + BODY,
    "bare LF after the head": HEAD + LENGTH + b"\n" + BODY,
    "bare LF before the request": b"\n" + HEAD + LENGTH + b"\r\n" + BODY,
    "bare CR": HEAD + b"X-A: b\rX-B: c\r\n" + LENGTH + b"\r\n" + BODY,
    "space before a colon": HEAD + b"Content-Length : 48\r\n\r\n" + BODY,
    "space before a header": START + b" Host: localhost\r\n" + AUTHORIZATION + LENGTH + b"\r\n" + BODY,
    "control character in a name": HEAD + b"X\x01A: b\r\n" + LENGTH + b"\r\n" + BODY,
    "NUL in a value": HEAD + b"X-A: b\x00c\r\n" + LENGTH + b"\r\n" + BODY,
    "header without a name": HEAD + b": b\r\n" + LENGTH + b"\r\n" + BODY,
    "header without a colon": HEAD + b"abc\r\n" + LENGTH + b"\r\n" + BODY,
    "no host": START + AUTHORIZATION + LENGTH + b"\r\n" + BODY,
    "empty host": START + b"Host: \r\n" + AUTHORIZATION + LENGTH + b"\r\n" + BODY,
    "two hosts": HEAD + HOST + LENGTH + b"\r\n" + BODY,
    "host with a bad port": START + b"Host: localhost:80x\r\n" + AUTHORIZATION + LENGTH + b"\r\n" + BODY,
    "host with a path": START + b"Host: localhost/v1\r\n" + AUTHORIZATION + LENGTH + b"\r\n" + BODY,
    "two authorizations": HEAD + AUTHORIZATION + LENGTH + b"\r\n" + BODY,
    "absolute target of no web page": b"POST ftp://localhost/v1/track HTTP/1.1\r\n"
    + HOST
    + AUTHORIZATION
    + LENGTH
    + b"\r\n"
    + BODY,
    "absolute target with a user": b"POST http://u@localhost/v1/track HTTP/1.1\r\n"
    + HOST
    + AUTHORIZATION
    + LENGTH
    + b"\r\n"
    + BODY,
    "absolute target without a host": b"POST http:///v1/track HTTP/1.1\r\n"
    + HOST
    + AUTHORIZATION
    + LENGTH
    + b"\r\n"
    + BODY,
    "target without a slash": b"POST v1/track HTTP/1.1\r\n" + HOST + AUTHORIZATION + LENGTH + b"\r\n" + BODY,
    "asterisk target": b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n",
    "control character in the target": b"POST /v1/\x01track HTTP/1.1\r\n" + HOST + LENGTH + b"\r\n" + BODY,
    "space in the target": b"POST /v1 /track HTTP/1.1\r\n" + HOST + LENGTH + b"\r\n" + BODY,
    "tab in the request line": b"POST\t/v1/track HTTP/1.1\r\n" + HOST + LENGTH + b"\r\n" + BODY,
    "lower-case method": b"post /v1/track HTTP/1.1\r\n" + HOST + LENGTH + b"\r\n" + BODY,
    "long method": b"P" * 1024 + b" /v1/track HTTP/1.1\r\n" + HOST + b"\r\n",
    "CONNECT": b"CONNECT localhost:80 HTTP/1.1\r\n" + HOST + b"\r\n",
    "CONNECT to a path": b"CONNECT /v1/track HTTP/1.1\r\n"
    + HOST
    + AUTHORIZATION
    + b"\r\n"
    + HEAD
    + LENGTH
    + b"\r\n"
    + BODY,
    "HTTP/0.9": b"GET /v1/track\r\n\r\n",
    "lower-case protocol": b"POST /v1/track http/1.1\r\n" + HOST + LENGTH + b"\r\n" + BODY,
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 32,
    "chunk size no number": HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + CHUNKED,
    "chunk size with 0x": HEAD + b"Transfer-Encoding: chunked\r\n\r\n0x" + CHUNKED,
    "chunk size after a space": HEAD + b"Transfer-Encoding: chunked\r\n\r\n " + CHUNKED,
    "chunk size negative": HEAD + b"Transfer-Encoding: chunked\r\n\r\n-" + CHUNKED,
    "chunk size overflowing": HEAD + b"Transfer-Encoding: chunked\r\n\r\n1111111111111111" + CHUNKED,
    "chunk size ended by LF": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\n{}\r\n0\r\n\r\n",
    "chunk ended by LF": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\n0\r\n\r\n",
    "chunk longer than said": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}}\r\n0\r\n\r\n",
    "LF in a chunk extension": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2;a\nb\r\n{}\r\n0\r\n\r\n",
    "last chunk ended by LF": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\n\r\n",
    "bad trailer": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX T: 1\r\n\r\n",
    "length in a trailer": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nContent-Length: 5\r\n\r\n",
}


@pytest.mark.parametrize("target", [b"http://localhost/v1/track", b"HTTPS://other.example:443/v1/track?x=http://y"])
def test_a_target_in_absolute_form_is_its_path(edge: Running, target: bytes) -> None:
    """A server has to take what proxies are sent (RFC 9112 3.2.2), again and again on one connection."""
    sent = b"POST %s HTTP/1.1\r\n" % target + HOST + AUTHORIZATION + LENGTH + b"\r\n" + BODY
    wire = edge.wire().send(sent)
    assert wire.answer().status == 200
    assert wire.send(sent).answer().status == 200
    assert len(edge.memory.records) == 2


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED.keys())
def test_what_could_be_smuggled_is_400_and_closed(edge: Running, data: bytes) -> None:
    """A malformed request gets one 400 and a closed connection, and stores nothing, also not what follows it."""
    wire = edge.wire().send(data + request("/v1/track", TRACK))
    answer = wire.answer()
    assert (answer.status, answer.code, answer.headers["connection"]) == (400, "malformed_request", "close")
    assert wire.closed()
    assert edge.memory.records == []


@pytest.mark.parametrize(
    "data",
    [
        b"GET /healthz HTTP/2.0\r\n" + HOST + b"\r\n",
        b"GET /healthz HTTP/3.7\r\n" + HOST + b"\r\n",
        b"GET /healthz HTTP/1.2\r\n" + HOST + b"\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_other_versions_are_505(edge: Running, data: bytes) -> None:
    """A version that is not spoken is named as the reason, the HTTP/2 preface included."""
    wire = edge.wire().send(data)
    assert (wire.answer().status, wire.closed()) == (505, True)


def test_surplus_bytes_are_never_part_of_the_event(edge: Running) -> None:
    """Bytes past Content-Length are the next request: malformed, 400 and closed; the first one stands."""
    wire = edge.wire().send(HEAD + LENGTH + b"\r\n" + BODY + b"surplus\r\n\r\n")
    assert wire.answer().status == 200
    assert wire.answer().status == 400
    assert wire.closed()
    assert [record.body for record in edge.memory.records] == [BODY]


def test_every_split_of_a_request_reads_alike(edge: Running) -> None:
    """Where the network cuts a request, within the head, within a chunk, makes no difference."""
    data = (
        HEAD
        + b"Transfer-Encoding: chunked\r\n\r\n5;x=y\r\n"
        + BODY[:5]
        + b"\r\n2b\r\n"
        + BODY[5:]
        + b"\r\n0\r\nT: 1\r\n\r\n"
    )
    for cut in range(1, len(data)):
        wire = edge.wire().send(data[:cut])
        assert wire.send(data[cut:]).answer().status == 200, cut
        wire.socket.close()
    assert {record.body for record in edge.memory.records} == {BODY}


@pytest.mark.parametrize(
    "head",
    [
        HEAD.replace(b"localhost", b"[::1]:8080"),
        HEAD.replace(b"localhost", b"events.example.com:443"),
        b"\r\n" + HEAD,
        HEAD + b"X-A: caf\xe9\r\n",
        b"POST /v1/track HTTP/1.0\r\n" + AUTHORIZATION,
    ],
    ids=["IPv6 host", "host with port", "empty line before", "eight-bit value", "HTTP/1.0 without host"],
)
def test_sound_requests_pass(edge: Running, head: bytes) -> None:
    """Strictness does not cost what RFC 9112 allows."""
    assert edge.ask(head + LENGTH + b"\r\n" + BODY).status == 200


def test_two_traces_are_none_and_refuse_nothing(edge: Running) -> None:
    """The header only advises: an event is not lost because a proxy adds its own to the client's."""
    trace = b"traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 \r\n"
    for traces in (trace, trace + trace):
        assert edge.ask(HEAD + traces + LENGTH + b"\r\n" + BODY).status == 200
    first, second = edge.memory.records
    assert first.traceparent is not None
    assert second.traceparent is None


@pytest.mark.parametrize("framing", [LENGTH + b"\r\n" + BODY, b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKED])
@pytest.mark.parametrize("offer", [b"Upgrade: h2c\r\n", b"Upgrade: websocket\r\nUpgrade: h2c\r\n"])
def test_an_offered_upgrade_is_ignored(edge: Running, offer: bytes, framing: bytes) -> None:
    """Java's client offers h2c on each POST: its body is read all the same, then the connection closes."""
    wire = edge.wire().send(HEAD + b"Connection: Upgrade, HTTP2-Settings\r\n" + offer + framing)
    assert wire.answer().status == 200
    assert wire.closed()
    assert [record.body for record in edge.memory.records] == [BODY]
