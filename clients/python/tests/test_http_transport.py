"""Requests on the wire, and every way in which a service can fail to answer."""

from __future__ import annotations

import base64
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from email.utils import formatdate
from typing import Any

import pytest

from hookline_client import http_transport
from hookline_client.answer import Answer, read_answer, retry_after
from hookline_client.deadline import connect
from hookline_client.endpoint import parse_endpoint
from hookline_client.http_transport import HttpTransport
from hookline_client.receipts import Message
from scripted_service import Reply, ScriptedService, wait_until

BATCH: list[Message] = [("a", b'{"type":"track","messageId":"a"}'), ("b", b'{"type":"track","messageId":"b"}')]


def transport_to(service: ScriptedService, timeout_seconds: float = 10.0, **more: Any) -> HttpTransport:
    """A transport as the options make it."""
    return HttpTransport("wk_site", parse_endpoint(service.url, True), timeout_seconds, **more)


def test_a_batch_is_one_post(service: ScriptedService) -> None:
    """The key as Basic user name, the events as they are, the time of sending for skew."""
    assert transport_to(service).send(BATCH) == Answer(200)
    post = service.posts[0]
    assert post.path == "/v1/batch"
    assert post.headers["authorization"] == "Basic " + base64.b64encode(b"wk_site:").decode()
    assert post.headers["content-type"] == "application/json"
    assert post.headers["user-agent"].startswith("hookline-python/")
    assert [event["messageId"] for event in post.batch] == ["a", "b"]
    assert b'"sentAt":"20' in post.body


def test_a_path_before_the_api_is_kept(service: ScriptedService) -> None:
    """Behind a proxy the service may be in a folder."""
    HttpTransport("wk", parse_endpoint(f"{service.url}/hooks", True), 10.0).send(BATCH)
    assert service.posts[0].path == "/hooks/v1/batch"


def test_gzip(service: ScriptedService) -> None:
    """Said in the header, and only then."""
    transport_to(service, gzip=True).send(BATCH)
    assert service.posts[0].headers["content-encoding"] == "gzip"
    assert [event["messageId"] for event in service.events] == ["a", "b"]


def test_one_connection_serves_many_batches(service: ScriptedService) -> None:
    """A new one for each would cost more than the batch."""
    transport = transport_to(service)
    for _ in range(3):
        transport.send(BATCH)
    assert {post.connection for post in service.posts} == {1}


def test_a_connection_closed_while_idle_is_no_failure(service: ScriptedService) -> None:
    """The next batch goes on a new one at once."""
    service.script = [Reply(fault="close")]
    transport = transport_to(service)
    assert transport.send(BATCH) == Answer(200)
    assert transport.send(BATCH) == Answer(200)
    assert [post.connection for post in service.posts] == [1, 2]


@pytest.mark.parametrize("headers", [{}, {"Connection": "close"}])
def test_an_answer_that_ends_with_its_connection_is_read(headers: dict[str, str]) -> None:
    """As of a proxy that keeps no connection: the body comes after the head, and has no length."""
    with ScriptedService(Reply(headers=headers, fault="until_close")) as service:
        transport = transport_to(service)
        assert transport.send(BATCH) == Answer(200)
        assert transport.send(BATCH) == Answer(200)
    assert [post.connection for post in service.posts] == [1, 2]


def test_close_ends_a_body_that_never_comes() -> None:
    """The head says that the connection ends with the body, and then nothing comes."""
    with ScriptedService(Reply(fault="hang", before=b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")) as service:
        transport, answers = transport_to(service, timeout_seconds=3000), []
        thread = threading.Thread(target=lambda: answers.append(transport.send(BATCH)), daemon=True)
        thread.start()
        wait_until(lambda: service.posts)
        time.sleep(0.1)  # usually enough for the head; without it this is the test above
        transport.close()
        thread.join(5)
    assert [answer.retryable for answer in answers] == [True]


@pytest.mark.parametrize("status", [100, 102, 103])
def test_what_comes_before_an_answer_is_passed_over(status: int) -> None:
    """Hints of a proxy are no answer, and the next request gets its own."""
    before = b"HTTP/1.1 %d X\r\nLink: </a.css>\r\n\r\n" % status
    refusal = Reply(401, {"success": False, "code": "unknown_write_key", "message": "No."}, before=before)
    with ScriptedService(Reply(before=before), refusal) as service:
        transport = transport_to(service)
        assert transport.send(BATCH) == Answer(200)
        assert transport.send(BATCH).code == "unknown_write_key"
    assert [post.connection for post in service.posts] == [1, 1]


def test_rejected_events_are_told() -> None:
    """Whatever else is in the list is passed over."""
    rejected = [{"index": 1, "messageId": "b", "code": "missing_event", "message": "No event."}, {"index": "x"}, 3]
    with ScriptedService(Reply(body={"success": True, "accepted": 1, "rejected": rejected})) as service:
        assert transport_to(service).send(BATCH).rejected == ((1, "missing_event", "No event."),)


@pytest.mark.parametrize(
    ("reply", "code", "retryable"),
    [
        (Reply(401, {"success": False, "code": "unknown_write_key", "message": "No."}), "unknown_write_key", False),
        (Reply(503, {"success": False, "code": "overloaded", "message": "Later."}), "overloaded", True),
        (Reply(429, b""), "throttled", True),
        (Reply(502, b"<html>"), "server_error", True),
        (Reply(501, b""), "server_error", False),
        (Reply(404, b"<html>"), "refused", False),
        (Reply(301, b"", {"Location": "/"}), "unexpected_answer", False),
        (Reply(200, b"<html>"), "unexpected_answer", True),
        (Reply(200, b"OK"), "unexpected_answer", True),
        (Reply(200, [1]), "unexpected_answer", True),
        (Reply(200, {"success": False, "code": "odd", "message": "Odd."}), "odd", True),
        (Reply(fault="reset"), "connection_failed", True),
    ],
)
def test_every_answer_is_a_value(reply: Reply, code: str, retryable: bool) -> None:
    """Only 200 with success true is success: a page of another server must not swallow events."""
    with ScriptedService(reply) as service:
        answer = transport_to(service).send(BATCH)
    assert (answer.code, answer.retryable) == (code, retryable)
    assert answer.reason


@pytest.mark.parametrize("fault", ["hang", "drip"])
def test_an_answer_has_to_be_complete_in_time(fault: str) -> None:
    """A byte now and then does not begin the time anew."""
    with ScriptedService(Reply(fault=fault)) as service:
        answer = transport_to(service, timeout_seconds=0.3).send(BATCH)
        assert (answer.code, answer.retryable) == ("timed_out", True)
        assert transport_to(service).send(BATCH) == Answer(200)


def test_less_time_may_be_given() -> None:
    """At the end of a process."""
    with ScriptedService(Reply(fault="hang")) as service:
        assert transport_to(service, timeout_seconds=3000).send(BATCH, 0.05).code == "timed_out"


def test_nobody_there() -> None:
    """A refused connection and a name that does not exist are the same to a program."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    for host in (f"127.0.0.1:{port}", "name.invalid:1"):
        answer = HttpTransport("wk", parse_endpoint(f"http://{host}", True), 5.0).send(BATCH)
        assert (answer.code, answer.retryable) == ("connection_failed", True)


@pytest.fixture
def silent_address() -> Iterator[tuple[Any, ...]]:
    """An address as getaddrinfo gives them, where nobody answers to a connection, as behind a broken route."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, ExitStack() as waiting:
        for _ in range(3):  # more than it lets wait: it passes over all others
            filler = waiting.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield (socket.AF_INET, socket.SOCK_STREAM, 6, "", listener.getsockname())


@pytest.mark.parametrize("family", [socket.AF_INET, 99])
def test_an_address_that_does_not_answer_leaves_time_for_the_next(
    service: ScriptedService, silent_address: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch, family: int
) -> None:
    """A host with an IPv6 address that nothing reaches, or in a system without IPv6: the answer is heard of."""
    addresses = [(family, *silent_address[1:]), *socket.getaddrinfo("127.0.0.1", service.port, type=socket.SOCK_STREAM)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: addresses)
    assert transport_to(service, timeout_seconds=2.0).send(BATCH) == Answer(200)
    assert len(service.posts) == 1


def test_an_answer_before_the_end_of_the_request_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy with a limit of its own answers 413 and hangs up while the batch is still being written."""

    def with_small_buffer(*arguments: Any) -> socket.socket:
        sock = connect(*arguments)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8_192)
        return sock

    def refuse() -> None:
        sock, _ = listener.accept()
        with sock:
            sock.recv(1_000)
            sock.sendall(b"HTTP/1.1 413 Payload Too Large\r\nContent-Length: 0\r\n\r\n")

    monkeypatch.setattr(http_transport, "connect", with_small_buffer)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_192)
        threading.Thread(target=refuse).start()
        endpoint = parse_endpoint(f"http://127.0.0.1:{listener.getsockname()[1]}", True)
        answer = HttpTransport("wk", endpoint, 10.0).send([("a", b'"%400000d"' % 0)])
    assert (answer.status, answer.retryable) == (413, False)


def test_what_is_not_http_is_told() -> None:
    """Another service at the port."""
    with ScriptedService(Reply()) as service:
        service._answer = lambda sock, reply: sock.sendall(b"SSH-2.0-OpenSSH\r\n")  # type: ignore[method-assign]
        assert transport_to(service).send(BATCH).code == "unexpected_answer"


@pytest.mark.parametrize("before", [0, 1])
def test_close_ends_a_request_that_waits(before: int) -> None:
    """From another thread, as the end of a process needs it; also on a used connection it is not repeated."""
    with ScriptedService(*[Reply()] * before, *[Reply(fault="hang")] * 2) as service:
        transport, answers = transport_to(service, timeout_seconds=3000), []
        for _ in range(before):
            assert transport.send(BATCH) == Answer(200)
        thread = threading.Thread(target=lambda: answers.append(transport.send(BATCH)), daemon=True)
        thread.start()
        wait_until(lambda: len(service.posts) > before)
        transport.close()
        thread.join(5)
        assert [answer.code for answer in answers] in (["connection_failed"], ["unexpected_answer"])
        assert len(service.posts) == before + 1


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("7", 7.0),
        ("9" * 400, float("inf")),
        ("soon", None),
        ("", None),
        ("-5", None),
        ("1.5", None),
        ("\u00b2", None),
        ("Mon, 01 Jan 2024 00:00:00 +999999999999999999", None),
        (formatdate(0, usegmt=True), 0.0),
    ],
)
def test_retry_after_in_both_forms(header: str | None, seconds: float | None) -> None:
    """Seconds or a date; one in the past is now, and what is neither is nothing."""
    assert retry_after(header) == seconds


@pytest.mark.parametrize("form", ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"])
def test_retry_after_as_a_date(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The seconds until then. All three forms that HTTP knows are in UTC, whatever the time of the machine is."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        pause = retry_after(time.strftime(form, time.gmtime(time.time() + 60)))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert pause is not None
    assert 0 < pause <= 60


def test_an_answer_that_is_nested_too_deep_is_judged_by_its_status() -> None:
    """Words of a broken proxy are no reason to lose a batch."""
    answer = read_answer(503, b"[" * 100_000, None)
    assert (answer.code, answer.retryable) == ("server_error", True)


def test_retry_after_is_read_from_an_answer() -> None:
    """429 and 503 carry it."""
    with ScriptedService(Reply(429, {"success": False}, {"Retry-After": "12"})) as service:
        assert transport_to(service).send(BATCH).retry_after_seconds == 12.0
