"""What makes an audience or a computed trait right or wrong by itself; what lies between them is ``together``'s.

Problems come as code, path within the definition and a sentence that says what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal, NamedTuple

from msgspec.json import encode
from msgspec.structs import replace

from hookline.connections.definitions.model import (
    ANY,
    COUNT_MAX,
    Aggregate,
    Audience,
    ComputedTrait,
    Condition,
    Count,
    Definition,
    Instants,
    When,
    conditions_of,
    conditions_of_one,
    dotted,
    instant_ms,
    instants_ms,
    sync_ms,
    terms_of,
    trait_name,
    window_ms,
)
from hookline.events.view import EVENT_FIELDS
from hookline.expressions.compile import compile_condition
from hookline.expressions.lexer import ExpressionError
from hookline.expressions.parse import parse
from hookline.expressions.tree import parse_path, paths_in
from hookline.settings import DAY_SECONDS

DEPTH_MAX = 8
"""Levels of ``all``, ``any`` and ``not`` in each other."""
CLAUSES_MAX = 200
"""Clauses in one audience, all levels together."""
PERSON_FIELDS = ("traits", "groupTraits", "computed")
"""What a path of an ``if`` may begin with."""
WITHOUT_PROPERTY: tuple[Aggregate, ...] = ("count",)

DefinitionCode = Literal[
    "invalid_definition", "duplicate_trait", "unknown_destination", "unknown_definition", "audience_cycle"
]


class DefinitionProblem(NamedTuple):
    """One thing wrong: ``path`` is within the definition, such as ``condition.all[0].count``."""

    code: DefinitionCode
    path: str
    message: str


_KINDS = ("all", "any", "not", "event", "page", "screen", "if", "audience")
_DONE = ("event", "page", "screen")
_OF_EVENTS = ("count", "never", "within", "between", "where", "first", "last")
_HOW_OFTEN = ("count", "never", "within", "between")


def definition_problems(definition: Definition) -> list[DefinitionProblem]:
    """Everything wrong with one definition, whatever else there is."""
    problems = list(_common(definition))
    if isinstance(definition, ComputedTrait):
        problems += _computed(definition)
    else:
        problems += _conditions(definition)
    return [DefinitionProblem("invalid_definition", path, message) for path, message in problems]


Problems = Iterator[tuple[str, str]]


def _common(definition: Definition) -> Problems:
    if not trait_name(definition.name):
        yield "name", "the name needs a letter or a digit: the trait's name is made of it"
    yield from _judged("syncEvery", sync_ms, definition.sync_every)
    for index, id in enumerate(definition.destinations):
        if id in definition.destinations[:index]:
            yield f"destinations[{index}]", f"destination {id!r} is named twice; name it once"


def _computed(trait: ComputedTrait) -> Problems:
    done = [kind for kind in _DONE if getattr(trait, kind) is not None]
    if len(done) != 1:
        yield "", "say which events count with exactly one of event, page and screen"
    yield from _named("", trait, done)
    yield from _times("", trait.within, trait.between)
    yield from _where("where", trait.where)
    if trait.aggregate in WITHOUT_PROPERTY:
        if trait.property is not None:
            yield "property", f"{trait.aggregate} looks at no property; take it out"
    elif trait.property is None:
        yield "property", f"say of which property {trait.aggregate} is made, such as properties.total"
    else:
        yield from _property(trait.property)


def _property(path: str) -> Problems:
    try:
        first = parse_path(path)[0]
    except ExpressionError as error:
        yield "property", str(error)
        return
    if first not in EVENT_FIELDS:
        yield "property", f"an event has no field {first!r}; begin with properties, such as properties.{path}"


def _conditions(audience: Audience) -> Problems:
    clauses = 0
    # Breadth and depth first: what follows may then recurse.
    waiting = [("condition", audience.condition, 1)]
    while waiting:
        path, condition, depth = waiting.pop()
        clauses += 1
        if depth > DEPTH_MAX:
            yield path, f"conditions are nested deeper than {DEPTH_MAX} levels; make an audience of the inner ones"
            return
        waiting += [(inner, term, depth + 1) for inner, term in terms_of(path, condition)]
    if clauses > CLAUSES_MAX:
        yield "condition", f"there are {clauses} conditions, at most {CLAUSES_MAX} are allowed; make several audiences"
        return
    problems = [problem for path, condition in conditions_of(audience) for problem in _condition(path, condition)]
    yield from problems or always_true(audience.condition)


def _condition(path: str, condition: Condition) -> Problems:
    given = _given(condition)
    kinds = [key for key in _KINDS if key in given]
    if len(kinds) != 1:
        found = f"found {' and '.join(kinds)}" if kinds else "found none"
        yield path, f"a condition has exactly one of {', '.join(_KINDS)}; {found}"
        return
    (kind,) = kinds
    if kind in _DONE:
        yield from _event_clause(path, condition, given)
        return
    for key in _OF_EVENTS:
        if key in given:
            yield dotted(path, key), f"{key} belongs to event, page and screen, not to {kind}; take it out"
    if kind in ("all", "any") and not given[kind]:
        yield dotted(path, kind), f"{kind} needs at least one condition"
    if condition.if_ is not None:
        yield from _person_condition(dotted(path, "if"), condition.if_)


def _given(condition: Condition) -> dict[str, Any]:
    values: dict[str, Any] = {
        key: getattr(condition, {"not": "not_", "if": "if_"}.get(key, key)) for key in (*_KINDS, *_OF_EVENTS)
    }
    return {key: value for key, value in values.items() if value is not None and value is not False}


def _named(path: str, clause: Condition | ComputedTrait, kinds: Iterable[str]) -> Problems:
    """An empty name is a field that nobody filled in: it must not come to mean everybody."""
    for kind in kinds:
        if not getattr(clause, kind).strip():
            any_of_kind = f'{{{kind}: "{ANY}"}}'
            yield dotted(path, kind), f"name the {kind}, or write {any_of_kind} for any {kind}"


def _event_clause(path: str, condition: Condition, given: dict[str, Any]) -> Problems:
    yield from _named(path, condition, [kind for kind in _DONE if kind in given])
    yield from _times(path, condition.within, condition.between)
    yield from _where(dotted(path, "where"), condition.where)
    for key, when in (("first", condition.first), ("last", condition.last)):
        if when is not None:
            yield from _when(dotted(path, key), when)
            mixed = [other for other in _HOW_OFTEN if other in given]
            if mixed:
                message = f"{key} asks when and {mixed[0]} how often; write two clauses joined by all"
                yield dotted(path, key), message
    if condition.count is not None:
        if condition.never:
            yield dotted(path, "never"), "never is count: {eq: 0}; keep one of the two"
        yield from _count(dotted(path, "count"), condition.count)


def _count(path: str, count: Count) -> Problems:
    given = [value for value in (count.gte, count.lte, count.eq) if value is not None]
    if not given:
        yield path, "say how often, such as count: {gte: 2}"
    elif count.eq is not None and len(given) > 1:
        yield path, "eq says it all; take the others out, or eq"
    elif count.gte is not None and count.lte is not None and count.gte > count.lte:
        yield path, f"nothing is at least {count.gte} and at most {count.lte}; swap them"
    elif count.gte == 0 and count.lte is None:
        yield path, "everybody did it at least 0 times; write gte: 1, or never: true"
    elif not count.gte and count.lte == COUNT_MAX:
        yield path, f"nobody is counted beyond {COUNT_MAX} times, so this holds for everybody; lower it"


def _when(path: str, when: When) -> Problems:
    given = [key for key in ("within", "before", "after") if getattr(when, key) is not None]
    if not given:
        yield path, "say when with within, before or after, such as {within: 7d}"
    elif when.within is not None and len(given) > 1:
        yield path, "within stands alone; take the others out, or within"
    if when.within is not None:
        yield from _judged(dotted(path, "within"), window_ms, when.within)
    for key, text in (("before", when.before), ("after", when.after)):
        if text is not None:
            yield from _judged(dotted(path, key), instant_ms, text)


def _times(path: str, within: object, between: Instants | None) -> Problems:
    if within is not None:
        yield from _judged(dotted(path, "within"), window_ms, within)
    if between is not None:
        yield from _judged(dotted(path, "between"), instants_ms, between)
    if within is not None and between is not None:
        yield dotted(path, "between"), "within slides and between stands still; keep one of the two"


def _where(path: str, text: str | None) -> Problems:
    if text is not None:
        try:
            parse(text, EVENT_FIELDS)
        except ExpressionError as error:
            yield path, str(error)


def _person_condition(path: str, text: str) -> Problems:
    try:
        tree = parse(text, PERSON_FIELDS)
    except ExpressionError as error:
        yield path, str(error)
        return
    paths = list(paths_in(tree))
    if not paths:
        who = "everybody" if compile_condition(tree)(_NOBODY) else "nobody"
        yield path, f"this names no trait, so it holds for {who}; compare a trait, such as traits.plan = 'pro'"
    for parts in paths:
        if len(parts) == 1:
            yield path, f"say which of {parts[0]}, such as {parts[0]}.plan"


def _judged(path: str, rule: Callable[[Any], object], value: object) -> Problems:
    try:
        rule(value)
    except ValueError as error:
        yield path, str(error)


_NOBODY: dict[str, object] = {name: {} for name in PERSON_FIELDS}

CLAUSES_COMBINED_MAX = 8
"""Different clauses of which every combination is tried: 256 of them, within a millisecond."""


def always_true(condition: Condition) -> Problems:
    """Yield a problem when the condition holds for everybody whatever they did, such as a clause or its opposite.

    Clauses count as independent of each other, except one that is never and the same at least once.
    """
    clauses = {_clause_of(each) for _, each in conditions_of_one(condition) if not _is_group(each)}
    if len(clauses) > CLAUSES_COMBINED_MAX:
        return
    ordered = sorted(clauses)
    for held in product((False, True), repeat=len(ordered)):
        if not _holds(condition, dict(zip(ordered, held, strict=True))):
            return
    message = "this holds for everybody, whatever they did: one clause or its opposite is always true; take one out"
    yield "condition", message


def _is_group(condition: Condition) -> bool:
    return not (condition.all is None and condition.any is None and condition.not_ is None)


def _clause_of(condition: Condition) -> bytes:
    """Return the clause as text; one that is never as the one that is at least once."""
    plain = replace(condition, never=False, count=None) if condition.times() in ((0, 0), (1, None)) else condition
    return encode(plain)


def _holds(condition: Condition, held: Mapping[bytes, bool]) -> bool:
    if condition.all is not None:
        return all(_holds(each, held) for each in condition.all)
    if condition.any is not None:
        return any(_holds(each, held) for each in condition.any)
    if condition.not_ is not None:
        return not _holds(condition.not_, held)
    return held[_clause_of(condition)] != (condition.times() == (0, 0))


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


DefinitionKind = Literal["audience", "computedTrait"]
_WORDS: dict[DefinitionKind, str] = {"audience": "audience", "computedTrait": "computed trait"}


class Reference(NamedTuple):
    """Hold what a definition says about another one, and where it says so."""

    kind: DefinitionKind
    id: str
    path: str


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Hold what else there is, by id, the definitions that are looked at included."""

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
