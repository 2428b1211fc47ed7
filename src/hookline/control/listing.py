"""The one shape of every list: ``{"items": […], "after": null}`` with ``limit`` and ``after``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Generic, TypeVar

import msgspec
from litestar.params import QueryParameter

from hookline.control.problem import Problem

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


def number_after(after: str | None, prefix: str = "") -> int | None:
    """Return the number that a list by numbers, or by ids with a prefix, gave as its ``after``; Problem for anything
    else."""
    number = None if after is None else id_number(after, prefix)
    if after is not None and number is None:
        raise Problem(400, "invalid_parameter", "Use the value of `after` exactly as the last answer gave it.")
    return number


def by_id(objects: Sequence[T], ids: Sequence[str], limit: int, after: str | None) -> Listing[T]:
    """Return one page of objects in the order of their ids."""
    ordered = sorted(zip(ids, objects, strict=True), key=lambda pair: pair[0])
    rest = [pair for pair in ordered if after is None or pair[0] > after]
    page = rest[:limit]
    return Listing([each for _, each in page], page[-1][0] if len(rest) > limit else None)


def id_number(id: str, prefix: str = "") -> int | None:
    """Return the number in an id such as ``u7``, None when it is no such id."""
    digits = id.removeprefix(prefix)
    good = id.startswith(prefix) and digits.isdecimal() and digits.isascii() and len(digits) < 19
    return int(digits) if good else None
