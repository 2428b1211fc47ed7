"""Groups the lines of a log into batches within the limits of the service."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from hookline_client.batch import BATCH_EVENTS_MAX, EVENTS_BYTES_MAX
from hookline_client.line_reader import Line
from hookline_client.receipts import Message

ASIDE_BYTES_MAX = 1024 * 1024
"""Lines to set aside are not collected beyond this: a file of anything else is gone through in bounded memory."""
ASIDE_LINES_MAX = 10_000
"""A line takes some hundred bytes beside its own."""


@dataclass
class LineBatch:
    """Lines that follow each other: those that go out, and those that cannot, each with reason and message."""

    events: list[tuple[Line, Message]] = field(default_factory=list)
    aside: list[tuple[Line, str, str]] = field(default_factory=list)
    end_bytes: int | None = None
    """Where the upload goes on behind it; None while the end of a long line is not reached."""


def batches(lines: Iterable[Line], upload: str) -> Iterator[LineBatch]:
    """Yield batches until the lines end. An event without messageId gets one that a repeat of ``upload`` repeats."""
    batch, events_bytes, aside_bytes = LineBatch(), 0, 0
    for line in lines:
        message = _message(line, upload)
        line_bytes = len(message[1]) + 1
        is_full = events_bytes + line_bytes > EVENTS_BYTES_MAX or len(batch.events) == BATCH_EVENTS_MAX
        is_aside_full = aside_bytes > ASIDE_BYTES_MAX or len(batch.aside) == ASIDE_LINES_MAX
        if (is_full and line.reason is None) or is_aside_full:
            yield batch
            batch, events_bytes, aside_bytes = LineBatch(), 0, 0
        if line.reason is None:
            batch.events.append((line, message))
            events_bytes += line_bytes
        else:
            batch.aside.append((line, line.reason, line.message))
            aside_bytes += line_bytes
        batch.end_bytes = line.end_bytes if line.is_last_piece else None
    if batch.events or batch.aside:
        yield batch


def _message(line: Line, upload: str) -> Message:
    if line.reason is not None or line.message_id is not None:
        return line.message_id or "", line.data
    message_id = f"{upload}-{line.offset_bytes}"
    comma = b"," if line.data[1:-1].strip() else b""
    return message_id, line.data[:-1] + comma + f'"messageId":"{message_id}"}}'.encode()
