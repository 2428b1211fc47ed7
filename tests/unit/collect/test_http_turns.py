"""Answers come in the order of the requests, connections live on where they may, and stopping loses no answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

import pytest

from hookline.collect.decode import PIPELINED_MAX
from hookline.collect.http.connection import Connection
from hookline.journal.port import JournalBusy, JournalFailed, JournalFull
from tests.unit.collect.wire import KEY, SNAPSHOT, TRACK, Running, Wire, basic, request, sized

GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def test_pipelined_answers_keep_their_order(start: Callable[..., Running]) -> None:
    """Three requests in one packet are answered in turn, though the disk confirms the last one first."""
    edge = start()
    edge.memory.hold = True
    calls = [request("/v1/track", {**TRACK, "messageId": f"m{number}"}) for number in range(3)]
    wire = edge.wire().send(b"".join(calls) + GET)
    edge.until(lambda: len(edge.memory.held) == 3)
    for position in (2, 1, 0):
        edge.call(edge.memory.release, position)
    assert [wire.answer().json["messageId"] for _ in range(3)] == ["m0", "m1", "m2"]
    assert wire.answer().json == {"status": "alive"}


def test_a_flood_of_pipelined_requests_waits_outside(start: Callable[..., Running]) -> None:
    """While answers are owed no more is read than one read's worth; afterwards the rest is, and none is forgotten."""
    edge = start()
    edge.memory.hold = True
    wire, names = edge.wire(), [f"m{number}" for number in range(8_000)]
    calls = b"".join(request("/v1/track", {**TRACK, "messageId": name}) for name in names)
    sender = threading.Thread(target=wire.send, args=(calls,))
    sender.start()
    edge.until(lambda: len(edge.memory.held) >= PIPELINED_MAX)
    for _ in range(100):
        edge.call(lambda: None)
    assert len(edge.memory.held) < len(names) / 2
    edge.memory.hold = False
    while edge.memory.held:
        edge.call(edge.memory.release)
    assert [wire.answer().json["messageId"] for _ in names] == names
    sender.join()


def test_one_read_holds_no_more_requests_than_may_be_unanswered(start: Callable[..., Running]) -> None:
    """What is behind them in the same read is kept, counted, and looked at once answers were written."""
    edge = start()
    wire = edge.wire().send(GET)
    wire.answer()
    (client,) = edge.edge._clients._open
    edge.memory.hold = True
    names = [f"m{number}" for number in range(200)]
    calls = b"".join(request("/v1/track", {**TRACK, "messageId": name}) for name in names)
    assert edge.call(lambda: client.data_received(calls) or len(edge.memory.held)) == PIPELINED_MAX
    assert edge.edge.counters.buffered_bytes > 0
    edge.memory.hold = False
    while edge.memory.held:
        edge.call(edge.memory.release)
    assert [wire.answer().json["messageId"] for _ in names] == names
    assert edge.edge.counters.buffered_bytes == 0


def test_requests_that_are_answered_at_once_share_the_turns(start: Callable[..., Running]) -> None:
    """One read full of them does not keep others waiting until it is through."""
    edge = start()
    wire = edge.wire().send(GET)
    wire.answer()
    (client,) = edge.edge._clients._open
    answered = edge.edge.counters.requests
    assert edge.call(lambda: client.data_received(GET * 1_000) or answered[b"200"]) == 1 + PIPELINED_MAX
    assert [wire.answer().status for _ in range(1_000)] == [200] * 1_000


def test_what_one_read_held_is_counted_and_bounded(start: Callable[..., Running]) -> None:
    """Beyond the room for what is not taken yet, the connection is 503 behind the answers that it is owed."""
    edge = start(buffered_bytes_max=10_000)
    edge.memory.hold = True
    wire = edge.wire().send(request("/v1/track", TRACK) * 200)
    edge.until(lambda: len(edge.memory.held) >= PIPELINED_MAX)
    edge.memory.hold = False
    while edge.memory.held:
        edge.call(edge.memory.release)
    statuses = []
    while not statuses or statuses[-1] == 200:
        statuses.append(wire.answer().status)
    assert statuses[-1] == 503
    assert wire.closed()
    assert edge.edge.counters.buffered_bytes == 0


def test_no_head_waits_with_its_answer(start: Callable[..., Running]) -> None:
    """While the disk is waited for, nothing is kept of heads, which no bound counts any more; nor of those behind it
    that are refused."""
    edge = start()
    edge.memory.hold = True
    far = "1" * 60_000
    calls = (
        request("/v1/track?x=" + "x" * 1_000, TRACK, X_Forwarded_For=far),
        request("/" + "x" * 1_000, TRACK, X_Forwarded_For=far),
        request("/v1/track", b"x" * 100_000, X_Forwarded_For=far),
        request("/v1/track", TRACK, X_Forwarded_For=far, Transfer_Encoding="gzip"),
    )
    wire = edge.wire().send(b"".join(calls))
    edge.until(lambda: edge.edge._clients._open)
    (client,) = edge.edge._clients._open
    edge.until(lambda: len(client._queue) == len(calls) and all(each.answer for each in list(client._queue)[1:]))
    assert [each.head_bytes for each in client._queue] == [0] * len(calls)
    edge.call(edge.memory.release)
    assert [wire.answer().status for _ in calls] == [200, 404, 413, 400]


def test_a_malformed_request_waits_its_turn(start: Callable[..., Running]) -> None:
    """The 400 for the second request comes after the first one's answer, then the connection closes."""
    edge = start()
    edge.memory.hold = True
    wire = edge.wire().send(request("/v1/track", TRACK) + b"junk\r\n\r\n")
    edge.until(lambda: edge.memory.held)
    edge.call(edge.memory.release)
    assert [wire.answer().status, wire.answer().status] == [200, 400]
    assert wire.closed()


def test_a_client_that_shuts_its_side_gets_its_answer(start: Callable[..., Running]) -> None:
    """Half-closing after the request, as simple tools do, costs no answer."""
    edge = start()
    edge.memory.hold = True
    wire = edge.wire().send(request("/v1/track", TRACK))
    wire.socket.shutdown(socket.SHUT_WR)
    edge.until(lambda: edge.memory.held)
    edge.call(edge.memory.release)
    assert (wire.answer().status, wire.closed()) == (200, True)


def test_connection_close_is_honoured(edge: Running) -> None:
    """Connection: close is answered in kind and closed; what comes after it is not looked at."""
    wire = edge.wire().send(request("/v1/track", TRACK, Connection="close") + request("/v1/track", TRACK))
    answer = wire.answer()
    assert (answer.status, answer.headers["connection"]) == (200, "close")
    assert wire.closed()
    assert len(edge.memory.records) == 1


def test_http_1_0_lives_on_only_when_asked(edge: Running) -> None:
    """HTTP/1.0 closes after the answer unless keep-alive was asked for, and then the answer says so."""
    wire = edge.wire().send(b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    assert wire.answer().headers["connection"] == "keep-alive"
    assert wire.send(b"GET /healthz HTTP/1.0\r\n\r\n").answer().headers["connection"] == "close"
    assert wire.closed()


def test_expect_100_continue_is_answered_before_the_body(edge: Running) -> None:
    """A client that asks first is told to go on, then gets its answer."""
    head, _, body = request("/v1/track", TRACK, Expect="100-continue").partition(b"\r\n\r\n")
    wire = edge.wire().send(head + b"\r\n\r\n")
    assert wire.answer(head_only=True).status == 100
    assert wire.send(body).answer().status == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": basic("wrong:"), "Expect": "100-continue"}, 401),
        ({"Authorization": basic(KEY), "Expect": "100-continue", "Content-Length": "32769"}, 413),
        ({"Authorization": basic(KEY), "Expect": "200-maybe"}, 417),
        ({"Authorization": basic(KEY), "Expect": "100-continue", "Content-Encoding": "br"}, 415),
    ],
)
def test_expect_gets_the_final_answer_at_once(edge: Running, headers: dict[str, str], status: int) -> None:
    """What the head alone decides is answered without the body, and the connection closes."""
    fields = {"Host": "localhost", "Content-Length": "10", **headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    wire = edge.wire().send(f"POST /v1/track HTTP/1.1\r\n{lines}\r\n".encode())
    assert (wire.answer().status, wire.closed()) == (status, True)


@pytest.mark.parametrize("path", ["/nowhere", "/v1/track", "/healthz"])
def test_a_refused_body_is_read_past(edge: Running, path: str) -> None:
    """A refusal settled by the head leaves the connection in order: the next request is read from its start."""
    wire = edge.wire().send(request(path, sized(20_000), key="wrong") + GET)
    assert wire.answer().status in (401, 404, 405)
    assert wire.answer().json == {"status": "alive"}


def test_head_requests_get_no_body(edge: Running) -> None:
    """HEAD on a probe has the length of the body but not the body."""
    wire = edge.wire().send(GET.replace(b"GET", b"HEAD"))
    assert int(wire.answer(head_only=True).headers["content-length"]) > 0
    assert wire.send(GET).answer().json == {"status": "alive"}


def test_stop_answers_what_was_asked(start: Callable[..., Running]) -> None:
    """Stopping closes idle connections at once and the waiting one after its answer; new ones find nobody."""
    edge = start()
    edge.memory.hold = True
    idle, waiting = edge.wire(), edge.wire()
    assert idle.send(GET).answer().status == 200
    waiting.send(request("/v1/track", TRACK))
    edge.until(lambda: edge.memory.held)
    stopping = threading.Thread(target=edge.stop)
    stopping.start()
    assert idle.closed()
    with pytest.raises(ConnectionRefusedError):
        edge.wire()
    edge.loop.call_soon_threadsafe(edge.memory.release)
    answer = waiting.answer()
    assert (answer.status, answer.headers["connection"]) == (200, "close")
    assert waiting.closed()
    stopping.join()


def test_stop_lets_a_request_under_way_finish(start: Callable[..., Running]) -> None:
    """A request whose body is still coming when the stop begins is read to its end and answered."""
    edge = start()
    data = request("/v1/track", TRACK)
    wire = edge.wire().send(data[:-5])
    edge.until(lambda: edge.edge.counters.buffered_bytes)
    stopping = threading.Thread(target=edge.stop)
    stopping.start()
    edge.until(lambda: edge.edge._clients.draining)
    assert wire.send(data[-5:]).answer().headers["connection"] == "close"
    assert wire.closed()
    stopping.join()


def test_what_arrives_while_others_are_closed_is_answered(
    start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many kept connections that call as the first of them is closed, only that one gets no answer."""
    edge = start()
    kept = [edge.wire().send(GET) for _ in range(50)]
    assert [wire.answer().status for wire in kept] == [200] * 50
    drain, drained = Connection.drain, []

    def call_then_drain(connection: Connection) -> None:
        drained.append(connection)
        if len(drained) == 1:
            for wire in kept:
                wire.send(GET)
        drain(connection)

    monkeypatch.setattr(Connection, "drain", call_then_drain)
    edge.stop()
    answers = [_answered(wire) for wire in kept]
    assert (answers.count("close"), answers.count(None)) == (49, 1)


def _answered(wire: Wire) -> str | None:
    try:
        return wire.answer().headers["connection"]
    except (EOFError, ConnectionResetError):
        return None


@pytest.mark.parametrize(
    ("error", "code"), [(JournalFull("full"), "journal_full"), (JournalFailed("EIO"), "journal_failed")]
)
def test_no_answer_but_503_when_nothing_is_stored(
    start: Callable[..., Running], error: BaseException, code: str
) -> None:
    """A journal that refuses makes singles and batches 503 with Retry-After, and readyz says so."""
    edge = start()
    edge.memory.error = error
    for path, body in (("/v1/track", TRACK), ("/v1/batch", {"batch": [{**TRACK, "type": "track"}]})):
        answer = edge.post(path, body)
        assert answer.status == 503
        assert answer.code in (code, "not_ready")
        assert 1 <= int(answer.headers["retry-after"]) <= 300
    assert edge.edge.counters.accepted == 0
    assert edge.ask(GET.replace(b"healthz", b"readyz")).status == 503
    assert edge.ask(GET).status == 200


def test_more_than_may_wait_for_the_disk_leaves_the_edge_ready(start: Callable[..., Running]) -> None:
    """It is 503 for what is too much; a balancer goes on sending the calls of others here."""
    edge = start()
    edge.memory.error = JournalBusy("busy")
    assert edge.post("/v1/track", TRACK).code == "journal_full"
    assert edge.ask(GET.replace(b"healthz", b"readyz")).status == 200


def test_a_full_journal_comes_back_by_itself(start: Callable[..., Running]) -> None:
    """After the advised wait readyz is 200 again without any traffic, and a resend is stored."""
    edge = start()
    edge.memory.error = JournalFull("full")
    assert edge.post("/v1/track", TRACK).code == "journal_full"
    edge.memory.error = None
    assert not edge.edge.ready
    edge.pass_seconds(6)
    assert edge.ask(GET.replace(b"healthz", b"readyz")).status == 200
    assert edge.post("/v1/track", TRACK).status == 200


def test_a_failed_journal_stays_failed(start: Callable[..., Running]) -> None:
    """After a failed synchronisation nothing is appended any more: this process has to go."""
    edge = start()
    edge.memory.error = JournalFailed("EIO")
    assert edge.post("/v1/track", TRACK).code == "journal_failed"
    edge.memory.error = None
    edge.pass_seconds(600)
    assert edge.post("/v1/track", TRACK).status == 503
    assert edge.memory.records == []


def test_nothing_is_taken_before_the_first_snapshot(start: Callable[..., Running]) -> None:
    """Without connections no key can be judged: 503, not 401, until they are there."""
    edge = start(snapshot=None)
    assert edge.post("/v1/track", TRACK).code == "not_ready"
    assert edge.ask(GET.replace(b"healthz", b"readyz")).status == 503
    edge.call(edge.edge.set_snapshot, SNAPSHOT)
    assert edge.ask(GET.replace(b"healthz", b"readyz")).json == {"status": "ready"}
    assert edge.post("/v1/track", TRACK).status == 200


def test_a_fault_of_ours_is_500_for_one_request_only(start: Callable[..., Running]) -> None:
    """An error nobody foresaw is answered 500 with a code, and the connection goes on."""
    edge = start()
    edge.memory.error = None
    append = edge.memory.append_soon
    edge.memory.append_soon = lambda records, done: 1 // 0  # type: ignore[method-assign, assignment]
    wire = edge.wire().send(request("/v1/track", TRACK))
    assert (first := wire.answer()).code == "internal_error"
    assert first.status == 500
    edge.memory.append_soon = append  # type: ignore[method-assign]
    assert wire.send(request("/v1/track", TRACK)).answer().status == 200
