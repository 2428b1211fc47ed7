"""Why: what a judgement comes from, clause by clause, in a form that the API, the command line and pages share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hookline.people.definitions.feature import Entry
from hookline.people.definitions.stretch import NEVER

SHOWN_MAX = 10
"""Events that a reason names."""


class Deciding(msgspec.Struct, frozen=True, rename="camel"):
    """An event that decided: when it happened (ms), its place in the journal, and the value that counted."""

    at_ms: int
    place: int
    value: float | str | bool | None = None


class Reason(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One clause of a condition: what it says, whether it holds, and what decided that.

    ``path`` is the clause's place in the definition. ``until_ms`` is when that may change of itself. Clauses about
    events have ``found``, how many count, and the newest of them or the first and last; an ``if`` has the ``values``
    it asked for, by path, those of groups as a list; ``all``, ``any`` and ``not`` have their ``terms``.
    """

    path: str
    text: str
    held: bool
    until_ms: int | None = None
    found: int | None = None
    entries: tuple[Deciding, ...] = ()
    values: dict[str, Any] = {}
    terms: tuple[Reason, ...] = ()


class Verdict(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Whether a person belongs to an audience, the next instant (ms) at which that may change of itself, and why."""

    member: bool
    until_ms: int | None
    reason: Reason


class Computation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The value of a computed trait, when it may change of itself (ms), and the events it was made of.

    ``found`` of them count, ``used`` have a value of the right kind; the newest are in ``entries``.
    """

    value: Any
    until_ms: int | None
    text: str
    found: int
    used: int
    entries: tuple[Deciding, ...] = ()


def instant(until_ms: int) -> int | None:
    """Return an instant, None for one that never comes."""
    return None if until_ms == NEVER else until_ms


def deciding(newest_first: Sequence[Entry]) -> tuple[Deciding, ...]:
    """Return the first few entries, as a reason names them."""
    return tuple(Deciding(entry.at_ms, entry.place, entry.value) for entry in newest_first[:SHOWN_MAX])
