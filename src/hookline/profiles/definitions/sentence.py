"""A condition as a sentence about a person, as explanations and pages show it."""

from __future__ import annotations

from hookline.connections.definitions.model import ComputedTrait, Condition, Duration, When

_AGGREGATES = {"mostFrequent": "most frequent", "uniqueList": "list of different", "uniqueCount": "number of different"}


def clause_text(condition: Condition) -> str:
    """What the condition says: ``did "Order Completed" at least 2 times in the last 30d``."""
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
    """What the trait is: ``the sum of properties.total over every "Order Completed" in the last 90d``."""
    what = _AGGREGATES.get(trait.aggregate, trait.aggregate)
    of = "" if trait.property is None else f" of {trait.property}"
    return " ".join([f"the {what}{of} over every {_event(trait)}", *_limits(trait)])


def _event(trait: ComputedTrait) -> str:
    if trait.event is not None:
        return f'"{trait.event}"' if trait.event else "event"
    kind, name = ("page", trait.page) if trait.page is not None else ("screen", trait.screen)
    return f'view of the {kind} "{name}"' if name else f"view of a {kind}"


def _done(clause: Condition) -> str:
    if clause.event is not None:
        return f'did "{clause.event}"' if clause.event else "did anything"
    kind, name = ("page", clause.page) if clause.page is not None else ("screen", clause.screen)
    return f'viewed the {kind} "{name}"' if name else f"viewed any {kind}"


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
