"""YAML: read with lines, and refused where it could mislead or exhaust."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from hookline.connections.file_shape import PROBLEMS_MAX, YamlTree


def only(text: str) -> tuple[str, int | None]:
    """The code and line of the one problem of a text."""
    problems = YamlTree(text).problems
    assert len(problems) == 1, problems
    return problems[0].code, problems[0].line


def test_values_and_their_lines() -> None:
    """Every value is found again by its path, keys with dots included; an unknown path gives the nearest line."""
    tree = YamlTree("a:\n  - b: 1\n    X.Y: two\n  - c\nd: true\n")
    assert tree.value == {"a": [{"b": 1, "X.Y": "two"}, "c"], "d": True}
    lines = [tree.line_of(path) for path in ("a", "a[0].b", "a[0].X.Y", "a[1]", "d", "a[0].missing", "a[9]")]
    assert lines == [1, 2, 3, 4, 5, 2, 1]


def test_keys_are_what_is_written() -> None:
    """A header called No or 1 is not read as false or a number."""
    assert YamlTree("{No: x, 1: y}").value == {"No": "x", "1": "y"}


def test_json_is_read_whatever_it_escapes() -> None:
    """A character beyond the first 65,536 is two escapes there; an escaped backslash before them is no escape."""
    meant = {"name": "Shop 😀", "path": "\\ud83d\\ude00", "lines": ["\\😀", "\u20ac"]}
    tree = YamlTree(json.dumps(meant, indent=1))
    assert (tree.value, tree.problems, tree.line_of("lines[1]")) == (meant, [], 6)


def test_in_yaml_halves_stand_for_themselves() -> None:
    """In a plain or single-quoted text a backslash is a backslash."""
    assert YamlTree(r"a: '\ud83d\ude00'").value == {"a": r"\ud83d\ude00"}


def test_an_alias_is_its_anchor() -> None:
    """Anchors and aliases work as people expect."""
    assert YamlTree("a: &x [1]\nb: *x\n").value == {"a": [1], "b": [1]}


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n"])
def test_an_empty_document_is_no_value(text: str) -> None:
    """Nothing written is nothing, not an error."""
    tree = YamlTree(text)
    assert (tree.value, tree.problems) == (None, [])


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("a: 1\na: 2\n", "duplicate_key", 2),
        ("a: 1\n---\nb: 2\n", "extra_document", 2),
        ("a: 1\nb: [\n", "invalid_yaml", 3),
        ("a:\n\t- 1\n", "invalid_yaml", 2),
        ("a: \x07\n", "invalid_yaml", None),
        ("a: 1\nb: *nowhere\n", "invalid_yaml", 2),
        ("a: 1\n? [x]\n: y\n", "invalid_yaml", 2),
        ("a: 1\nb: !!int x\n", "invalid_value", 2),
        ("a: !!python/object/apply:os.getcwd []\nb: !mine x\n", "invalid_value", 2),
        ("[" * 33, "invalid_yaml", 1),
        ("[" * 1_000_000, "invalid_yaml", 1),
        ("a: &a\n  - *a\n", "invalid_yaml", 1),
        ("[" + "1," * 1_000_001 + "]", "invalid_yaml", 1),
    ],
)
def test_what_is_refused(text: str, code: str, line: int | None) -> None:
    """Each mistake is one problem with its line, and neither stack nor memory gives way."""
    assert only(text) == (code, line)


def test_aliases_of_aliases_do_not_multiply() -> None:
    """Twenty short lines that stand for a million values and more are refused."""
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 25)]
    assert only("\n".join(lines))[0] == "invalid_yaml"


class Counted(list[Any]):
    """Counts how often all of it is gone through."""

    times = 0

    def __iter__(self) -> Iterator[Any]:
        self.times += 1
        return super().__iter__()


def test_a_line_is_found_without_going_through_all_keys_again() -> None:
    """However many problems a large mapping has, its keys are gone through once."""
    tree = YamlTree("".join(f"key{number}: 1\n" for number in range(500)))
    assert tree._root is not None
    keys = tree._root.value = Counted(tree._root.value)
    assert [tree.line_of(f"key{number}") for number in range(500)] == list(range(1, 501))
    assert keys.times == 1


def test_keys_of_every_form_are_found_again() -> None:
    """Empty ones, such with brackets, quotes and dots, and the longest that fits."""
    tree = YamlTree("'': 1\n'a\"]': 2\na: {b: 1}\na.b: 4\n? [x]\n: y\n")
    paths = ('[""]', '["a\\"]"]', "a", "a.b", "a.c", '["no"]', '["broken')
    assert [tree.line_of(path) for path in paths] == [1, 2, 3, 4, 3, 1, 1]


def test_problems_of_a_text_are_bounded() -> None:
    """Keys that are given twice by the thousand are a hundred problems and a number; long keys are cut short."""
    long = "k" * 10_000
    problems = YamlTree(f"? {long}\n:\n" + "  a: 1\n" * 1_000).problems
    assert len(problems) == PROBLEMS_MAX + 1
    assert (problems[-1].message, problems[-1].count) == ("and 899 more; correct these first", 899)
    assert problems[0].line == 4
    assert max(len(str(problem)) for problem in problems) < 300
