"""Audiences and computed traits: what is said about people, as the file, the API and the database have it.

Durations are text such as ``30d`` or a number of seconds; instants are ISO 8601 text.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from hookline.connections.names import Id, Name

TERMS_MAX = 50
"""Conditions side by side in one ``all`` or ``any``."""
DESTINATIONS_MAX = 100
"""Destinations that one audience or computed trait is sent to."""
EVENT_CHARACTERS_MAX = 500
"""Length of an event's, page's or screen's name."""
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
    """What all parts have in common: strict keys, and nothing written that was not given."""


class Count(_Written, frozen=True, kw_only=True):
    """How often: at least, at most, or exactly."""

    gte: Times | None = None
    lte: Times | None = None
    eq: Times | None = None


class When(_Written, frozen=True, kw_only=True):
    """Where the first or last time lies: in the window that ends now, before an instant, at or after one."""

    within: Duration | None = None
    before: str | None = None
    after: str | None = None


class Condition(_Written, frozen=True, kw_only=True):
    """One clause, or ``all``, ``any`` or ``not`` of others; which one it is, exactly one key says.

    ``event`` (a track call), ``page`` and ``screen`` name what was done, empty for any of the kind. Those that meet
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
    """The people for whom a condition holds; who comes and goes is told to the destinations.

    ``enabled`` false leaves the members as they are and tells nobody.
    """

    id: Id
    name: Name
    destinations: Annotated[tuple[Id, ...], msgspec.Meta(max_length=DESTINATIONS_MAX)] = ()
    sync_every: Duration = "2h"
    condition: Condition
    enabled: bool = True


class ComputedTrait(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A value made of each person's events: an aggregate, mostly over one property of them."""

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
