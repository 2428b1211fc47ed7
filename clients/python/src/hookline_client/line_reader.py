"""Reads a log file line by line in bounded memory and tells events from lines that cannot be one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

READ_BYTES = 1024 * 1024
"""Also the longest piece of a line that is kept in one entry of the side file."""
EVENT_BYTES_MAX = 32_768
"""One call at most: the service refuses larger ones."""


@dataclass(frozen=True)
class Line:
    """One line without its end, or a piece of a line that is too long to be an event."""

    offset_bytes: int
    end_bytes: int
    """Where the next line begins."""
    data: bytes
    message_id: str | None = None
    """The event's own messageId, None when it has none that can be used."""
    reason: str | None = None
    """Why it cannot be sent: ``invalid_utf8``, ``invalid_json``, ``invalid_item`` or ``event_too_large``."""
    message: str = ""
    is_last_piece: bool = True
    """False for a piece of a line that goes on: the place may not stop behind it."""


class LineReader:
    """Iterates over the lines of an open file from ``offset_bytes`` to its end; empty lines are left out.

    ``end_bytes`` is where the next line begins, behind everything read so far.
    """

    def __init__(self, file: int, offset_bytes: int) -> None:
        self.end_bytes = offset_bytes
        self._file = file
        self._is_inside = False  # of a line that is given out in pieces

    def __iter__(self) -> Iterator[Line]:
        rest = b""
        while chunk := os.pread(self._file, READ_BYTES, self.end_bytes + len(rest)):
            *whole, rest = (rest + chunk).split(b"\n")
            for data in whole:
                yield from self._line(data, 1)
            if len(rest) >= READ_BYTES:
                yield self._piece(rest, 0, is_last=False)
                self._is_inside, rest = True, b""
        if rest:  # its writer was killed in the middle of it, or just before the line end
            yield from self._line(rest, 0)

    def _line(self, data: bytes, line_end_bytes: int) -> Iterator[Line]:
        was_inside, self._is_inside = self._is_inside, False
        if was_inside or len(data) > EVENT_BYTES_MAX:
            yield self._piece(data, line_end_bytes)
        elif data.strip():
            yield self._parsed(data, line_end_bytes)
        else:
            self.end_bytes += len(data) + line_end_bytes

    def _parsed(self, data: bytes, line_end_bytes: int) -> Line:
        begin_bytes = self.end_bytes
        self.end_bytes += len(data) + line_end_bytes
        try:
            # Integers as floats: Python refuses those of thousands of digits, which are JSON all the same.
            event = json.loads(data.decode(), parse_int=float, parse_constant=_refuse_constant)
        except UnicodeDecodeError as error:
            return Line(begin_bytes, self.end_bytes, data, None, "invalid_utf8", str(error))
        except (ValueError, RecursionError) as error:
            return Line(begin_bytes, self.end_bytes, data, None, "invalid_json", str(error))
        if not isinstance(event, dict):
            return Line(begin_bytes, self.end_bytes, data, None, "invalid_item", "An event must be a JSON object.")
        message_id = event.get("messageId")
        usable = message_id if isinstance(message_id, str) and message_id else None
        return Line(begin_bytes, self.end_bytes, data.strip(), usable)

    def _piece(self, data: bytes, line_end_bytes: int, is_last: bool = True) -> Line:
        begin_bytes = self.end_bytes
        self.end_bytes += len(data) + line_end_bytes
        message = f"An event may have at most {EVENT_BYTES_MAX:,} bytes."
        return Line(begin_bytes, self.end_bytes, data, None, "event_too_large", message, is_last)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
