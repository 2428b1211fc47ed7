"""The text of expressions: what is refused and how it is said, bounds, and that writing and parsing agree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.expressions.lexer import TEXT_CHARACTERS_MAX, ExpressionError
from hookline.expressions.parse import DEPTH_MAX, parse, write, write_path
from hookline.expressions.tree import Node, parse_path
from tests.unit.expressions.trees import CONDITIONS

FIELDS = ("type", "event", "properties")


def refusal(text: str) -> str:
    """The sentence with which a text is refused."""
    with pytest.raises(ExpressionError) as refused:
        parse(text, FIELDS)
    return str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected a condition such as type = 'track' at column 1"),
        ("type = ", "expected a value after '=' at column 6"),
        ('event = "a" and', "expected a value after 'and' at column 13"),
        ("= 5", "expected a value before '=' at column 1"),
        ("and true", "expected a value before 'and' at column 1"),
        ("not", "expected a value after 'not' at column 1"),
        ('"x"', "expected a condition; compare this value with another one at column 1"),
        ("true and length(type)", "expected a condition; compare this value with another one at column 10"),
        ("5 or true", "expected a condition; compare this value with another one at column 1"),
        ("propertes.x = 1", "there is no field 'propertes' (did you mean 'properties'?) at column 1"),
        ("zzz = 1", "there is no field 'zzz' (there are type, event, properties) at column 1"),
        ("type = event = 1", "comparisons cannot be chained; write 'and' between two of them at column 14"),
        ("foo(type)", "there is no function 'foo' (there are contains, match, length, lowercase, typeof) at column 1"),
        ("match(event, type)", "the pattern of 'match' must be text in quotes, such as 'Order *', at column 1"),
        ("contains(event) = 1", "expected two arguments for 'contains', found 1, at column 1"),
        ("length(event, 1) = 1", "expected one argument for 'length', found 2, at column 1"),
        ("length = 1", "expected '(' after 'length', found =, at column 8"),
        ("(type = 1", "expected ')' for the '(' at column 1, found the end, at column 10"),
        ("type = 1)", "expected 'and', 'or' or the end, found ), at column 9"),
        ("type AND event", "expected 'and', 'or' or the end, found AND, at column 6"),
        ("type = 'abc", "expected a closing ' for the text that begins at column 8"),
        ("type = 'a\\q'", "there is no escape \\q; write \\\\ for a backslash, or the character itself, at column 10"),
        ("type = '\\ud800'", "there is no escape \\ud800; write \\\\ for a backslash, or the character itself, at"),
        ("type. = 1", "expected a name on both sides of '.' at column 5"),
        ("type = 5x", "expected a number such as 5, -2 or 0.5 at column 8"),
        ("type = 1e999", "the number 1e999 is too large; write a smaller one at column 8"),
        ("type = 1 && true", "expected 'and' or 'or' instead of '&' at column 10"),
        ("type # 1", "unexpected '#'; write a backslash before it if it belongs to a name, at column 6"),
    ],
)
def test_a_mistake_is_named_with_its_column(text: str, said: str) -> None:
    """The sentence says what to write, and where."""
    assert refusal(text).startswith(said)


def test_the_column_can_be_asked_for() -> None:
    """A page can point at the place."""
    with pytest.raises(ExpressionError) as refused:
        parse("type = ")
    assert refused.value.column == 6


def test_the_text_is_bounded() -> None:
    """A longer text is refused before it is looked at."""
    longest = "true" + " " * (TEXT_CHARACTERS_MAX - 4)
    assert write(parse(longest)) == "true"
    assert "longer than 4096 characters" in refusal(longest + " ")


@pytest.mark.parametrize(("opening", "closing"), [("(", ")"), ("not ", ""), ("contains(", ", 1)")])
def test_the_depth_is_bounded(opening: str, closing: str) -> None:
    """Nesting is refused one level past the bound, however it is made."""
    parse(opening * DEPTH_MAX + "true" + closing * DEPTH_MAX)
    assert f"nested deeper than {DEPTH_MAX} levels" in refusal(
        opening * (DEPTH_MAX + 1) + "true" + closing * (DEPTH_MAX + 1)
    )


def test_many_terms_are_not_deep() -> None:
    """A long list of alternatives is no nesting."""
    parse(" or ".join(["type = 'a'"] * 200))


@given(st.text(alphabet="typeven. =!<>()'\"\\,*&0123andorx\n", max_size=40) | st.text(max_size=20))
def test_no_text_breaks_the_parser(text: str) -> None:
    """Every text is an expression or an ExpressionError, and what is one is written back as itself."""
    try:
        tree = parse(text)
    except ExpressionError:
        return
    assert parse(write(tree)) == tree


@given(CONDITIONS)
def test_writing_and_parsing_agree(tree: Node) -> None:
    """What is written parses to the very same tree."""
    assert parse(write(tree)) == tree


@given(st.lists(st.text(min_size=1), min_size=1))
def test_paths_by_themselves(parts: list[str]) -> None:
    """A path is written and read back whatever its names hold."""
    assert parse_path(write_path(parts)) == tuple(parts)


@pytest.mark.parametrize("text", ["", "5", "'a'", "a b", "a = b", "a..b", "a.", "properties.order id"])
def test_what_is_not_one_path(text: str) -> None:
    """Anything but exactly one path is refused."""
    with pytest.raises(ExpressionError):
        parse_path(text)
