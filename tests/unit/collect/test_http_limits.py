"""Heads, bodies, connections and slow clients are bounded, each at its limit and one past it."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable

from hookline.collect import decode
from hookline.collect.http.request import HEAD
from hookline.setting_values import Bytes, Networks
from hookline.settings import Collect, Settings
from tests.service.waiting import wait_until
from tests.unit.collect.wire import TRACK, Running, request, sized, zipped

GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
GET_WHOLE = GET + b"\r\n"


def _padded(head_bytes: int) -> bytes:
    # target + each header with four bytes of its own, as the limit counts
    used = len(b"/healthz") + len(b"Hostlocalhost") + 4 + len(b"X") + 4
    return GET + b"X: " + b"a" * (head_bytes - used) + b"\r\n\r\n"


def test_head_bytes_boundary(edge: Running) -> None:
    """64 KB of head pass, one byte more is 431 and closed."""
    assert edge.ask(_padded(decode.HEAD_BYTES_MAX - 1)).status == 200
    assert edge.ask(_padded(decode.HEAD_BYTES_MAX)).status == 200
    wire = edge.wire().send(_padded(decode.HEAD_BYTES_MAX + 1))
    assert (wire.answer().status, wire.closed()) == (431, True)


def test_header_count_boundary(edge: Running) -> None:
    """100 headers pass, 101 are 431."""
    extra = [b"X-%d: a\r\n" % number for number in range(decode.HEADERS_MAX)]
    assert edge.ask(GET + b"".join(extra[1:]) + b"\r\n").status == 200
    assert edge.ask(GET + b"".join(extra) + b"\r\n").status == 431


def test_target_boundary(edge: Running) -> None:
    """A target of 8 KB is looked up, a longer one is 431."""
    path = b"/" + b"a" * (decode.TARGET_BYTES_MAX - 1)
    head = b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
    assert edge.ask(b"GET " + path + head).status == 404
    assert edge.ask(b"GET " + path + b"a" + head).status == 431


def test_an_endless_head_is_cut_off(edge: Running) -> None:
    """A header that never ends is answered as soon as it passes the limit."""
    wire = edge.wire().send(GET + b"X: ")
    for _ in range(9):
        wire.send(b"a" * 8_192)
    assert wire.answer().status == 431


def test_many_header_lines_are_cut_off_as_they_come(edge: Running) -> None:
    """A head that is not finished is 431 with its 101st line, before it costs twenty times its bytes."""
    wire = edge.wire().send(GET + b"a:\r\n" * (decode.HEADERS_MAX + 1))
    assert (wire.answer().status, wire.closed()) == (431, True)


def test_an_unfinished_head_is_buffered(start: Callable[..., Running]) -> None:
    """What has come of a head counts among the buffered bytes until the request is whole."""
    edge = start()
    wire = edge.wire().send(GET + b"X: " + b"a" * 50_000)
    edge.until(lambda: edge.edge.counters.buffered_bytes >= 50_000)
    assert wire.send(b"\r\n\r\n").answer().status == 200
    assert edge.edge.counters.buffered_bytes == 0
    head = request("/v1/track", TRACK).replace(b"Host:", b"X: " + b"a" * 50_000 + b"\r\nHost:")
    wire.send(head[:-1])
    edge.until(lambda: edge.edge.counters.buffered_bytes >= 50_000)
    assert wire.send(head[-1:]).answer().status == 200
    assert edge.edge.counters.buffered_bytes == 0


def test_a_head_that_begins_behind_other_requests_is_buffered(start: Callable[..., Running]) -> None:
    """What comes in one piece with the requests before it counts too."""
    edge = start()
    wire = edge.wire().send((GET + b"\r\n") * 2 + GET + b"X: " + b"a" * 50_000)
    edge.until(lambda: edge.edge.counters.buffered_bytes >= 50_000)
    assert [wire.answer().status for _ in range(2)] == [200, 200]
    assert wire.send(b"\r\n\r\n").answer().status == 200
    assert edge.edge.counters.buffered_bytes == 0


def test_nothing_is_kept_of_a_head_that_was_answered(start: Callable[..., Running]) -> None:
    """A connection that rests holds none of its last request: 20,000 of them would hold 64 KB each."""
    edge = start()
    head = request("/v1/track", TRACK).replace(b"Host:", b"X: " + b"a" * 50_000 + b"\r\nHost:")
    wire = edge.wire().send(head)
    assert wire.answer().status == 200
    (client,) = edge.edge._clients._open
    head = client._head
    assert (head.target, head.headers, head._fields) == (b"", {}, [])


def test_unread_answers_lengthen_no_head(start: Callable[..., Running]) -> None:
    """A head has its ten seconds, however often the client stops and goes on reading answers meanwhile."""
    edge = start()
    wire = edge.wire().send(GET)
    edge.until(lambda: edge.edge.counters.open_connections)
    (client,) = edge.edge._clients._open
    edge.until(lambda: client._phase == HEAD)
    for _ in range(3):
        edge.pass_seconds(3)
        edge.call(client.pause_writing)  # as the transport does when its buffer is full
        edge.call(client.resume_writing)
    edge.pass_seconds(2)
    assert wire.answer().status == 408


def test_single_call_boundary(edge: Running) -> None:
    """A single call of 32,768 bytes is accepted, one more is 413, plain or gzipped; the connection lives on."""
    limit = decode.EVENT_BYTES_MAX
    assert edge.post("/v1/track", sized(limit - 1)).status == 200
    assert edge.post("/v1/track", sized(limit)).status == 200
    assert edge.post("/v1/track", zipped(sized(limit)), Content_Encoding="gzip").status == 200
    wire = edge.wire().send(request("/v1/track", sized(limit + 1)))
    assert (first := wire.answer()).status == 413
    assert first.code == "event_too_large"
    assert wire.send(request("/v1/track", zipped(sized(limit + 1)), Content_Encoding="gzip")).answer().status == 413
    assert wire.send(request("/v1/track", TRACK)).answer().status == 200


def _batch_of(byte_count: int) -> bytes:
    items = b",".join([sized(30_000, type="track")] * 17)
    start = b'{"batch":[' + items + b'],"pad":"'
    return start + b"x" * (byte_count - len(start) - 2) + b'"}'


def test_batch_bytes_boundary(edge: Running) -> None:
    """A batch of 512,000 bytes is accepted, one more is 413, plain, gzipped or chunked."""
    limit = decode.BATCH_BYTES_MAX
    assert edge.post("/v1/batch", _batch_of(limit)).json["accepted"] == 17
    assert edge.post("/v1/import", zipped(_batch_of(limit)), Content_Encoding="gzip").json["accepted"] == 17
    assert edge.post("/v1/batch", _batch_of(limit + 1)).code == "batch_too_large"
    assert edge.post("/v1/b", zipped(_batch_of(limit + 1)), Content_Encoding="gzip").status == 413


def test_a_declared_giant_is_refused_unread(edge: Running) -> None:
    """10 GB of Content-Length is 413 at once, without a byte of the body, and the connection closes."""
    head = b"POST /v1/batch HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000000\r\n\r\n"
    wire = edge.wire().send(head)
    answer = wire.answer()
    assert (answer.status, answer.headers["connection"]) == (413, "close")
    assert wire.closed()


def test_a_length_of_thousands_of_digits_is_refused(edge: Running) -> None:
    """A Content-Length with 5,000 zeros before it is 400, not a fault of ours that is logged for each request."""
    wire = edge.wire().send(request("/v1/track", TRACK).replace(b"Length: ", b"Length: " + b"0" * 5_000))
    assert (wire.answer().status, wire.closed()) == (400, True)


def test_endless_chunks_are_cut_off(edge: Running) -> None:
    """A chunked body without end is 413 before more than its limit and 64 KB are read."""
    wire = edge.wire().send(b"POST /v1/track HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(13):
        wire.send(b"2000\r\n" + b" " * 0x2000 + b"\r\n")
    assert wire.answer().status == 413
    assert wire.closed()
    edge.until(lambda: edge.edge.counters.buffered_bytes == 0)


def test_endless_chunk_extensions_are_cut_off(edge: Running) -> None:
    """Framing without content is bounded too: 1 MB of chunk extension is 400."""
    wire = edge.wire().send(b"POST /v1/track HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1;a=")
    wire.send(b"x" * (1024 * 1024))
    assert wire.answer().status == 400


def _chunked(body: bytes, chunk_bytes: int, path: str = "/v1/track") -> bytes:
    head = request(path, b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    pieces = [body[start : start + chunk_bytes] for start in range(0, len(body), chunk_bytes)]
    return head + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def test_tiny_chunks_are_no_offence(edge: Running) -> None:
    """An honest body in one-byte chunks, six times its size on the wire, is read whole."""
    event = sized(30_000, type="track")
    body = b'{"batch":[' + b",".join([event] * 4) + b"]}"
    assert edge.ask(_chunked(body, 1, "/v1/batch")).json["accepted"] == 4
    assert edge.memory.records[3].body == event


def test_chunked_boundary(edge: Running) -> None:
    """A body whose length is not declared has the same limit: 32,768 bytes pass, one more is 413."""
    assert edge.ask(_chunked(sized(decode.EVENT_BYTES_MAX), 1_000)).status == 200
    assert edge.ask(_chunked(sized(decode.EVENT_BYTES_MAX + 1), 1_000)).status == 413


def test_slow_headers_are_408(start: Callable[..., Running]) -> None:
    """A head that drips is answered 408 after ten seconds, however lively it drips."""
    edge = start()
    wire = edge.wire().send(GET)
    edge.until(lambda: edge.edge.counters.open_connections)
    edge.pass_seconds(6)
    wire.send(b"X-A: b\r\n")
    edge.pass_seconds(6)
    assert (wire.answer().status, wire.closed()) == (408, True)


def test_a_slow_body_is_408(start: Callable[..., Running]) -> None:
    """A body shorter than its Content-Length is 408 after thirty seconds and nothing of it is stored."""
    edge = start()
    wire = edge.wire().send(request("/v1/track", sized(1_000))[:-1])
    edge.until(lambda: edge.edge.counters.buffered_bytes >= 999)
    edge.pass_seconds(15)
    assert edge.edge.counters.requests[b"408"] == 0
    edge.pass_seconds(16)
    assert (wire.answer().status, wire.closed()) == (408, True)
    assert edge.memory.records == []
    assert edge.edge.counters.buffered_bytes == 0


def test_a_body_cut_short_is_400(edge: Running) -> None:
    """A client that hangs up its side amid a body is told, and nothing is stored."""
    wire = edge.wire().send(request("/v1/track", TRACK)[:-1])
    wire.socket.shutdown(socket.SHUT_WR)
    assert wire.answer().code == "incomplete_body"
    assert edge.memory.records == []


def test_silence_is_closed(start: Callable[..., Running]) -> None:
    """A new connection may be silent for ten seconds, one that was used for as long as is set, ten minutes and more."""
    edge = start()
    silent, used = edge.wire(), edge.wire()
    assert used.send(request("/v1/track", TRACK)).answer().status == 200
    edge.until(lambda: edge.edge.counters.open_connections == 2)
    edge.pass_seconds(11)
    assert silent.closed()
    edge.pass_seconds(600)
    assert used.send(request("/v1/track", TRACK)).answer().status == 200
    edge.pass_seconds(621)
    assert used.closed()


def test_the_oldest_idle_connections_make_room(start: Callable[..., Running]) -> None:
    """Above three quarters of all connections those that are idle longest go, of the address that has most."""
    edge = start(connections_max=8)
    opened = [edge.wire(f"127.0.0.{1 if number < 4 else number}") for number in range(7)]
    for number, wire in enumerate(opened):
        assert wire.send(request("/v1/track", TRACK)).answer().status == 200
        edge.pass_seconds(number < 6)
    assert opened[0].closed()
    assert [wire.send(request("/v1/track", TRACK)).answer().status for wire in opened[1:]] == [200] * 6
    assert edge.edge.counters.shed_connections == 1


def test_waiting_for_the_disk_is_not_idleness(start: Callable[..., Running]) -> None:
    """A request that waits for the journal is not closed under it."""
    edge = start()
    edge.memory.hold = True
    wire = edge.wire().send(request("/v1/track", TRACK))
    edge.until(lambda: edge.memory.held)
    edge.pass_seconds(300)
    edge.call(edge.memory.release)
    assert wire.answer().status == 200


def test_connections_are_bounded(start: Callable[..., Running]) -> None:
    """One connection too many gets 503 with Retry-After and is closed; room that is given back is used."""
    edge = start(connections_max=4)
    first, *_ = opened = [edge.wire(f"127.0.0.{number}") for number in range(1, 5)]
    edge.until(lambda: edge.edge.counters.open_connections == 4)
    refused = edge.wire("127.0.0.9")
    answer = refused.answer()
    assert (answer.status, answer.code) == (503, "too_many_connections")
    assert int(answer.headers["retry-after"]) >= 1
    assert refused.closed()
    first.socket.close()
    edge.until(lambda: edge.edge.counters.open_connections == 3)
    assert edge.wire("127.0.0.9").send(request("/v1/track", TRACK)).answer().status == 200
    assert len(opened) == 4


def test_the_last_quarter_of_connections_is_for_others(start: Callable[..., Running]) -> None:
    """An address that holds more than its share of nearly all connections gets no more; another one does."""
    edge = start(connections_max=8)
    held = [edge.wire() for _ in range(6)]
    edge.until(lambda: edge.edge.counters.open_connections == 6)
    assert edge.wire().answer().code == "too_many_connections"
    assert edge.wire("127.0.0.2").send(request("/v1/track", TRACK)).answer().status == 200
    assert len(held) == 6


def test_connections_that_asked_nothing_are_bounded_by_address(start: Callable[..., Running]) -> None:
    """So many connections of one address may have sent no whole request; those that have do not count."""
    edge = start(unproven_max=2)
    asked, silent = edge.wire(), edge.wire()
    edge.until(lambda: edge.edge.counters.open_connections == 2)
    assert edge.wire().answer().code == "too_many_connections"
    assert edge.wire("127.0.0.2").send(request("/v1/track", TRACK)).answer().status == 200
    for _ in range(2):
        assert asked.send(request("/v1/track", TRACK)).answer().status == 200
    assert edge.wire().send(request("/v1/track", TRACK)).answer().status == 200
    asked.socket.close()
    silent.socket.close()


def test_a_trusted_proxy_may_open_all_connections(start: Callable[..., Running]) -> None:
    """Who is behind it is not known before it asks, so no share of its address is held against it."""
    settings = Settings(collect=Collect(trusted_proxies=Networks(("127.0.0.1/32",))))
    edge = start(unproven_max=2, connections_max=8, settings=settings)
    opened = [edge.wire() for _ in range(8)]
    edge.until(lambda: edge.edge.counters.open_connections == 8)
    assert [wire.send(request("/v1/track", TRACK)).answer().status for wire in opened] == [200] * 8


def test_unfinished_requests_are_bounded_together(start: Callable[..., Running]) -> None:
    """Heads and bodies of all connections share a bound; past it the newest is 503 and what it held is given back."""
    edge = start(buffered_bytes_max=120_000)
    body = sized(300, type="track")
    batch = b'{"batch":[' + b",".join([body] * 300) + b"]}"
    holder = edge.wire().send(request("/v1/batch", batch)[:80_000])
    edge.until(lambda: edge.edge.counters.buffered_bytes > 70_000)
    second = edge.wire().send(request("/v1/batch", batch)[:80_000])
    assert second.answer().code == "overloaded"
    third = edge.wire().send(GET + b"X: " + b"a" * 50_000)
    assert third.answer().code == "overloaded"
    assert holder.send(request("/v1/batch", batch)[80_000:]).answer().json["accepted"] == 300
    edge.until(lambda: edge.edge.counters.buffered_bytes == 0)


def test_one_address_does_not_take_all_the_memory(start: Callable[..., Running]) -> None:
    """While one address holds all that unfinished requests may, another one's large body is taken."""
    edge = start(buffered_bytes_max=100_000)
    holder = edge.wire().send(request("/v1/batch", b" " * 200_000)[:74_000])
    edge.until(lambda: edge.edge.counters.buffered_bytes > 70_000)
    batch = b'{"batch":[' + b",".join([sized(300, type="track")] * 100) + b"]}"
    other = edge.wire("127.0.0.2").send(request("/v1/batch", batch)[:25_000])
    edge.until(lambda: edge.edge.counters.buffered_bytes > 90_000)
    assert other.send(request("/v1/batch", batch)[25_000:]).answer().json["accepted"] == 100
    holder.send(b" " * 10_000)
    assert holder.answer().code == "overloaded"


def test_a_client_that_reads_no_answers_is_dropped(start: Callable[..., Running]) -> None:
    """Unread answers stop the reading of requests, and after thirty seconds end the connection."""
    edge = start()
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    client.connect(edge.address)
    client.setblocking(False)
    asked = GET_WHOLE * 500
    edge.until(lambda: edge.edge.counters.open_connections)
    stalled = 0
    while stalled < 200:
        try:
            client.send(asked)
            stalled = 0
        except BlockingIOError:
            stalled += 1
            edge.call(lambda: None)
    answered = edge.edge.counters.requests[b"200"]

    def dropped() -> bool:
        edge.pass_seconds(31)  # again, where it stopped to read only after the clock was turned
        return edge.call(lambda: edge.edge.counters.open_connections) == 0

    wait_until(dropped)
    assert edge.edge.counters.requests[b"200"] <= answered + 500
    client.close()


def test_between_requests_too_unread_answers_have_thirty_seconds(start: Callable[..., Running]) -> None:
    """No half of a request is there whose own limit would end the connection."""
    edge = start()
    wire = edge.wire().send(GET_WHOLE)
    assert wire.answer().status == 200
    (client,) = edge.edge._clients._open
    edge.call(client.pause_writing)  # as the transport does when its buffer is full
    edge.pass_seconds(29)
    assert edge.call(lambda: edge.edge.counters.open_connections) == 1
    edge.pass_seconds(2)
    edge.until(lambda: edge.edge.counters.open_connections == 0)


def test_whole_requests_behind_unread_answers_give_no_more_time(start: Callable[..., Running]) -> None:
    """What was read together with the request whose answer is not read changes nothing about the thirty seconds."""
    edge = start()
    wire = edge.wire().send(GET_WHOLE)
    assert wire.answer().status == 200
    (client,) = edge.edge._clients._open

    def receive() -> None:
        client.pause_writing()  # as the transport does when its buffer is full
        client.data_received(GET_WHOLE * 2)

    edge.call(receive)
    edge.pass_seconds(31)
    edge.until(lambda: edge.edge.counters.open_connections == 0)


def test_unread_answers_are_bounded(start: Callable[..., Running]) -> None:
    """They count like unfinished requests; a client that leaves more of them unread than that is closed."""
    edge = start(buffered_bytes_max=1_000_000)
    batch = zipped({"batch": [0] * 2_500})  # the answer is two thousand times as long
    wire = edge.wire().send(request("/v1/batch", batch, Content_Encoding="gzip") * 100)
    edge.until(lambda: edge.edge.counters.connections == 1 and edge.edge.counters.open_connections == 0)
    assert edge.edge.counters.buffered_bytes == 0
    wire.socket.close()


def test_a_reset_while_waiting_harms_nobody(start: Callable[..., Running]) -> None:
    """An answer to a connection that was reset goes nowhere; the others of the same commit get theirs."""
    edge = start()
    edge.memory.hold = True
    gone, stays = edge.wire(), edge.wire()
    gone.send(request("/v1/track", TRACK))
    edge.until(lambda: len(edge.memory.held) == 1)
    stays.send(request("/v1/track", TRACK))
    edge.until(lambda: len(edge.memory.held) == 2)
    gone.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    gone.socket.close()
    edge.until(lambda: edge.edge.counters.open_connections == 1)
    edge.call(edge.memory.release)
    edge.call(edge.memory.release)
    assert stays.answer().status == 200


def test_a_refused_client_still_sees_its_answer(edge: Running) -> None:
    """A body that is too large is read to its end and dropped before it is answered, and the connection lives on."""
    head = b"POST /v1/track HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000000\r\n\r\n"
    wire = edge.wire().send(head)
    for _ in range(60):
        wire.socket.sendall(b"x" * 50_000)
        assert edge.edge.counters.buffered_bytes < 100_000
    assert wire.answer().status == 413
    assert wire.send(request("/v1/track", TRACK)).answer().status == 200


def test_a_body_beyond_all_measure_is_answered_and_left(start: Callable[..., Running]) -> None:
    """Of a body above ``collect.refused_body_max`` no more than that is read; who looks for the answer finds it."""
    edge = start(settings=Settings(collect=Collect(refused_body_max=Bytes(1_000_000))))
    wire = edge.wire().send(b"POST /v1/track HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
    wire.send(b"f4240\r\n" + b"x" * 1_000_000 + b"\r\n" + b"10000\r\n" + b"x" * 65_536)
    answer = wire.answer()
    assert (answer.status, answer.headers["connection"]) == (413, "close")
    edge.pass_seconds(6)
    edge.until(lambda: edge.edge.counters.open_connections == 0)


def test_a_refused_body_that_does_not_end_is_answered_soon(start: Callable[..., Running]) -> None:
    """After five seconds the answer goes out, however little of the body has come."""
    edge = start()
    wire = edge.wire().send(b"POST /v1/track HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000000\r\n\r\n")
    wire.send(b"x" * 200_000)
    edge.until(lambda: edge.edge._clients._open and all(each._size > 150_000 for each in edge.edge._clients._open))  # type: ignore[attr-defined]
    edge.pass_seconds(6)
    assert wire.answer().status == 413


def test_lingering_ends(start: Callable[..., Running]) -> None:
    """A refused client that never closes its side is cut off soon."""
    edge = start()
    wire = edge.wire().send(b"junk\r\n\r\n")
    assert wire.answer().status == 400
    edge.pass_seconds(6)
    edge.until(lambda: edge.edge.counters.open_connections == 0)


def test_the_first_to_connect_ends_the_quiet(start: Callable[..., Running]) -> None:
    """While nobody is connected the coarse clock may stand still; it is right again before anybody is timed by it."""
    running = start()
    calls: list[bool] = []
    running.edge.on_client = lambda: calls.append(running.edge.is_quiet)
    running.until(lambda: running.edge.is_quiet)
    running.clock.ahead_seconds += 3600
    wire = running.wire().send(GET + b"\r\n")
    assert (wire.answer().status, calls) == (200, [False])
    running.pass_seconds(1)
    assert wire.send(GET + b"\r\n").answer().status == 200
