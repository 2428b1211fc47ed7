"""What is allowed in a definition but may not be what was meant."""

from __future__ import annotations

from collections.abc import Iterator

from hookline.connections.definitions.check import PERSON_FIELDS
from hookline.connections.definitions.model import Audience, ComputedTrait, Condition, Definition
from hookline.connections.definitions.times import window_ms
from hookline.connections.definitions.walk import conditions_of, dotted
from hookline.expressions.compile import compile_condition
from hookline.expressions.parse import parse
from hookline.settings import DAY_SECONDS

_NOBODY: dict[str, object] = {name: {} for name in PERSON_FIELDS}


def definition_warnings(definition: Definition, retention_seconds: float) -> Iterator[tuple[str, str]]:
    """Yield path and sentence for each doubt about a definition that has no problems.

    ``retention_seconds`` is how long the journal keeps events: a new definition learns of none that are older.
    """
    if not definition.destinations:
        yield "destinations", "no destination is named, so nothing is synced"
    for path, part in _parts(definition):
        if part.within is not None and window_ms(part.within) > retention_seconds * 1000:
            days = retention_seconds / DAY_SECONDS
            yield (
                dotted(path, "within"),
                f"events are kept for {days:g} days: what happened before that and before this definition was made "
                "is not known, so it is exact only once it is as old as its window",
            )
    if isinstance(definition, Audience) and _holds_for_nobody(definition.condition):
        yield "condition", "this holds even for people who did nothing at all; join it by all with what they did"


def _parts(definition: Definition) -> Iterator[tuple[str, Condition | ComputedTrait]]:
    if isinstance(definition, ComputedTrait):
        yield "", definition
    else:
        yield from conditions_of(definition)


def _holds_for_nobody(condition: Condition) -> bool:
    """Return whether the condition holds for a person without events, traits and groups."""
    if condition.all is not None:
        return all(map(_holds_for_nobody, condition.all))
    if condition.any is not None:
        return any(map(_holds_for_nobody, condition.any))
    if condition.not_ is not None:
        return not _holds_for_nobody(condition.not_)
    if condition.if_ is not None:
        return compile_condition(parse(condition.if_, PERSON_FIELDS))(_NOBODY)
    if condition.audience is not None or condition.first is not None or condition.last is not None:
        return False
    return condition.times()[0] == 0
