"""docs/reference/mappings.md against the mappings: every example is resolved, by us and by Segment's package."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from hookline.kinds.mapping import MappingError, compile_mapping
from hookline.kinds.mapping.bounds import (
    CHARACTERS_MAX,
    DEPTH_MAX,
    DOCUMENT_CHARACTERS_MAX,
    DOCUMENT_VALUES_MAX,
    VALUES_MAX,
)
from hookline.kinds.mapping.directives import DIRECTIVES, PATTERN_UNITS_MAX
from tests.docs.pages import DOCS, rows, section
from tests.unit.kinds.mapping.oracle import Oracle

PAGE = (DOCS / "reference/mappings.md").read_text()
BLOCK = r"```json\n([^`]*)\n```"
EVENT: dict[str, Any] = json.loads(re.search(BLOCK, PAGE)[1])  # type: ignore[index]
EXAMPLES = [
    (json.loads(document), json.loads(gives))
    for document, gives in re.findall(rf"^{BLOCK}\n\n{BLOCK}$", section("reference/mappings.md", "Directives"), re.M)
]
REFUSALS = [row for row in rows("reference/mappings.md") if row[1].startswith("/")]


def test_every_directive_has_its_example() -> None:
    """The table, the headings and the examples are of exactly the directives that there are."""
    text = section("reference/mappings.md", "Directives")
    assert re.findall(r"^\| \[`(@\w+)`\]", text, re.MULTILINE) == list(DIRECTIVES)
    assert re.findall(r"^### (@\w+)$", text, re.MULTILINE) == list(DIRECTIVES)
    assert [name for name in DIRECTIVES if f'"{name}"' not in section("reference/mappings.md", name)] == []
    assert len(EXAMPLES) == text.count("```json") / 2 > len(DIRECTIVES)


@pytest.mark.parametrize(("document", "gives"), EXAMPLES)
def test_examples_give_what_they_say(document: Any, gives: Any) -> None:
    """What people copy does what stands below it."""
    assert compile_mapping(document).resolve(EVENT) == gives


def test_examples_are_those_of_segment() -> None:
    """Segment's package gives the same for each example."""
    oracle = Oracle()
    results = oracle.results([({"field": document}, EVENT) for document, _ in EXAMPLES])
    oracle.close()
    assert [json.loads(result or "{}") for result in results] == [{"field": gives} for _, gives in EXAMPLES]


def test_the_request_is_made_of_documents() -> None:
    """The headers and the body of the request at the top of the page are mappings."""
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (request,) = yaml.safe_load(text)["mapping"]
    headers = compile_mapping(request["headers"]).resolve(EVENT)
    body = compile_mapping(request["body"]).resolve(EVENT)
    assert (headers, body) == ({"Authorization": "Bearer k-1"}, {"id": "o-77", "email": "Ada@Example.com"})


@pytest.mark.parametrize(("document", "refusal"), REFUSALS)
def test_refusals_are_the_real_ones(document: str, refusal: str) -> None:
    """Each mistake of the table is refused in these words."""
    with pytest.raises(MappingError) as raised:
        compile_mapping(json.loads(document))
    assert str(raised.value) == refusal


def test_limits_are_the_real_ones() -> None:
    """Each number of the table is the one that is enforced."""
    numbers = [
        int(number.replace(",", ""))
        for number in re.findall(r"\| ([\d,]+) \|", section("reference/mappings.md", "Limits"))
    ]
    assert numbers == [
        DEPTH_MAX,
        DOCUMENT_VALUES_MAX,
        DOCUMENT_CHARACTERS_MAX,
        VALUES_MAX,
        CHARACTERS_MAX,
        PATTERN_UNITS_MAX,
    ]
