"""What makes a filter right or wrong by itself: its condition, and what goes with what it does."""

from __future__ import annotations

from collections.abc import Iterator

from hookline.connections.model import Filter
from hookline.events.view import EVENT_FIELDS, EVENT_OBJECTS
from hookline.expressions.error import ExpressionError
from hookline.expressions.parse import parse
from hookline.expressions.path import parse_path

PLAN_LEVEL = "business"
"""The plan level that filters need (SPEC 4.2 rule 10)."""

_WITH_PROPERTIES = ("dropProperties", "allowProperties")


def filter_problems(filter: Filter) -> Iterator[tuple[str, str]]:
    """Yield the key and a sentence for each thing wrong."""
    try:
        parse(filter.condition, EVENT_FIELDS)
    except ExpressionError as error:
        yield "if", str(error)
    if filter.do == "sample" and filter.percent is None:
        yield "percent", "say how many percent of the events are sent, such as percent: 10"
    if filter.do != "sample" and filter.percent is not None:
        yield "percent", f"percent belongs to do: sample, not to {filter.do}; take it out"
    if filter.do in _WITH_PROPERTIES and not filter.properties:
        yield "properties", f"say which fields {filter.do} means, such as properties: [properties.card]"
    if filter.do not in _WITH_PROPERTIES and filter.properties is not None:
        yield (
            "properties",
            f"properties belong to dropProperties and allowProperties, not to {filter.do}; take them out",
        )
    for index, path in enumerate(filter.properties or () if filter.do in _WITH_PROPERTIES else ()):
        sentence = _path_problem(path)
        if sentence is not None:
            yield f"properties[{index}]", sentence


def _path_problem(path: str) -> str | None:
    try:
        first = parse_path(path)[0]
    except ExpressionError as error:
        return str(error)
    if first in EVENT_OBJECTS:
        return None
    return f"begin the path with properties, traits or context, not with {first!r}; other fields are always sent"
