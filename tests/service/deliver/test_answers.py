"""Receivers that misbehave: each gets the outcome it deserves, none costs memory, none is trusted twice."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tests.service.deliver.hostile import (
    Behaviour,
    HostileReceiver,
    answering,
    answering_and_closing,
    close_in_head,
    close_without_reply,
    dripping,
    endless,
    never_answer,
    refused_port,
    reset_after_request,
    reset_in_head,
    reset_on_accept,
)
from tests.service.deliver.per_case import Cases, service_per_case

# What loopback sockets may hold on both sides when the reader stops at once.
SOCKET_BUFFERS_BYTES = 16 * 1024**2
GROWTH_BYTES_MAX = 16 * 1024**2
ERROR_CHARACTERS_MAX = 2_048
OK = "HTTP/1.1 200 OK\nContent-Length: 0"


@dataclass(frozen=True)
class Case:
    """What a receiver does, and what ``why`` must say of the first attempt."""

    name: str
    behave: Behaviour
    outcome: str
    status: int | None = None


FAILING = [
    Case("resetonaccept", reset_on_accept, "connection_failed"),
    Case("resetafterrequest", reset_after_request, "connection_failed"),
    Case("resetinhead", reset_in_head, "connection_failed"),
    Case("closewithoutreply", close_without_reply, "connection_failed"),
    Case("closeinhead", close_in_head, "connection_failed"),
    Case("neveranswer", never_answer, "timed_out"),
    Case("driphead", dripping(b"HTTP/1.1 200 OK\r\n", b"X", 0.2), "timed_out"),
    Case("dripheaders", dripping(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n", 0.2), "timed_out"),
    Case("dripinterim", dripping(b"", b"HTTP/1.1 102 Processing\r\n\r\n", 0.3), "timed_out"),
    Case("endlessheaders", endless(b"HTTP/1.1 200 OK\r\n", b"X-More: and more\r\n"), "bad_response"),
    Case("endlessline", endless(b"HTTP/1.1 200 OK\r\nX-Long: ", b"x"), "bad_response"),
    Case("endlessreason", endless(b"HTTP/1.1 200 ", b"OK "), "bad_response"),
    Case("longline", answering(f"{OK}\nX-Long: {'x' * 65_536}"), "bad_response"),
    Case("interimflood", endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), "bad_response"),
    Case("garbage", answering_and_closing("SSH-2.0-OpenSSH_9.9"), "bad_response"),
    Case("binary", endless(b"", bytes(range(256))), "bad_response"),
    Case("htmlonly", answering_and_closing("<html>hello</html>"), "bad_response"),
    Case("badversion", answering_and_closing("HTTP/9.9 200 OK\nContent-Length: 0"), "bad_response"),
    Case("badstatus", answering_and_closing("HTTP/1.1 2OO OK\nContent-Length: 0"), "bad_response"),
    Case("hugestatus", answering_and_closing("HTTP/1.1 99999999999999999999 OK"), "bad_response"),
    Case("http2", answering_and_closing("HTTP/2 200\nContent-Length: 0"), "bad_response"),
    Case("switching", answering("HTTP/1.1 101 Switching\nUpgrade: websocket\nConnection: Upgrade"), "bad_response"),
    Case("error500", endless(b"HTTP/1.1 500 No\r\nContent-Length: 1073741824\r\n\r\n", b"e"), "server_error", 500),
    Case("bombed500", answering("HTTP/1.1 500 No\nContent-Length: 4\n", b"\x00\xff\r\n"), "server_error", 500),
]
"""Receivers whose first attempt fails."""

TAKING = [
    Case("nocontent", answering("HTTP/1.1 204 No Content"), "success", 204),
    Case("accepted", answering("HTTP/1.1 202 Accepted\nContent-Length: 2", b"ok"), "success", 202),
    Case("teapot299", answering("HTTP/1.1 299 Odd\nContent-Length: 0"), "success", 299),
    Case("noreason", answering("HTTP/1.1 200\nContent-Length: 0"), "success", 200),
    Case("closing", answering_and_closing("HTTP/1.1 200 OK\nContent-Length: 0\nConnection: close"), "success", 200),
    Case("http10", answering_and_closing("HTTP/1.0 200 OK\nContent-Type: text/plain", b"until close"), "success", 200),
    Case("http10keep", answering("HTTP/1.0 200 OK\nContent-Length: 0\nConnection: keep-alive"), "success", 200),
    Case("oneinterim", answering(f"HTTP/1.1 103 Early Hints\nLink: x\n\n{OK}"), "success", 200),
    Case("chunked", answering("HTTP/1.1 200 OK\nTransfer-Encoding: chunked", b"2\r\nok\r\n0\r\n\r\n"), "success", 200),
    Case("gigabyte", endless(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n", b"g"), "success", 200),
    Case(
        "endlesschunks",
        endless(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        "success",
        200,
    ),
    Case("untilclose", endless(b"HTTP/1.1 200 OK\r\n\r\n", b"for ever "), "success", 200),
    Case("twolengths", answering(f"{OK}\nContent-Length: 5", b"five!"), "success", 200),
    Case("lengthandchunks", answering(f"{OK}\nTransfer-Encoding: chunked", b"0\r\n\r\n"), "success", 200),
    Case("badchunk", answering("HTTP/1.1 200 OK\nTransfer-Encoding: chunked", b"zz\r\n"), "success", 200),
    Case("bodyofnocontent", answering("HTTP/1.1 204 No Content\nContent-Length: 2", b"ok"), "success", 204),
    Case("longbody", answering("HTTP/1.1 200 OK\nContent-Length: 2", b"longer than said"), "success", 200),
    Case("shortbody", answering_and_closing("HTTP/1.1 200 OK\nContent-Length: 500", b"short"), "success", 200),
    Case("hangingbody", answering("HTTP/1.1 200 OK\nContent-Length: 500", b"short"), "success", 200),
    Case(
        "gzipbomb",
        answering(
            f"HTTP/1.1 200 OK\nContent-Encoding: gzip\nContent-Length: {len(gzip.compress(bytes(10**7)))}",
            gzip.compress(bytes(10**7)),
        ),
        "success",
        200,
    ),
]
"""Receivers whose status line is a success, whatever they do after it: it decides."""


@pytest.fixture(scope="module")
def receivers() -> Iterator[dict[str, HostileReceiver]]:
    """The receiver of each case."""
    with ExitStack() as stack:
        yield {case.name: stack.enter_context(HostileReceiver(case.behave)) for case in FAILING + TAKING}


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory, receivers: dict[str, HostileReceiver]) -> Iterator[Cases]:
    """One service with all of them, and a port where nobody listens."""
    with refused_port() as port:
        urls = {name: [receiver.url()] for name, receiver in receivers.items()}
        urls["refusing"] = [f"http://127.0.0.1:{port}/hook"]
        with service_per_case(tmp_path_factory.mktemp("answers"), urls) as running:
            yield running


@pytest.fixture(scope="module")
def sent(cases: Cases) -> dict[str, str]:
    """One event for every case, all at once: the messageIds by case."""
    return {name: cases.send(name) for name in ["refusing", *(case.name for case in FAILING + TAKING)]}


@pytest.fixture(scope="module")
def rss_before_bytes(cases: Cases) -> int:
    """What deliver took before the first event."""
    return cases.deliver_rss_bytes()


def test_all_at_once_cost_no_memory(rss_before_bytes: int, cases: Cases, sent: dict[str, str]) -> None:
    """Gigabytes, endless heads and bombs side by side, tried again and again, leave deliver as small as it was."""
    for case in FAILING:
        cases.wait_attempts(case.name, sent[case.name], 3)
    assert cases.deliver_rss_bytes() - rss_before_bytes < GROWTH_BYTES_MAX


def test_a_port_that_refuses_is_a_failed_connection_and_tried_again(cases: Cases, sent: dict[str, str]) -> None:
    """Connection refused is retryable."""
    attempts = cases.wait_attempts("refusing", sent["refusing"], 2)
    assert {attempt["outcome"] for attempt in attempts} == {"connection_failed"}
    assert attempts[0]["httpStatus"] is None


@pytest.mark.parametrize("case", FAILING, ids=lambda case: case.name)
def test_a_misbehaving_receiver_has_its_outcome_and_is_tried_again(
    case: Case, cases: Cases, sent: dict[str, str], receivers: dict[str, HostileReceiver]
) -> None:
    """The attempt fails with the outcome of the closed set, is retried, and reads a bounded answer."""
    attempts = cases.wait_attempts(case.name, sent[case.name], 2)
    assert (attempts[0]["outcome"], attempts[0]["httpStatus"]) == (case.outcome, case.status)
    assert cases.part(case.name, sent[case.name])["status"] == "retrying"
    assert len(attempts[0]["error"] or "") <= ERROR_CHARACTERS_MAX
    assert receivers[case.name].sent_bytes < SOCKET_BUFFERS_BYTES * receivers[case.name].connections


@pytest.mark.parametrize("case", TAKING, ids=lambda case: case.name)
def test_a_success_is_decided_by_the_status_line(
    case: Case, cases: Cases, sent: dict[str, str], receivers: dict[str, HostileReceiver]
) -> None:
    """Any 2xx delivers the event once, and the body that follows is neither waited for nor collected."""
    part = cases.hookline.wait_status(sent[case.name], case.name, "delivered")
    assert [(a["outcome"], a["httpStatus"]) for a in part["attempts"]] == [("success", case.status)]
    receiver = receivers[case.name]
    assert len(receiver.connections_of(sent[case.name])) == 1
    assert receiver.sent_bytes < SOCKET_BUFFERS_BYTES * receiver.connections


@pytest.mark.parametrize("name", ["nocontent", "accepted", "http10keep", "chunked", "oneinterim"])
def test_a_connection_left_clean_is_used_again(name: str, cases: Cases, receivers: dict[str, HostileReceiver]) -> None:
    """Keep-alive: two events in a row travel on one connection."""
    first, second = _send_two(cases, name)
    receiver = receivers[name]
    assert receiver.connections_of(first) == receiver.connections_of(second)


@pytest.mark.parametrize(
    "name", ["closing", "http10", "untilclose", "gigabyte", "endlesschunks", "shortbody", "hangingbody"]
)
def test_a_connection_that_is_not_clean_is_not_used_again(
    name: str, cases: Cases, receivers: dict[str, HostileReceiver]
) -> None:
    """The next event travels on a connection of its own."""
    first, second = _send_two(cases, name)
    receiver = receivers[name]
    assert receiver.connections_of(first) != receiver.connections_of(second)


def test_no_compressed_answer_is_asked_for(cases: Cases, receivers: dict[str, HostileReceiver]) -> None:
    """Without Accept-Encoding a receiver has no leave to compress."""
    message_id = cases.send("gzipbomb")
    cases.hookline.wait_status(message_id, "gzipbomb", "delivered")
    assert b"accept-encoding" not in receivers["gzipbomb"].requests[-1][2].lower()


def _send_two(cases: Cases, name: str) -> tuple[str, str]:
    """Two events, the second sent when the first is delivered."""
    first = cases.send(name)
    cases.hookline.wait_status(first, name, "delivered")
    second = cases.send(name)
    cases.hookline.wait_status(second, name, "delivered")
    return first, second
