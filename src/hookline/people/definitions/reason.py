"""Explain a judgement clause by clause, with what decided each, in a form that the API, commands and pages share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hookline.connections.definitions.model import (
    ANY,
    Audience,
    ComputedTrait,
    Condition,
    Duration,
    When,
    instant_ms,
    instants_ms,
    terms_of,
    window_ms,
)
from hookline.expressions.compile import MISSING, compile_condition, compile_operand
from hookline.expressions.parse import write_path
from hookline.expressions.tree import Path, paths_in
from hookline.people.definitions.aggregates import NEVER
from hookline.people.definitions.feature import Entry, Facts, asks_events, feature_of
from hookline.people.definitions.judge import compile_clause, parse_person_condition, person_fields

SHOWN_MAX = 10
"""Events that a reason names, and values of groups by path."""


class Deciding(msgspec.Struct, frozen=True, rename="camel"):
    """An event that decided: when it happened (ms), its position in the journal, and the value that counted."""

    at_ms: int
    position: int
    value: float | str | bool | None = None


class Reason(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One clause of a condition: what it says, whether it holds, and what decided that.

    ``path`` is the clause's place in the definition. ``until_ms`` is when that may change of itself. Clauses about
    events have ``found``, how many count, and the newest of them or the first and last; an ``if`` has the ``values``
    it asked for, by path, those of groups as a list, and in ``values_more`` how many groups have others, where there
    are; ``all``, ``any`` and ``not`` have their ``terms``.
    """

    path: str
    text: str
    held: bool
    until_ms: int | None = None
    found: int | None = None
    entries: tuple[Deciding, ...] = ()
    values: dict[str, Any] = {}
    values_more: dict[str, int] = {}
    terms: tuple[Reason, ...] = ()


class Verdict(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The membership of a person, the next instant (ms) at which it may change of itself, and why."""

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
    return tuple(Deciding(entry.at_ms, entry.position, entry.value) for entry in newest_first[:SHOWN_MAX])


_AGGREGATES = {"mostFrequent": "most frequent", "uniqueList": "list of different", "uniqueCount": "number of different"}


def clause_text(condition: Condition) -> str:
    """Return what the condition says: ``did "Order Completed" at least 2 times in the last 30d``."""
    if condition.all is not None:
        return "all of these hold"
    if condition.any is not None:
        return "any of these holds"
    if condition.not_ is not None:
        return "this does not hold"
    if condition.if_ is not None:
        return condition.if_
    if condition.audience is not None:
        return f"is a member of the audience {condition.audience}"
    never = condition.times() == (0, 0)
    words = ["never"] if never else []
    words.append(_done(condition))
    for which, when in (("first", condition.first), ("last", condition.last)):
        words += [f"for the {which} time {_when(when)}"] if when is not None else []
    if condition.first is None and condition.last is None and not never:
        words.append(_often(*condition.times()))
    return " ".join([*words, *_limits(condition)])


def trait_text(trait: ComputedTrait) -> str:
    """Return what the trait is: ``the sum of properties.total over every "Order Completed" in the last 90d``."""
    what = _AGGREGATES.get(trait.aggregate, trait.aggregate)
    of = "" if trait.property is None else f" of {trait.property}"
    return " ".join([f"the {what}{of} over every {_event(trait)}", *_limits(trait)])


def _event(trait: ComputedTrait) -> str:
    if trait.event is not None:
        return f'"{trait.event}"' if trait.event != ANY else "event"
    kind, name = ("page", trait.page) if trait.page is not None else ("screen", trait.screen)
    return f'view of the {kind} "{name}"' if name != ANY else f"view of a {kind}"


def _done(clause: Condition) -> str:
    if clause.event is not None:
        return f'did "{clause.event}"' if clause.event != ANY else "did any event"
    kind, name = ("page", clause.page) if clause.page is not None else ("screen", clause.screen)
    return f'viewed the {kind} "{name}"' if name != ANY else f"viewed any {kind}"


def _often(least: int, most: int | None) -> str:
    if most is None:
        return f"at least {_times(least)}"
    if least == most:
        return f"exactly {_times(least)}"
    return f"{least} to {_times(most)}" if least else f"at most {_times(most)}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _limits(clause: Condition | ComputedTrait) -> list[str]:
    words = [] if clause.within is None else [f"in the last {_duration(clause.within)}"]
    words += [] if clause.between is None else ["from {} until {}".format(*clause.between)]
    words += [] if clause.where is None else [f"where {clause.where}"]
    return words


def _when(when: When) -> str:
    if when.within is not None:
        return f"in the last {_duration(when.within)}"
    words = [] if when.after is None else [f"after {when.after}"]
    words += [] if when.before is None else [f"before {when.before}"]
    return " and ".join(words)


def _duration(within: Duration) -> str:
    return within.strip() if isinstance(within, str) and not within.strip().isdigit() else f"{within} seconds"


def explain(
    audience: Audience, facts: Facts, now_ms: int, traits: Mapping[str, ComputedTrait] | None = None
) -> Verdict:
    """Return whether a person belongs to a checked audience, and why; ``traits`` are all computed traits by id."""
    reason = _Explanation(facts, now_ms, traits or {}).of("condition", audience.condition)
    return Verdict(member=reason.held, until_ms=reason.until_ms, reason=reason)


class _Explanation:
    def __init__(self, facts: Facts, now_ms: int, traits: Mapping[str, ComputedTrait]) -> None:
        self._facts = facts
        self._now_ms = now_ms
        self._traits = traits

    def of(self, path: str, condition: Condition) -> Reason:
        until = NEVER  # nothing but news changes what is known of a person, and to look at all groups once is enough
        if condition.if_ is None:
            _, until = compile_clause(condition, self._traits)(self._facts, self._now_ms)
        return Reason(path=path, text=clause_text(condition), until_ms=instant(until), **self._found(path, condition))

    def _found(self, path: str, condition: Condition) -> dict[str, Any]:
        if condition.if_ is not None:
            return self._of_person(condition.if_)
        if condition.audience is not None:
            return {"held": self._facts.is_member(condition.audience)}
        if asks_events(condition):
            return self._of_events(condition)
        terms = tuple(self.of(inner, term) for inner, term in terms_of(path, condition))
        held = [term.held for term in terms]
        if condition.not_ is not None:
            return {"held": not held[0], "terms": terms}
        return {"held": all(held) if condition.all is not None else any(held), "terms": terms}

    def _of_events(self, condition: Condition) -> dict[str, Any]:
        counted = [entry for entry in self._facts.entries(feature_of(condition)) if self._counts(condition, entry)]
        if condition.first is None and condition.last is None:
            least, most = condition.times()
            held = least <= len(counted) <= (len(counted) if most is None else most)
            return {"held": held, "found": len(counted), "entries": deciding(counted[::-1])}
        asked = [(entry, when) for entry, when in _ends(condition, counted) if when is not None]
        held = bool(asked) and all(self._fits(entry, when) for entry, when in asked)
        entries = list(dict.fromkeys(entry for entry, _ in reversed(asked)))
        return {"held": held, "found": len(counted), "entries": deciding(entries)}

    def _counts(self, condition: Condition, entry: Entry) -> bool:
        if entry.at_ms > self._now_ms:
            return False
        if condition.within is not None:
            return self._now_ms - entry.at_ms < window_ms(condition.within)
        if condition.between is not None:
            begins, ends = instants_ms(condition.between)
            return begins <= entry.at_ms < ends
        return True

    def _fits(self, entry: Entry, when: When) -> bool:
        if when.within is not None and self._now_ms - entry.at_ms >= window_ms(when.within):
            return False
        if when.before is not None and entry.at_ms >= instant_ms(when.before):
            return False
        return when.after is None or entry.at_ms >= instant_ms(when.after)

    def _of_person(self, text: str) -> dict[str, Any]:
        tree = parse_person_condition(text)
        holds = compile_condition(tree)
        asked = {write_path(parts): (parts[0], compile_operand(Path(parts))) for parts in paths_in(tree)}
        found: dict[str, list[Any]] = {path: [] for path in asked}
        more: Counter[str] = Counter()
        held = False
        # One group at a time: the traits of all groups of a person, decoded, are more than is at hand.
        for fields in person_fields(tree, self._traits)(self._facts):
            decides = not held and holds(fields)
            held = held or decides
            for path, (root, operand) in asked.items():
                value = operand(fields)
                if value is MISSING or (root != "groupTraits" and found[path]):
                    continue
                if len(found[path]) == SHOWN_MAX:
                    more[path] += 1
                    if not decides:
                        continue
                    found[path].pop()  # the group that decided is shown
                found[path].append(value)
        values = {path: each if asked[path][0] == "groupTraits" else each[0] for path, each in found.items() if each}
        return {"held": held, "values": values, "values_more": dict(more)}


def _ends(condition: Condition, counted: list[Entry]) -> list[tuple[Entry, When | None]]:
    return [(counted[0], condition.first), (counted[-1], condition.last)] if counted else []
