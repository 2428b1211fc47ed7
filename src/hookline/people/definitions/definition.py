"""A definition ready to be judged: what it needs of a person, in which order it comes, and what it is sent as."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from hookline.connections.definitions.model import (
    Audience,
    ComputedTrait,
    Definition,
    conditions_of,
    sync_ms,
    trait_name,
)
from hookline.expressions.tree import paths_in
from hookline.kinds.catalog import OWN, published_name
from hookline.people.definitions.aggregates import AGGREGATES, EMPTY, stretch_of
from hookline.people.definitions.feature import Facts, Feature, feature_of, features_of
from hookline.people.definitions.judge import compile_audience, parse_person_condition
from hookline.people.definitions.reason import Computation, deciding, instant, trait_text

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


KindName = Literal["audience", "trait"]
Key = tuple[KindName, str]
"""A definition's kind and id."""


def key_of(definition: Definition) -> Key:
    """Return a definition's key."""
    return ("trait" if isinstance(definition, ComputedTrait) else "audience", definition.id)


_NO_KINDS: Mapping[str, str] = MappingProxyType({})


class CompiledDefinition(NamedTuple):
    """One definition, compiled.

    ``published`` is what ``integrations`` calls the destinations. ``judge`` gives a person's value at a time
    (ms), and until when; ``empty`` is the value, as JSON, of whom nothing is known. ``needs`` are definitions whose
    values it asks for, ``judged`` stands for everything its value depends on.
    """

    key: Key
    trait: str
    destinations: tuple[str, ...]
    published: tuple[str, ...]
    sync_ms: int
    judge: Callable[[Facts, int], tuple[object, int]]
    empty: str
    features: frozenset[Feature]
    needs: frozenset[Key]
    asks_traits: bool
    asks_groups: bool
    judged: str


def in_order(
    audiences: Iterable[Audience], traits: Iterable[ComputedTrait], kinds: Mapping[str, str] = _NO_KINDS
) -> list[CompiledDefinition]:
    """Return every enabled definition, each after those it needs; ``kinds`` are the kinds of destinations by id."""
    by_id = {trait.id: trait for trait in traits}
    definitions: list[Definition] = [*by_id.values(), *audiences]
    waiting = {ready.key: ready for ready in (ready_of(each, by_id, kinds) for each in definitions)}
    disabled = {("trait", each.id) for each in by_id.values() if not each.enabled}
    disabled |= {("audience", each.id) for each in audiences if not each.enabled}
    found: list[CompiledDefinition] = []
    while waiting:
        free = [ready for ready in waiting.values() if not ready.needs & waiting.keys()]
        if not free:  # checked before: no two audiences need each other
            break
        for ready in free:
            del waiting[ready.key]
            if ready.key not in disabled:
                found.append(ready)
    return found


def ready_of(
    definition: Definition, traits: Mapping[str, ComputedTrait], kinds: Mapping[str, str] = _NO_KINDS
) -> CompiledDefinition:
    """Return one checked definition; ``traits`` are all computed traits by id, ``kinds`` the kinds of destinations by
    id."""
    published = tuple(sorted({published_name(kinds.get(id, OWN)) for id in definition.destinations}))
    if isinstance(definition, ComputedTrait):
        return _trait(definition, published)
    return _audience(definition, published, traits)


def _audience(
    audience: Audience, published: tuple[str, ...], traits: Mapping[str, ComputedTrait]
) -> CompiledDefinition:
    needs: set[Key] = set()
    asked: set[str] = set()
    for _, condition in conditions_of(audience):
        if condition.audience is not None:
            needs.add(("audience", condition.audience))
        if condition.if_ is not None:
            for parts in paths_in(parse_person_condition(condition.if_)):
                asked.add(parts[0])
                if parts[0] == "computed":
                    needs.add(("trait", parts[1]))
    aggregates = sorted((id, traits[id].aggregate) for kind, id in needs if kind == "trait" and id in traits)
    return CompiledDefinition(
        key=("audience", audience.id),
        trait=trait_name(audience.name),
        destinations=audience.destinations,
        published=published,
        sync_ms=sync_ms(audience.sync_every),
        judge=compile_audience(audience, traits),
        empty="false",
        features=features_of(audience),
        needs=frozenset(needs),
        asks_traits="traits" in asked,
        asks_groups="groupTraits" in asked,
        judged=_digest(audience.condition, aggregates, bool(audience.destinations)),
    )


def _trait(trait: ComputedTrait, published: tuple[str, ...]) -> CompiledDefinition:
    what = (trait.event, trait.page, trait.screen, trait.aggregate, trait.property)
    return CompiledDefinition(
        key=("trait", trait.id),
        trait=trait_name(trait.name),
        destinations=trait.destinations,
        published=published,
        sync_ms=sync_ms(trait.sync_every),
        judge=compile_trait(trait),
        empty=as_json(EMPTY.get(trait.aggregate)),
        features=features_of(trait),
        needs=frozenset(),
        asks_traits=False,
        asks_groups=False,
        judged=_digest(what, (trait.within, trait.between, trait.where, bool(trait.destinations))),
    )


def as_json(value: object) -> str:
    """Return a value as it is stored and compared."""
    return msgspec.json.encode(value).decode()


def _digest(*parts: object) -> str:
    return blake2b(msgspec.json.encode(parts), digest_size=16).hexdigest()
