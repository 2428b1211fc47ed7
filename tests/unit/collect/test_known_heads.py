"""A head judged before is not parsed again: the answers, the bounds and the strictness are the same as without."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tests.unit.collect.wire import KEY, SNAPSHOT, TRACK, Running, Wire, request

BODY = b'{"userId":"u1","event":"Order","messageId":"m1"}'


def _known(edge: Running) -> int:
    return len(edge.call(lambda: dict(edge.edge._intake.known_heads._heads)))


def _twice(edge: Running, data: bytes) -> Wire:
    """Send a request twice over one connection, so that its head is known."""
    wire = edge.wire()
    for _ in range(2):
        assert wire.send(data).answer().status == 200
    return wire


def test_a_repeated_head_takes_each_body(edge: Running) -> None:
    """Requests with one head and different bodies of one length are each taken for what they say."""
    wire = edge.wire()
    for name in ("aaa", "bbb", "ccc"):
        assert wire.send(request("/v1/track", {**TRACK, "messageId": name})).answer().json["messageId"] == name
    assert [record.message_id for record in edge.memory.records] == ["aaa", "bbb", "ccc"]


def test_heads_are_forgotten_when_write_keys_change(start: Callable[..., Running]) -> None:
    """A key that is disabled is refused at once, also on a connection whose head was known."""
    edge = start()
    data = request("/v1/track", BODY)
    wire = _twice(edge, data)
    assert _known(edge) == 1
    sources = tuple(msgspec.structs.replace(source, enabled=False) for source in SNAPSHOT.sources)
    edge.call(edge.edge.set_snapshot, msgspec.structs.replace(SNAPSHOT, sources=sources))
    assert wire.send(data).answer().status == 401


def test_a_known_head_with_more_or_less_body_is_parsed(edge: Running) -> None:
    """Bytes past the length are the next request's, a body in pieces is waited for, and garbage is 400 and closed."""
    data = request("/v1/track", BODY)
    wire = _twice(edge, data)
    wire.send(data + data)
    assert [wire.answer().status, wire.answer().status] == [200, 200]
    wire.send(data[:-5])
    wire.send(data[-5:])
    assert wire.answer().status == 200
    wire.send(data + b"GARBAGE\r\n\r\n")
    assert [wire.answer().status, wire.answer().status] == [200, 400]
    assert wire.closed()


def test_unusual_heads_are_not_remembered(start: Callable[..., Running]) -> None:
    """Chunked bodies, expectations, closing connections and refused requests are judged anew each time."""
    edge = start()
    chunked = b"POST /v1/track?writeKey=%b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" % KEY.encode()
    chunked += b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
    for data in (
        chunked,
        request("/v1/track", BODY, Connection="close"),
        request("/v1/track", BODY, Expect="100-continue"),
        request("/v1/nothing", BODY),
        request("/v1/track", BODY, key="wk_unknown"),
    ):
        edge.ask(data)
    assert _known(edge) == 0


def test_events_of_a_known_head_wait_for_the_commit(start: Callable[..., Running]) -> None:
    """The quick way too answers only after the appender has said that the event is durable."""
    edge = start()
    data = request("/v1/track", BODY)
    wire = _twice(edge, data)
    edge.memory.hold = True
    wire.send(data)
    edge.until(lambda: len(edge.memory.held) == 1)
    wire.socket.setblocking(False)
    try:
        assert not wire.socket.recv(1)
    except BlockingIOError:
        pass
    wire.socket.settimeout(10)
    edge.call(edge.memory.release)
    assert wire.answer().status == 200
