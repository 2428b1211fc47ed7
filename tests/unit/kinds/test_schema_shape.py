"""A schema of whatever shape has problems, each a sentence at its place; none is a fault of who looks at it."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from hookline.kinds.schema_shape import DEPTH_MAX
from hookline.kinds.settings import _KEYWORDS, schema_problems

WRONG: tuple[Any, ...] = (None, 5, -1, 0.5, True, "text", "(", [], [1], [[]], [{}], {}, {1: 2}, {"a": None}, {"a": {}})
"""Values of every shape: for each keyword most of them are wrong."""
ANY_VALUE = {"default"}


@pytest.mark.parametrize("schema", [each for each in WRONG if not isinstance(each, dict)], ids=repr)
def test_what_is_no_schema(schema: object) -> None:
    """The settings as a whole, those of a name, and of a list's entries are each a schema."""
    assert list(schema_problems(schema)) == ["settings: write a schema here, such as {type: string}"]
    (problem,) = schema_problems({"properties": {"a": schema}})
    assert problem == "settings.properties.a: write a schema here, such as {type: string}"
    (problem,) = schema_problems({"items": schema})
    assert problem.startswith("settings.items: write a schema here")


@pytest.mark.parametrize("keyword", sorted(_KEYWORDS - ANY_VALUE))
def test_what_a_keyword_cannot_hold(keyword: str) -> None:
    """Null goes nowhere; whatever else is refused is refused at the keyword, at each depth."""
    (problem,) = schema_problems({"type": "string", keyword: None})
    assert problem.startswith(f"settings.{keyword}: ")
    for value in WRONG:
        for problem in schema_problems({"properties": {"a": {"type": "string", keyword: value}}}):
            assert problem.startswith(f"settings.properties.a.{keyword}"), value


@pytest.mark.parametrize(("one", "other"), [("enum", "defaultBy"), ("properties", "required"), ("when", "advanced")])
def test_keywords_that_are_read_together(one: str, other: str) -> None:
    """A wrong value of one is no trouble to who looks at the other."""
    for first, second in product(WRONG, WRONG):
        schema = {"properties": {"a": {one: first}, "b": {other: second, one: first}}, one: first, other: second}
        assert all(": " in problem for problem in schema_problems(schema))


def test_all_problems_of_a_shape_are_found_at_once() -> None:
    """Who writes a kind sees them together."""
    schema = {"required": "a", "properties": {"a": {"enum": {}, "items": {"title": 5}}, "b": 5}, "minItems": -1}
    assert sorted(problem.partition(": ")[0] for problem in schema_problems(schema)) == [
        "settings.minItems",
        "settings.properties.a.enum",
        "settings.properties.a.items.title",
        "settings.properties.b",
        "settings.required",
    ]


def test_names_and_keywords_that_are_numbers() -> None:
    """YAML has them; they are no names here."""
    assert [problem.partition(": ")[0] for problem in schema_problems({5: 5, "x": 5})] == ["settings.5", "settings.x"]
    (problem,) = schema_problems({"properties": {5: {"type": "string"}}})
    assert problem.endswith("a number as a name in quotes")


def test_a_pattern_that_repeats_too_often() -> None:
    """It is one that cannot be read."""
    (problem,) = schema_problems({"type": "string", "pattern": "a{99999999999999999999}"})
    assert problem.startswith("settings.pattern: the pattern cannot be read")


def test_a_schema_that_goes_too_deep() -> None:
    """What stands below is not looked at."""
    schema: dict[str, Any] = {"required": 5}
    for _ in range(2_000):
        schema = {"items": schema}
    (problem,) = schema_problems(schema)
    assert problem.endswith(f"settings are nested at most {DEPTH_MAX} deep")
