"""One operation of the admin API as the description has it, and what many of them share."""

from __future__ import annotations

from typing import Any, NamedTuple

JSON = "application/json"
PAGE = ("limit", "after")
"""The query parameters of every list."""
WRITE = (409, 413, 422)
"""What may be wrong with any body that changes something."""


class Operation(NamedTuple):
    """One method of one path. ``problems`` are the statuses besides those that any call may get."""

    method: str
    path: str
    id: str
    summary: str
    answer: Any
    status: int = 200
    body: Any = None
    body_type: str = JSON
    answer_type: str = JSON
    query: tuple[str, ...] = ()
    problems: tuple[int, ...] = ()
    tagged: bool = False
    """Whether answers have an ETag and changes take If-Match."""
