"""What fuzzing has found, kept small."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hookline.connections.file import check_text
from hookline.deliver.send.answers import HEAD_BYTES_MAX
from hookline.kinds.mapping import MappingFailed
from hookline.kinds.model import Request
from hookline.kinds.requests import CompiledRequest, Rendered
from hookline.outcomes.outcome import Outcome, to_number
from tests.fuzz.bare_edge import BareEdge
from tests.fuzz.bare_sender import BareSender, Result
from tests.fuzz.wire_answers import read_answers
from tests.unit.collect.wire import TRACK, request
from tests.unit.control.running import Running

BAD_RESPONSE = to_number(Outcome.BAD_RESPONSE, None)
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


def test_the_end_of_an_answers_head_may_be_cut_in_two() -> None:
    """A short head is not taken for a long one because its last bytes come together with a long body."""
    head, body = b"HTTP/1.1 200 OK\r\nContent-Length: 90000\r\n\r\n", b"x" * 90_000
    for cut in range(1, 5):
        assert BareSender().exchange([[head[:-cut], head[-cut:] + body]], "closed") == [Result(200)]


def test_a_head_that_is_too_long_is_so_however_it_is_cut() -> None:
    """The bound holds for the head alone, to the byte."""
    for size, number in ((HEAD_BYTES_MAX, 200), (HEAD_BYTES_MAX + 1, BAD_RESPONSE)):
        start, end = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nX: ", b"\r\n\r\n"
        head = start + b"y" * (size - len(start) - len(end)) + end
        for cut in (1, 20_000, size - 2, size - 1, size):
            found = BareSender().exchange([[head[:cut], head[cut:] + b"x" * 9]], "closed")
            assert [result.number for result in found] == [number], (size, cut)


def test_a_head_of_forty_kilobytes_is_an_answer() -> None:
    """Cookies and policies make heads long; what was taken must not be sent again for it."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + b"Set-Cookie: a=b\r\n" * 2_400 + b"\r\n"
    assert [result.number for result in BareSender().exchange([[head[:30_000], head[30_000:] + b"ok"]], "closed")] == [
        200
    ]


def test_lines_may_end_with_a_bare_lf() -> None:
    """A receiver may leave the CR out (RFC 9112 2.2), of some lines or all, however the network cuts its answer; the
    connection is kept, and what a failure says is read."""
    for end in (b"\n", b"\r\n"):
        taken = end.join([b"HTTP/1.1 200 OK", b"Content-Length: 2", b"X: y\n\nok"])
        busy = end.join([b"HTTP/1.1 103 Soon\n\nHTTP/1.1 503 No", b"Retry-After: 7", b"Content-Length: 4", b"\nbusy"])
        for cut in range(1, len(taken)):
            pieces = [[taken[:cut], taken[cut:]], [busy]]
            first, second = BareSender().exchange(pieces, "closed")
            assert (first.number, second.number) == (200, 503), (end, cut)
            assert second.failure is not None
            assert second.failure[2:] == ("busy", b"7"), (end, cut)


def rendered(event: dict[str, Any], **parts: Any) -> Rendered:
    """What an event becomes by a request with these parts."""
    request = msgspec.convert({"name": "r", "url": "https://h.example.com/", **parts}, Request)
    return CompiledRequest(request, {}).render(event, bytes)


@pytest.mark.parametrize("given", ["text", 5, [1], None])
def test_a_form_without_fields_fails_with_its_place(given: object) -> None:
    """A directive that gives a form something else than fields fails for the event, and says why."""
    form = {"@path": "$.properties"}
    assert rendered({"properties": {"a": [1, "b"]}}, form=form).body == b"a=1&a=b"
    with pytest.raises(MappingFailed, match=r"^/form: fields with their names"):
        rendered({"properties": given}, form=form)


def test_half_a_character_in_a_query_or_form_is_a_question_mark() -> None:
    """As in a URL: JSON can write it, UTF-8 cannot."""
    half = {"@path": "$.event[0]"}
    made = rendered({"event": "\U0001f600"}, query={"q": half}, form={"f": half})
    assert (made.target, made.body) == ("/?q=%3F", b"f=%3F")


SOURCE = "sources: [{id: web, name: Web, writeKeys: [wk_web]}]\n"


@pytest.mark.parametrize("scalar", ["1" + ":1" * 200 + ".0", "1" + ":1" * 5_000, "!!bool maybe", '!!int ""'])
def test_a_yaml_scalar_that_is_not_what_it_looks_like_is_a_problem_with_its_line(scalar: str) -> None:
    """A number in base 60 that no computer holds, one that takes the square of its length, and tags that lie."""
    (problem,) = check_text(f"{SOURCE}audiences:\n  {scalar}\n")
    assert (problem.line, problem.message.rpartition("; ")[2]) == (3, "write it in quotes")


def test_an_empty_key_at_the_top_is_a_problem_with_its_line() -> None:
    """Like any other that is not known."""
    (problem,) = check_text(f'{SOURCE}"": 1\n')
    assert (problem.code, problem.line) == ("unknown_key", 2)


@pytest.mark.parametrize("header", ["{{key}}", {"@template": "Bearer {{settings.secrets.key}}"}])
def test_secrets_that_are_no_rows_are_a_problem(header: object) -> None:
    """Also where a header names one of them."""
    settings = {"url": "https://h.example.com/", "secrets": 5}
    request = {"name": "r", "url": "https://h.example.com/", "headers": {"X-Key": header}}
    made = {"id": "d", "name": "D", "kind": "http", "sources": ["web"], "settings": settings, "mapping": [request]}
    document = {"sources": [{"id": "web", "name": "Web", "writeKeys": ["wk_web"]}], "destinations": [made]}
    assert any("secrets" in problem.path for problem in check_text(json.dumps(document)))


@pytest.mark.parametrize("path", ["/api/v1/sources", "/destinations", "/login"])
def test_options_are_answered(tmp_path: Path, path: str) -> None:
    """The framework adds them to every address. Anybody could fill the log with faults of ours by asking."""
    with Running(tmp_path / "data") as running:
        answer = running.call("OPTIONS", path, token=False)
    assert (answer.status, answer.body) == (204, b"")
    assert "OPTIONS" in answer.headers["allow"]


@pytest.mark.parametrize("number", [0, -1, -(2**63) - 1, 2**63, 2**70])
def test_a_version_that_no_database_holds_is_not_found(tmp_path: Path, number: int) -> None:
    """By its address in the API, or to go back to."""
    with Running(tmp_path / "data") as running:
        assert running.api("GET", f"/connections/versions/{number}").status == 404
        assert running.api("POST", f"/connections/versions/{number}/roll-back").status == 404
