"""What makes definitions right or wrong together: their traits' names, and what they refer to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from hookline.connections.definitions.check import PERSON_FIELDS, DefinitionProblem
from hookline.connections.definitions.model import Audience, ComputedTrait, Definition
from hookline.connections.definitions.trait_name import trait_name
from hookline.connections.definitions.walk import conditions_of, dotted
from hookline.expressions.parse import parse
from hookline.expressions.tree import paths_in

DefinitionKind = Literal["audience", "computedTrait"]
_WORDS: dict[DefinitionKind, str] = {"audience": "audience", "computedTrait": "computed trait"}


class Reference(NamedTuple):
    """What a definition says about another one, and where it says so."""

    kind: DefinitionKind
    id: str
    path: str


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What else there is, by id, the definitions that are looked at included."""

    audiences: Mapping[str, Audience] = field(default_factory=dict)
    traits: Mapping[str, ComputedTrait] = field(default_factory=dict)
    destinations: Collection[str] = ()


def kind_of(definition: Definition) -> DefinitionKind:
    """Return which of the two a definition is."""
    return "audience" if isinstance(definition, Audience) else "computedTrait"


def references_of(definition: Definition) -> Iterator[Reference]:
    """Yield what a checked definition is judged by beside events and traits."""
    if not isinstance(definition, Audience):
        return
    for path, condition in conditions_of(definition):
        if condition.audience is not None:
            yield Reference("audience", condition.audience, dotted(path, "audience"))
        if condition.if_ is not None:
            for parts in paths_in(parse(condition.if_, PERSON_FIELDS)):
                if parts[0] == "computed":
                    yield Reference("computedTrait", parts[1], dotted(path, "if"))


def problems_together(definition: Definition, among: Surroundings) -> Iterator[DefinitionProblem]:
    """Yield what is wrong with a definition, right by itself, among the others."""
    for index, id in enumerate(definition.destinations):
        if id not in among.destinations:
            message = f"there is no destination {id!r}; add it, or remove it here"
            yield DefinitionProblem("unknown_destination", f"destinations[{index}]", message)
    for kind, id, path in references_of(definition):
        if id not in (among.audiences if kind == "audience" else among.traits):
            message = f"there is no {_WORDS[kind]} {id!r}; add it, or remove it here"
            yield DefinitionProblem("unknown_definition", path, message)
        elif kind == "audience" and (cycle := _way_back(definition.id, id, among.audiences)):
            names = " -> ".join([definition.id, *cycle])
            yield DefinitionProblem("audience_cycle", path, f"this audience would depend on itself: {names}; break it")


def trait_names(definitions: Iterable[Definition]) -> dict[str, Definition]:
    """Return the first definition of each trait name."""
    owners: dict[str, Definition] = {}
    for definition in definitions:
        owners.setdefault(trait_name(definition.name), definition)
    return owners


def name_problems(definition: Definition, owners: Mapping[str, Definition]) -> Iterator[DefinitionProblem]:
    """Yield a problem when the trait's name belongs to another definition."""
    name = trait_name(definition.name)
    owner = owners.get(name)
    if owner is not None and (kind_of(owner), owner.id) != (kind_of(definition), definition.id):
        message = f"{_WORDS[kind_of(owner)]} {owner.id!r} is sent as the trait {name!r} already; choose another name"
        yield DefinitionProblem("duplicate_trait", "name", message)


def _way_back(to: str, start: str, audiences: Mapping[str, Audience]) -> list[str]:
    """Return the audiences from ``start`` on that lead to ``to``; empty when none do."""
    ways = [[start]]
    seen = {start}
    while ways:
        way = ways.pop()
        if way[-1] == to:
            return way
        for kind, id, _ in references_of(audiences[way[-1]]) if way[-1] in audiences else ():
            if kind == "audience" and id not in seen:
                seen.add(id)
                ways.append([*way, id])
    return []
