"""What is kept of the head of a receiver's answer."""

from __future__ import annotations

HEAD_KEPT_BYTES = 1024
END_OF_HEAD = b"\r\n\r\n"
HEAD_BYTES_MAX = 32 * 1024


def answer_head(received: bytes, bytes_max: int = HEAD_KEPT_BYTES) -> str:
    """Status line and headers of the answer itself, without interim answers before it and the body after it."""
    start, end = 0, received.find(END_OF_HEAD)
    while end >= 0 and received[start + 8 : start + 10] == b" 1":
        start = end + len(END_OF_HEAD)
        end = received.find(END_OF_HEAD, start)
    return received[start : end if end >= 0 else len(received)][:bytes_max].decode("latin-1")
