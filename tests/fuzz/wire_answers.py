"""Answers of the collection edge read back from its bytes, by a reader that takes nothing but well-formed ones."""

from __future__ import annotations

import gzip
import json
import re
from typing import NamedTuple

from hookline.collect.http.answers import ERRORS, GIF

_STATUS = re.compile(rb"HTTP/1\.1 ([1-5][0-9]{2}) [A-Z][A-Za-z -]*")
_HEADER = re.compile(rb"([A-Za-z-]+): ([ -~]*)")


class Answer(NamedTuple):
    """One answer; ``body`` is empty for an answer to HEAD."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes


def read_answers(data: bytes) -> list[Answer]:
    """The final answers of a connection; AssertionError for anything that is not exactly a row of them."""
    found: list[Answer] = []
    while data:
        assert not found or found[-1].headers.get(b"Connection") != b"close", (
            f"said after the last answer: {data[:99]!r}"
        )
        head, end, data = data.partition(b"\r\n\r\n")
        assert end, f"half a head: {head[:99]!r}"
        first, *lines = head.split(b"\r\n")
        status = _STATUS.fullmatch(first)
        assert status, first
        fields = [_HEADER.fullmatch(line) for line in lines]
        assert all(fields), head
        headers = {field[1]: field[2] for field in fields if field}
        assert len(headers) == len(lines), f"a header twice: {head!r}"
        if status[1] != b"100":
            answer, data = _with_body(int(status[1]), headers, data)
            found.append(answer)
    return found


def _with_body(status: int, headers: dict[bytes, bytes], data: bytes) -> tuple[Answer, bytes]:
    if status in (204, 304):
        assert b"Content-Length" not in headers
        return Answer(status, headers, b""), data
    length = int(headers[b"Content-Length"])
    if not data or data.startswith(b"HTTP/1.1 "):  # to HEAD
        return Answer(status, headers, b""), data
    body, rest = data[:length], data[length:]
    assert len(body) == length, "half a body"
    _check_body(status, headers, body)
    return Answer(status, headers, body), rest


def _check_body(status: int, headers: dict[bytes, bytes], body: bytes) -> None:
    media_type = headers[b"Content-Type"]
    if media_type == b"image/gif":
        assert body == GIF
        assert status == (200 if ERRORS.get(headers.get(b"X-Hookline-Error", b"").decode(), (0, ""))[0] < 500 else 503)
    elif media_type == b"text/javascript; charset=utf-8":
        assert status == 200
        assert (gzip.decompress(body) if b"Content-Encoding" in headers else body).startswith((b"/*!", b"(", b'"use'))
    else:
        said = json.loads(body)
        if status == 200:
            fetched = "integrations" in said or "source" in said
            assert fetched or said.get("success") is True or said.get("status") in ("alive", "ready"), said
        else:
            assert said["success"] is False, said
            assert ERRORS[said["code"]][0] == status, said
            assert said["error"] == {"code": said["code"], "message": said["message"]}
