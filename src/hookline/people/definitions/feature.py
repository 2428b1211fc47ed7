"""What definitions ask of people's events, and what is known of one person: the border between keeping and judging."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol


class Purpose(IntEnum):
    """Of nobody's features the history goes, in steps. Previews look at features of their own before others'."""

    DEFINITIONS = 0
    PREVIEWS = 1
    NOBODY = 2


class Feature(NamedTuple):
    """What of people's events a clause needs: those of this type and name, that meet ``where``, and one value of each.

    ``type`` is track, page or screen. ``name`` is the event's name, or the page's or screen's; empty for any.
    ``where`` is the normalised text of an expression, empty for none. ``value`` is a dotted path, empty for none.
    """

    type: str
    name: str
    where: str
    value: str


class Entry(NamedTuple):
    """One event of a feature.

    ``at_ms`` is the event's own time, skew taken out. ``mark`` stands for its source and messageId: what was sent
    twice is one entry. ``place`` is the partition and offset of its record. ``value`` is what lies at the feature's
    path, None when there is nothing that can be kept: neither a number, a text nor a truth value.
    """

    at_ms: int
    mark: int
    place: int
    value: float | str | bool | None


class Facts(Protocol):
    """What is known of one person."""

    def entries(self, feature: Feature) -> Sequence[Entry]:
        """Return the events of a feature, sorted by time and mark."""

    @property
    def traits(self) -> Mapping[str, object]:
        """Return the person's traits as plain JSON values."""

    @property
    def group_traits(self) -> Sequence[Mapping[str, object]]:
        """Return the traits of each group the person belongs to."""

    def computed(self, id: str) -> object:
        """Return the value of a computed trait, None when it has none."""

    def is_member(self, audience_id: str) -> bool:
        """Return whether the person is a member of an audience."""
