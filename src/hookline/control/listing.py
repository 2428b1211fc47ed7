"""The one shape of every list: ``{"items": […], "after": null}`` with ``limit`` and ``after``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Generic, TypeVar

import msgspec
from litestar.params import QueryParameter

LIMIT_DEFAULT = 50
LIMIT_MAX = 200
CURSOR_CHARACTERS_MAX = 20_000

T = TypeVar("T")

Limit = Annotated[int, QueryParameter(ge=1, le=LIMIT_MAX, description="How many items to return at most.")]
After = Annotated[
    str | None,
    QueryParameter(
        max_length=CURSOR_CHARACTERS_MAX, description="The `after` of the last answer; leave it out to begin."
    ),
]


class Listing(msgspec.Struct, Generic[T], frozen=True):
    """Some items and where the next ones begin; ``after`` is null on the last page."""

    items: Sequence[T]
    after: str | None = None


def by_id(objects: Sequence[T], ids: Sequence[str], limit: int, after: str | None) -> Listing[T]:
    """One page of objects in the order of their ids."""
    ordered = sorted(zip(ids, objects, strict=True), key=lambda pair: pair[0])
    rest = [pair for pair in ordered if after is None or pair[0] > after]
    page = rest[:limit]
    return Listing([each for _, each in page], page[-1][0] if len(rest) > limit else None)
