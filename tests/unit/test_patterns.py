r"""Every pattern in the code says where it ends: ``$`` also matches before a line end, which no id, key or setting has.

Found in the sources, so that a new pattern cannot be forgotten.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from re import _constants as constants  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT / "src", ROOT / "clients/python/src")
FUNCTIONS = ("compile", "fullmatch", "match", "search", "sub", "split", "findall", "finditer")
BEGINNINGS = {
    ("collect/http/request.py", "_ABSOLUTE"),
    ("connections/kinds.py", "_ORIGIN"),
    ("connections/request_check.py", "_SCHEME"),
    ("database/postgres/dialect.py", "_WORD"),
    ("expressions/parse.py", "_ODD_START"),
    ("kinds/mapping/own.py", "_BEFORE_NAME"),
    ("kinds/postgres/names.py", "_LOWER_BEGINNING"),
    ("kinds/requests.py", "_BEYOND_ORIGIN"),
    ("kinds/requests.py", "_ORIGIN"),
}
"""Patterns used with ``match``: each asks how a text begins, and accepts nothing by that."""


class Pattern(NamedTuple):
    """A pattern as it is written, its flags, and whether msgspec checks by it."""

    place: str
    text: str | bytes
    flags: int
    is_constraint: bool


def _trees() -> Iterator[tuple[str, ast.Module]]:
    for folder in FOLDERS:
        for path in sorted(folder.rglob("*.py")):
            yield path.relative_to(folder).as_posix().partition("/")[2], ast.parse(path.read_text())


def _patterns() -> Iterator[Pattern]:
    for path, tree in _trees():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            name = ast.unparse(node.func)
            given = [keyword.value for keyword in node.keywords if keyword.arg == "pattern" and name.endswith("Meta")]
            written = given or (node.args[:1] if name in {f"re.{each}" for each in FUNCTIONS} else [])
            for text in written:
                if isinstance(text, ast.Constant):
                    flags = sum(getattr(re, flag) for flag in re.findall(r"\bre\.([A-Z]+)\b", ast.unparse(node)))
                    yield Pattern(f"{path}:{node.lineno}", text.value, flags, bool(given))


def _ends(parsed: Any) -> Iterator[Any]:
    """The ``$`` in a parsed pattern, however deep."""
    for item in parsed:
        if isinstance(item, tuple) and len(item) == 2 and item == (constants.AT, constants.AT_END):
            yield item
        elif isinstance(item, (tuple, list, parser.SubPattern)):
            yield from _ends(item)


@pytest.fixture(scope="module")
def patterns() -> list[Pattern]:
    """Every pattern in the sources. Not found while tests are collected: each process of them would look."""
    return list(_patterns())


def test_the_patterns_are_found(patterns: list[Pattern]) -> None:
    """The sources are read: dozens of patterns, and those that msgspec checks ids and write keys by."""
    assert len(patterns) > 50
    assert sum(pattern.is_constraint for pattern in patterns) >= 2


def test_none_ends_before_a_line_end(patterns: list[Pattern]) -> None:
    r"""``fullmatch`` or ``\Z`` instead of ``$``, but where lines are meant; msgspec's are tied at both ends."""
    assert [each.place for each in patterns if _may_end_early(each)] == []
    constraints = [each for each in patterns if each.is_constraint]
    assert [each.place for each in constraints if not re.fullmatch(r"\^.*\\Z", str(each.text), re.DOTALL)] == []


def _may_end_early(pattern: Pattern) -> bool:
    return not pattern.flags & re.MULTILINE and bool(list(_ends(parser.parse(pattern.text, pattern.flags))))


def test_nothing_is_accepted_by_its_beginning() -> None:
    """``match`` looks at the beginning only; whoever checks a whole text uses ``fullmatch``."""
    used = {
        (path, ast.unparse(node.func.value))
        for path, tree in _trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "match"
    }
    assert used == BEGINNINGS
