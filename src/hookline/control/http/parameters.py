"""Parameters that several routes have."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from litestar.params import PathParameter, QueryParameter

from hookline.control.http.problem import Problem
from hookline.insights.resolutions import Range
from hookline.replays.model import Moment

TEXT_CHARACTERS_MAX = 1_000
TIME = {"format": "date-time"}

Id = Annotated[str, PathParameter(name="id")]
OfSource = Annotated[
    str | None, QueryParameter(name="source", max_length=TEXT_CHARACTERS_MAX, description="Only this source (its id).")
]
OfDestination = Annotated[
    str | None,
    QueryParameter(name="destination", max_length=TEXT_CHARACTERS_MAX, description="Only this destination (its id)."),
]
OfType = Annotated[
    str | None, QueryParameter(name="type", max_length=TEXT_CHARACTERS_MAX, description="Only this message type.")
]
OfEvent = Annotated[
    str | None,
    QueryParameter(
        name="event",
        max_length=TEXT_CHARACTERS_MAX,
        description="Only track calls of this event, or pages and screens of this name.",
    ),
]
UserId = Annotated[
    str | None,
    QueryParameter(
        name="userId", min_length=1, max_length=TEXT_CHARACTERS_MAX, description="The person with this user id."
    ),
]
AnonymousId = Annotated[
    str | None,
    QueryParameter(
        name="anonymousId",
        min_length=1,
        max_length=TEXT_CHARACTERS_MAX,
        description="The person this anonymous id belongs to, instead of `userId`.",
    ),
]
Back = Annotated[Range, QueryParameter(name="range", description="How far back.")]


def milliseconds(name: str, text: str | None) -> int | None:
    """Return the moment since the epoch, None when none is given; raise Problem that names the parameter."""
    if text is None:
        return None
    try:
        moment: datetime = msgspec.convert(text, Moment)
    except msgspec.ValidationError:
        detail = f"Write {name} as ISO 8601 with an offset, such as 2026-11-20T07:00:00Z."
        raise Problem(400, "invalid_parameter", detail) from None
    return int(moment.timestamp() * 1000)
