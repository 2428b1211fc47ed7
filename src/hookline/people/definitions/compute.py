"""Computed traits: the value for a person, until when, and what it was made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from hookline.connections.definitions.model import ComputedTrait
from hookline.people.definitions.aggregates import AGGREGATES
from hookline.people.definitions.explain import trait_text
from hookline.people.definitions.feature import Facts, feature_of
from hookline.people.definitions.reason import Computation, deciding, instant
from hookline.people.definitions.stretch import stretch_of

Compute: TypeAlias = Callable[[Facts, int], tuple[object, int]]
"""Person and time (ms) to the value, and until when (``NEVER`` when only something new can change it)."""

_OF_NUMBERS = ("sum", "average", "min", "max")


def compile_trait(trait: ComputedTrait) -> Compute:
    """Return the quick way, for a checked computed trait."""
    feature, stretch, aggregate = feature_of(trait), stretch_of(trait), AGGREGATES[trait.aggregate]

    def compute(facts: Facts, now_ms: int) -> tuple[object, int]:
        entries = facts.entries(feature)
        start, stop, until = stretch(entries, now_ms)
        return aggregate(entries[start:stop]), until

    return compute


def compute(trait: ComputedTrait, facts: Facts, now_ms: int) -> Computation:
    """Return the value of a checked computed trait for a person, and what it was made of."""
    entries = facts.entries(feature_of(trait))
    start, stop, until = stretch_of(trait)(entries, now_ms)
    counted = entries[start:stop]
    used = [entry for entry in counted if trait.property is None or entry.value is not None]
    if trait.aggregate in _OF_NUMBERS:
        used = [entry for entry in used if entry.value.__class__ in (int, float)]
    return Computation(
        value=AGGREGATES[trait.aggregate](counted),
        until_ms=instant(until),
        text=trait_text(trait),
        found=len(counted),
        used=len(used),
        entries=deciding(used[::-1]),
    )
