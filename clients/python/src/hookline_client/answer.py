"""What the service answered to a batch, as a value: accepted, refused, or worth another try."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import timezone
from typing import Any, NamedTuple

from hookline_client.errors import CODES


class Answer(NamedTuple):
    """What came back for a batch. ``status`` 0 is none at all; ``code`` is empty only when the batch was accepted.

    Both together, ``Answer(0)``: the batch has left, and what came back was not looked at.

    ``rejected`` are events of an accepted batch that were refused: index, code, sentence.
    """

    status: int
    code: str = ""
    reason: str = ""
    rejected: tuple[tuple[int, str, str], ...] = ()
    retry_after_seconds: float | None = None

    @property
    def retryable(self) -> bool:
        """Whether the same batch may be accepted later."""
        return bool(self.code) and (
            self.status in (0, 200, 408, 425, 429) or (self.status >= 500 and self.status not in (501, 505))
        )


def read_answer(status: int, text: bytes, retry_after_header: str | None) -> Answer:
    """What an HTTP answer of the service says."""
    pause = retry_after(retry_after_header)
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        document = {}
    if status == 200 and document.get("success") is True:
        return Answer(200, rejected=tuple(_rejections(document.get("rejected"))))
    code, reason = document.get("code"), document.get("message")
    if not isinstance(code, str) or not code:  # an empty one would count as accepted
        code = _code_of(status)
        reason = f"{CODES[code]} (status {status})"
    return Answer(status, code, str(reason), retry_after_seconds=pause)


def _rejections(given: object) -> Iterator[tuple[int, str, str]]:
    for item in given if isinstance(given, list) else ():
        if isinstance(item, dict) and isinstance(item.get("index"), int):
            yield item["index"], str(item.get("code")), str(item.get("message"))


def retry_after(value: str | None) -> float | None:
    """Seconds of a Retry-After header, which may also be a date; None when there is none that can be read."""
    if value is None:
        return None
    if value.isascii() and value.strip().isdigit():
        return float(value)
    from email.utils import parsedate_to_datetime

    try:
        at = parsedate_to_datetime(value)
        if at.tzinfo is None:  # the one form of a date in HTTP without a zone is in UTC, too
            at = at.replace(tzinfo=timezone.utc)
        return max(0.0, at.timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None


def _code_of(status: int) -> str:
    if status == 429:
        return "throttled"
    if status >= 500:
        return "server_error"
    return "unexpected_answer" if status < 400 else "refused"
