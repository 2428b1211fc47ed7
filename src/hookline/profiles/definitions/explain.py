"""Explaining: the same question that ``judge`` answers, answered clause by clause with what decided each.

Looks at every clause and goes through the events one by one. It shares no arithmetic with the quick way, but for the
instants at which answers may change; a test holds the two against each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hookline.connections.definitions.model import Audience, ComputedTrait, Condition, When
from hookline.connections.definitions.times import instant_ms, instants_ms, window_ms
from hookline.connections.definitions.walk import terms_of
from hookline.expressions.compile import MISSING, compile_condition, compile_operand
from hookline.expressions.tree import Path, paths_in
from hookline.expressions.write import write_path
from hookline.profiles.definitions.features import asks_events, feature_of
from hookline.profiles.definitions.judge import compile_clause
from hookline.profiles.definitions.person_fields import parse_person_condition, person_fields
from hookline.profiles.definitions.reason import Reason, Verdict, deciding, instant
from hookline.profiles.definitions.sentence import clause_text
from hookline.profiles.feature import Entry, Facts


def explain(
    audience: Audience, facts: Facts, now_ms: int, traits: Mapping[str, ComputedTrait] | None = None
) -> Verdict:
    """Whether a person belongs to a checked audience, and why; ``traits`` are all computed traits by id."""
    reason = _Explanation(facts, now_ms, traits or {}).of("condition", audience.condition)
    return Verdict(member=reason.held, until_ms=reason.until_ms, reason=reason)


class _Explanation:
    def __init__(self, facts: Facts, now_ms: int, traits: Mapping[str, ComputedTrait]) -> None:
        self._facts = facts
        self._now_ms = now_ms
        self._traits = traits

    def of(self, path: str, condition: Condition) -> Reason:
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
        looked_at = list(person_fields(tree, self._traits)(self._facts))
        values: dict[str, Any] = {}
        for parts in paths_in(tree):
            operand = compile_operand(Path(parts))
            found = [value for fields in looked_at if (value := operand(fields)) is not MISSING]
            if found:
                values[write_path(parts)] = found if parts[0] == "groupTraits" else found[0]
        return {"held": any(map(holds, looked_at)), "values": values}


def _ends(condition: Condition, counted: list[Entry]) -> list[tuple[Entry, When | None]]:
    return [(counted[0], condition.first), (counted[-1], condition.last)] if counted else []
