"""What is kept of the head of an answer: the answer's own, without its body, and not endless."""

from __future__ import annotations

import pytest

from hookline.deliver.send.answers import HEAD_KEPT_BYTES, answer_head, is_whole

OK = b"HTTP/1.1 503 Busy\r\nRetry-After: 5"


@pytest.mark.parametrize(
    ("received", "kept"),
    [
        (OK + b"\r\n\r\nbody\r\n\r\nmore", OK.decode()),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\n" + OK + b"\r\n\r\n", OK.decode()),
        (OK + b"\r\nX: \xff\r\n\r\n", OK.decode() + "\r\nX: ÿ"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 5_000, "HTTP/1.1 200 OK\r\nX: " + "x" * (HEAD_KEPT_BYTES - 20)),
        (b"", ""),
    ],
)
def test_only_the_last_head_is_kept(received: bytes, kept: str) -> None:
    """Interim answers, the body, and what is beyond the bound are left out; any byte can be shown."""
    assert answer_head(received) == kept


@pytest.mark.parametrize(
    ("received", "expected"),
    [
        (OK + b"\r\n\r\n", True),
        (OK + b"\n\n", True),
        (OK, False),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, False),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"\r\n\r\n", True),
    ],
)
def test_a_head_is_whole_at_its_own_end(received: bytes, expected: bool) -> None:
    """The end of an interim answer's head is not that of the answer behind it."""
    assert is_whole(received) is expected
