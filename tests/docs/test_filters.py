"""docs/reference/filters.md against the language and the limits."""

from __future__ import annotations

import re
import typing

import pytest

from hookline.connections import file
from hookline.connections.file import check_text
from hookline.connections.model import FILTER_PROPERTIES_MAX, FILTERS_MAX, Filter
from hookline.events.view import EVENT_FIELDS
from hookline.expressions.lexer import TEXT_CHARACTERS_MAX
from hookline.expressions.parse import DEPTH_MAX, parse
from hookline.expressions.tree import FUNCTIONS
from hookline.route.filters import Filters, rules_of
from tests.docs.pages import DOCS, section


def first_cells(heading: str) -> list[str]:
    """The names in the first column under a heading."""
    return re.findall(r"^\| `(\w+)", section("reference/filters.md", heading), re.MULTILINE)


def blocks(language: str) -> list[str]:
    """The code blocks of the page in a language."""
    return re.findall(
        rf"^```{language}\n(.*?)^```$", (DOCS / "reference/filters.md").read_text(), re.MULTILINE | re.DOTALL
    )


def test_fields_and_functions_are_those_of_the_language() -> None:
    """The tables list exactly what there is."""
    assert sorted(first_cells("Fields")) == sorted(EVENT_FIELDS)
    assert first_cells("Functions") == list(FUNCTIONS)
    assert first_cells("What a filter does") == list(typing.get_args(typing.get_type_hints(Filter)["do"]))


def test_limits_are_the_real_ones() -> None:
    """Each number of the table is the one that is enforced."""
    numbers = [
        int(number.replace(",", "")) for number in re.findall(r"\| ([\d,]+)", section("reference/filters.md", "Limits"))
    ]
    assert numbers == [TEXT_CHARACTERS_MAX, DEPTH_MAX, FILTERS_MAX, FILTER_PROPERTIES_MAX]


@pytest.mark.parametrize("line", section("reference/filters.md", "The language").split("```")[1].strip().splitlines())
def test_examples_are_expressions(line: str) -> None:
    """What people copy parses."""
    parse(line, EVENT_FIELDS)


def test_the_example_file_is_good() -> None:
    """The connections of the page pass the check."""
    (text,) = blocks("yaml")
    assert check_text("sources: [{id: website, name: Website}]\n" + text) == []


def test_the_example_output_is_of_these_filters() -> None:
    """It names each filter of the example file as the check does; those before a filter leave events out."""
    (text,) = blocks("yaml")
    configuration, _ = file.read("sources: [{id: website, name: Website}]\n" + text)
    ((_, destination),) = configuration.destinations
    filters = Filters(*rules_of(destination))
    shown = section("reference/filters.md", "Try a filter before saving it").split("```")[1]
    named = re.findall(r"^  (.*): matched \d+ of 200$", shown, re.MULTILINE)
    assert named == [filters.rule(index) for index in range(len(destination.filters))]
