"""Mappings against Segment's own package: what it gives or refuses, so do we.

What is different on purpose is on the page on mappings. Some texts of one letter differ with the version of Unicode.
"""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Iterator
from typing import Any

import pytest

from hookline.kinds.mapping import MISSING
from hookline.kinds.mapping.bounds import Work
from hookline.kinds.mapping.javascript import stringify
from tests.unit.kinds.mapping.cases import CASES, EVENT, FAILURES
from tests.unit.kinds.mapping.oracle import FAILED, Oracle, ours
from tests.unit.kinds.mapping.pairs import MISTAKES, pair

PAIRS = int(os.environ.get("HOOKLINE_TEST_MAPPING_PAIRS", "5000"))
TOGETHER = 1_000
"""Pairs of one test; the last digits of its name are the first of them."""
LETTERS = [chr(code) for code in range(0x20000) if unicodedata.category(chr(code)) not in ("Cn", "Co")]
"""All that have a case, as far as this Python knows them."""


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    """One process for all tests."""
    running = Oracle()
    yield running
    running.close()


def changed(result: str | None) -> list[str]:
    """Return the letters of a result."""
    letters: list[str] = json.loads(result or "")["field"]
    return letters


def in_field(document: Any) -> Any:
    """Put a document into an object, which alone the oracle takes."""
    return {"field": document}


def test_the_situations_are_those_of_the_oracle(oracle: Oracle) -> None:
    """Each situation of the table comes out of the oracle as the table says."""
    results = oracle.results([(in_field(case.document), EVENT) for case in CASES])
    wanted = ["{}" if case.gives is MISSING else stringify(in_field(case.gives), Work()) for case in CASES]
    differing = [
        (case.situation, result, want)
        for case, result, want in zip(CASES, results, wanted, strict=True)
        if result != want
    ]
    assert differing == []


def test_mistakes_and_failures_are_those_of_the_oracle(oracle: Oracle) -> None:
    """What we refuse in the made-up pairs, and what fails for an event, fails there too."""
    pairs = [(in_field(document), EVENT) for document in (*MISTAKES, *(document for document, _ in FAILURES))]
    assert [pair for pair, result in zip(pairs, oracle.results(pairs), strict=True) if result != FAILED] == []
    assert [pair for pair in pairs if ours(*pair) != FAILED] == []


@pytest.mark.parametrize("first", range(0, PAIRS, TOGETHER))
def test_made_up_pairs(oracle: Oracle, first: int) -> None:
    """Value for value, to the last digit and in the order of the fields."""
    pairs = [pair(number) for number in range(first, min(first + TOGETHER, PAIRS))]
    results = oracle.results(pairs)
    for number, (made, result) in enumerate(zip(pairs, results, strict=True), first):
        assert ours(*made) == result, f"pair({number}): {made[0]!r} for {made[1]!r}"


def test_made_up_pairs_are_no_easy_ones() -> None:
    """Most of them give something, some fail, and no directive is left out."""
    pairs = [pair(number) for number in range(1_000)]
    results = [ours(*made) for made in pairs]
    assert results.count(FAILED) > 5
    assert sum(len(result or "") > 20 for result in results) > 500
    text = repr(pairs)
    assert all(f"'{name}'" in text for name in ("@path", "@template", "@if", "@literal", "@arrayPath", "@case"))
    assert all(f"'{name}'" in text for name in ("@replace", "@merge", "@flatten", "@json", "@transform"))


@pytest.mark.parametrize("operator", ["lower", "upper"])
def test_the_case_of_every_letter(oracle: Oracle, operator: str) -> None:
    """Every character becomes what it becomes in JavaScript, but for those that a newer Unicode gave a case."""
    each = {"@case": {"operator": operator, "value": {"@path": ""}}}
    document = in_field({"@arrayPath": ["$.letters", each]})
    pairs = [(document, {"letters": LETTERS[at : at + 4_000]}) for at in range(0, len(LETTERS), 4_000)]
    differing = [
        letter
        for pair, result in zip(pairs, oracle.results(pairs), strict=True)
        for letter, our, theirs in zip(pair[1]["letters"], changed(ours(*pair)), changed(result), strict=True)
        if our != theirs
    ]
    assert len(differing) <= 20, differing


def test_patterns_that_ignore_case_for_every_letter(oracle: Oracle) -> None:
    """A letter is found by its capital and its small form exactly where a regular expression of JavaScript finds it."""
    forms = [(letter, form) for letter in LETTERS for form in {letter.upper(), letter.lower()} if form != letter]
    options = [{"pattern": form[:10], "value": letter, "ignorecase": True} for letter, form in forms]
    pairs = [(in_field({"@replace": option}), {}) for option in options]
    differing = [pair for pair, result in zip(pairs, oracle.results(pairs), strict=True) if ours(*pair) != result]
    assert len(differing) <= 20, differing
