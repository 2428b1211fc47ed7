"""The head of a receiver's answer: where it ends, and what is kept of it."""

from __future__ import annotations

import re

HEAD_KEPT_BYTES = 1024
HEAD_BYTES_MAX = 64 * 1024
END_OF_HEAD = re.compile(rb"\n\r?\n")
"""An empty line; a line may end with a bare LF (RFC 9112 section 2.2)."""
END_OF_HEAD_BYTES_MAX = len(b"\r\n\r\n")


def own_head(received: bytes) -> bytes:
    """Return status line and headers of the answer itself, without interim answers before it and the body after it."""
    start, end = _own(received)
    return received[start : end.start() if end is not None else len(received)].removesuffix(b"\r")


def is_whole(received: bytes) -> bool:
    """Whether the head of the answer itself, behind any interim ones, has come to its end."""
    return _own(received)[1] is not None


def answer_head(received: bytes, bytes_max: int = HEAD_KEPT_BYTES) -> str:
    """Return the beginning of the answer's own head."""
    return own_head(received)[:bytes_max].decode("latin-1")


def _own(received: bytes) -> tuple[int, re.Match[bytes] | None]:
    start, end = 0, END_OF_HEAD.search(received)
    while end is not None and received[start + 8 : start + 10] == b" 1":
        start = end.end()
        end = END_OF_HEAD.search(received, start)
    return start, end
