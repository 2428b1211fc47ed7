"""What fuzzing has found, kept small."""

from __future__ import annotations

from tests.fuzz.bare_edge import BareEdge
from tests.fuzz.wire_answers import read_answers
from tests.unit.collect.wire import TRACK, request

GOOD = request("/v1/track", TRACK)


def statuses(*pieces: bytes) -> list[int]:
    """The answers to what a client sends in these pieces."""
    return [answer.status for answer in read_answers(BareEdge().talk(list(pieces)))]


def test_an_empty_line_between_requests_may_be_cut_in_two() -> None:
    """CR LF after a body is passed over (RFC 9112 2.2), also when the network brings the LF by itself."""
    assert statuses(GOOD, b"\r", b"\n" + GOOD) == [200, 200]
    assert statuses(GOOD, b"\n" + GOOD) == [200, 400]


def test_what_follows_a_connect_is_not_left_without_an_answer() -> None:
    """The parser reads nothing after CONNECT: the connection is closed instead of left waiting."""
    assert statuses(b"CONNECT /v1/track HTTP/1.1\r\nHost: h\r\n\r\n" + GOOD) == [400]
