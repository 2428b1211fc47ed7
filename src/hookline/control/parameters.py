"""The parameters that many calls of the API have, with what the description says of them."""

from __future__ import annotations

from typing import Annotated

from litestar.params import PathParameter, QueryParameter

from hookline.insights.resolutions import Range

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
