"""Say what audiences and computed traits are: what is said about people, as the file, the API and the database have it,
with durations and instants as milliseconds.

Durations are text such as ``30d`` or a number of seconds; instants are ISO 8601 text.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from itertools import groupby
from typing import Annotated, Literal, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from hookline.connections.names import Id, Name
from hookline.events.timestamps import parse
from hookline.settings import DAY_SECONDS, parse_duration

TERMS_MAX = 50
"""Conditions side by side in one ``all`` or ``any``."""
DESTINATIONS_MAX = 100
"""Destinations that one audience or computed trait is sent to."""
EVENT_CHARACTERS_MAX = 500
"""Length of an event's, page's or screen's name."""
ANY = "*"
"""Stands for any event, page or screen. An empty name is one that nobody filled in, and is refused."""
COUNT_MAX = 10_000
"""What a count can be compared with: as many events as are kept for one person and clause."""

Duration: TypeAlias = str | int | float
Instants: TypeAlias = tuple[str, str]
EventName = Annotated[str, msgspec.Meta(max_length=EVENT_CHARACTERS_MAX)]
Times = Annotated[int, msgspec.Meta(ge=0, le=COUNT_MAX)]
Aggregate = Literal[
    "count", "sum", "average", "min", "max", "mostFrequent", "first", "last", "uniqueList", "uniqueCount"
]


class _Written(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """Hold what all parts have in common: strict keys, and nothing written that was not given."""


class Count(_Written, frozen=True, kw_only=True):
    """A number of times: at least, at most, or exactly."""

    gte: Times | None = None
    lte: Times | None = None
    eq: Times | None = None


class When(_Written, frozen=True, kw_only=True):
    """The time of the first or last event: in the window that ends now, before an instant, at or after one."""

    within: Duration | None = None
    before: str | None = None
    after: str | None = None


class Condition(_Written, frozen=True, kw_only=True):
    """One clause, or ``all``, ``any`` or ``not`` of others; which one it is, exactly one key says.

    ``event`` (a track call), ``page`` and ``screen`` name what was done, ``*`` for any of the kind. Those that meet
    ``where`` count: at least once unless ``count`` or ``never`` says otherwise, ever or ``within`` the window that
    ends now or ``between`` two instants, the second not included. ``first`` and ``last`` ask instead when it was
    done. ``if`` is a condition over ``traits``, ``groupTraits`` and ``computed``; ``audience`` names another one.
    """

    all: Annotated[tuple[Condition, ...], msgspec.Meta(max_length=TERMS_MAX)] | None = None
    any: Annotated[tuple[Condition, ...], msgspec.Meta(max_length=TERMS_MAX)] | None = None
    not_: Condition | None = msgspec.field(name="not", default=None)
    event: EventName | None = None
    page: EventName | None = None
    screen: EventName | None = None
    count: Count | None = None
    never: bool = False
    within: Duration | None = None
    between: Instants | None = None
    where: str | None = None
    first: When | None = None
    last: When | None = None
    if_: str | None = msgspec.field(name="if", default=None)
    audience: Id | None = None

    def times(self) -> tuple[int, int | None]:
        """Return how often at least and at most what an event clause names is to be done; None without a limit."""
        if self.never:
            return 0, 0
        if self.count is None:
            return 1, None
        if self.count.eq is not None:
            return self.count.eq, self.count.eq
        return self.count.gte or 0, self.count.lte


class Audience(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The people who meet a condition. Who joins and leaves is synced to the destinations. With ``enabled`` false, the
    members stay as they are and nothing is synced.
    """

    id: Id
    name: Name
    destinations: Annotated[tuple[Id, ...], msgspec.Meta(max_length=DESTINATIONS_MAX)] = ()
    sync_every: Duration = "2h"
    condition: Condition
    enabled: bool = True


class ComputedTrait(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A value computed from each person's events: an aggregate, usually of one property."""

    id: Id
    name: Name
    event: EventName | None = None
    page: EventName | None = None
    screen: EventName | None = None
    aggregate: Aggregate
    property: str | None = None
    within: Duration | None = None
    between: Instants | None = None
    where: str | None = None
    destinations: Annotated[tuple[Id, ...], msgspec.Meta(max_length=DESTINATIONS_MAX)] = ()
    sync_every: Duration = "2h"
    enabled: bool = True


Definition: TypeAlias = Audience | ComputedTrait
ClauseT = TypeVar("ClauseT", Condition, ComputedTrait)


WITHIN_SECONDS_MAX = 3_650 * DAY_SECONDS
SYNC_SECONDS_MAX = 30 * DAY_SECONDS
SECONDS_MIN = 1


def window_ms(text: Duration) -> int:
    """Return the length of a sliding window; raise ValueError with what to write."""
    return _milliseconds(text, WITHIN_SECONDS_MAX, "30d, at most 3650d")


def sync_ms(text: Duration) -> int:
    """Return the time from one sync to the next; raise ValueError with what to write."""
    return _milliseconds(text, SYNC_SECONDS_MAX, "2h or 30s, at most 30d")


def instant_ms(text: str) -> int:
    """Return a fixed moment; raise ValueError with what to write. Without a zone it is UTC."""
    # Digits alone would be seconds since 1970: nobody means that by 2026.
    ms = parse(text) if text[4:5] == "-" else None
    if ms is None:
        raise ValueError("write a moment such as 2026-11-20 or 2026-11-20T07:00:00Z")
    return ms


def instants_ms(between: Instants) -> tuple[int, int]:
    """Return the first moment and the first one after, of a fixed stretch of time; raise ValueError with what
    to write."""
    begins, ends = map(instant_ms, between)
    if begins >= ends:
        raise ValueError("the first moment must be before the second, which does not belong to it any more")
    return begins, ends


def _milliseconds(text: Duration, seconds_max: float, example: str) -> int:
    try:
        seconds: float = parse_duration(text)
    except (ValueError, OverflowError):
        seconds = 0
    if not SECONDS_MIN <= seconds <= seconds_max:
        raise ValueError(f"write a time of at least one second, such as {example}")
    return round(seconds * 1000)


_APOSTROPHES = "'’"


def trait_name(name: str) -> str:
    """``Big Spenders``, ``bigSpenders`` and ``Big-Spenders!`` are all ``big_spenders``; empty without letter and digit.

    Letters of every script stay, with the marks that belong to them.
    """
    text = unicodedata.normalize("NFC", name)
    text = "".join(_spaced(text, index) for index in range(len(text)))
    words = ("".join(letters) for belongs, letters in groupby(text.lower(), _belongs_to_word) if belongs)
    return unicodedata.normalize("NFC", "_".join(words))


def _spaced(text: str, index: int) -> str:
    """Return one character, with a space before it where a word begins without one; apostrophes within words go."""
    letter, before, after = text[index], text[index - 1 : index], text[index + 1 : index + 2]
    if letter in _APOSTROPHES and before.isalnum() and after.isalnum():
        return ""
    if letter.isupper() and (before.islower() or (before.isalnum() and after.islower())):
        return " " + letter
    return letter


def _belongs_to_word(letter: str) -> bool:
    return letter.isalnum() or unicodedata.category(letter).startswith("M")


def conditions_of(audience: Audience) -> Iterator[tuple[str, Condition]]:
    """Yield every condition of an audience with its path, outer ones first."""
    return conditions_of_one(audience.condition)


def conditions_of_one(condition: Condition) -> Iterator[tuple[str, Condition]]:
    """Yield a condition and every one in it with its path, outer ones first."""
    waiting = [("condition", condition)]
    while waiting:
        path, condition = waiting.pop()
        yield path, condition
        waiting += reversed(list(terms_of(path, condition)))


def terms_of(path: str, condition: Condition) -> Iterator[tuple[str, Condition]]:
    """Yield what ``all``, ``any`` or ``not`` holds, with paths."""
    for key, terms in (("all", condition.all), ("any", condition.any)):
        for index, term in enumerate(terms or ()):
            yield f"{path}.{key}[{index}]", term
    if condition.not_ is not None:
        yield f"{path}.not", condition.not_


def with_any_named(definition: Definition) -> Definition:
    """Return a definition with ``ANY`` where its names are empty: what was stored when an empty name still meant it."""
    if isinstance(definition, Audience):
        return replace(definition, condition=_with_any_named(definition.condition))
    return _named(definition)


def _with_any_named(condition: Condition) -> Condition:
    return replace(
        _named(condition),
        all=None if condition.all is None else tuple(map(_with_any_named, condition.all)),
        any=None if condition.any is None else tuple(map(_with_any_named, condition.any)),
        not_=None if condition.not_ is None else _with_any_named(condition.not_),
    )


def _named(clause: ClauseT) -> ClauseT:
    return replace(clause, **{kind: ANY for kind in ("event", "page", "screen") if getattr(clause, kind) == ""})


def dotted(path: str, inner: str) -> str:
    """Return the path of something inside of what is at ``path``."""
    return f"{path}.{inner}" if path and inner else path or inner
