"""What expressions mean: a table over one event, and that they never raise whatever the event is."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.expressions.compile import Glob, compile_condition
from hookline.expressions.parse import parse
from tests.unit.expressions.trees import CONDITIONS, FIELDS

EVENT: dict[str, Any] = {
    "type": "track",
    "event": "Order Completed",
    "userId": "u1",
    "properties": {
        "total": 99.5,
        "count": 3,
        "vip": True,
        "code": "5",
        "none": None,
        "empty": "",
        "tags": ["new", 7, True],
        "address": {"city": "Köln"},
        "order id": "o-1",
        "a.b": 1,
        "and": "word",
        "2fa": False,
    },
}


def holds(text: str) -> bool:
    """Whether an expression is true of the event."""
    return compile_condition(parse(text))(EVENT)


@pytest.mark.parametrize(
    "text",
    [
        "true",
        "not false",
        "!false",
        'type = "track" and event = "Order Completed"',
        "type = 'page' or type = 'track'",
        "type = 'page' and type = 'page' or true",  # and binds tighter than or
        "true or type = 'page' and false",
        "not type = 'page'",  # not covers the whole comparison
        "not (true and false)",
        "properties.total > 99",
        "properties.total >= 99.5",
        "properties.count < 3.5",
        "properties.count <= 3",
        "properties.count = 3.0",
        "properties.code = '5'",
        "properties.code != 5",
        "5 < properties.total",
        "'Order' < event",
        "properties.vip",
        "properties.vip = true",
        "properties.count != true",
        "properties.none = null",
        "properties.none != 5",
        "properties.count != null",
        "properties.empty = ''",
        "properties.address.city = 'K\\u00f6ln'",
        "properties.order\\ id = 'o-1'",
        "properties.a\\.b = 1",
        "properties.and = 'word'",
        "properties.2fa = false",
        "contains(event, 'Comp')",
        "contains(properties.tags, 'new')",
        "contains(properties.tags, 7.0)",
        "contains(properties.tags, true)",
        "contains('a b track', type)",
        "match(event, 'Order *')",
        "match(event, '*C*mp*d')",
        "match(event, 'Order Completed')",
        "length(event) = 15",
        "length(properties.tags) = 3",
        "length(properties.address) = 1",
        "lowercase(event) = 'order completed'",
        "contains(lowercase(event), 'order')",
        "typeof(event) = 'string'",
        "typeof(properties.total) = 'number' and typeof(properties.vip) = 'boolean'",
        "typeof(properties.tags) = 'list' and typeof(properties.address) = 'object'",
        "typeof(properties.none) = 'null' and typeof(properties.nowhere) = 'missing'",
        "(type = 'page') = false",
        "match(event, 'x*') = false",
        "properties.tags != null",
        "properties.tags != properties.tags",
    ],
)
def test_true(text: str) -> None:
    """Each of these holds."""
    assert holds(text)


@pytest.mark.parametrize(
    "text",
    [
        "false",
        "type",  # a field is a condition only when it holds true
        "properties.count",
        "properties.nowhere",
        "properties.total = '99.5'",
        "properties.count = true",
        "properties.total > 'a'",
        "properties.tags = properties.tags",
        "properties.tags > 1",
        "properties.vip >= true",
        "properties.none < 1",
        "event.name.deeper = 'x'",
        "contains(event, 5)",
        "contains(properties.tags, '7')",
        "contains(properties.tags, properties.tags)",
        "contains(properties.total, 9)",
        "match(event, 'order *')",
        "match(event, 'Order')",
        "match(properties.total, '*')",
        "length(properties.total) >= 0",
        "lowercase(properties.total) != 'x'",
    ],
)
def test_false(text: str) -> None:
    """Each of these does not hold; nothing is converted and nothing raises."""
    assert not holds(text)


@pytest.mark.parametrize("operator", ["=", "!=", ">", ">=", "<", "<="])
@pytest.mark.parametrize("other", ["5", "'x'", "null", "true", "properties.nowhere", "length(event)"])
def test_a_missing_field_makes_every_comparison_false(operator: str, other: str) -> None:
    """On either side, behind functions too, and whatever it is compared with."""
    for missing in ("properties.nowhere", "context.ip", "length(traits)", "lowercase(properties.nowhere.x)"):
        assert not holds(f"{missing} {operator} {other}")
        assert not holds(f"{other} {operator} {missing}")


@pytest.mark.parametrize(
    ("pattern", "fits", "fails"),
    [
        ("*", ["", "abc", "a\nb"], []),
        ("a*", ["a", "abc"], ["", "ba"]),
        ("*a", ["a", "bca"], ["ab"]),
        ("ab*ba", ["abba", "abxba"], ["aba", "ab"]),
        ("a**b", ["ab", "axb"], ["a"]),
        ("*a*b*", ["ab", "xaxbx"], ["ba"]),
        (r"a\*", ["a*"], ["a", "ab"]),
        (r"\\*", ["\\", "\\x"], ["x"]),
        ("a\\", ["a\\"], ["a"]),
        ("a?[b]", ["a?[b]"], ["axb"]),
        ("", [""], ["a"]),
    ],
)
def test_patterns(pattern: str, fits: list[str], fails: list[str]) -> None:
    """A star stands for any characters, everything else for itself, and the whole value counts."""
    assert [text for text in fits if not Glob(pattern).matches(text)] == []
    assert [text for text in fails if Glob(pattern).matches(text)] == []


def test_no_pattern_takes_long() -> None:
    """What would hang a backtracking matcher for years is over at once."""
    pattern, text = Glob("*a" * 2_000 + "*b"), "a" * 32_768
    before = time.process_time()
    assert not pattern.matches(text)
    assert time.process_time() - before < 1.0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(FIELDS) | st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(CONDITIONS, st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4))
def test_no_event_makes_an_expression_raise(tree: Any, event: dict[str, Any]) -> None:
    """Any expression gives true or false over any JSON object."""
    assert compile_condition(tree)(event) in (True, False)
