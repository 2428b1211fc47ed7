"""Types of columns: inferred, kept, widened; and the text of values."""

from __future__ import annotations

from typing import Any

import pytest

from hookline.kinds.postgres.types import NULL, Type, convert, text_of, timestamp_of, type_of, widened


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([True, None, False], Type.BOOLEAN),
        ([1, 2**63 - 1], Type.BIGINT),
        ([1, 2**63], Type.NUMERIC),
        ([1, 2.5], Type.NUMERIC),
        (["2026-11-20T07:00:00Z", "2026-11-20 07:00:00.5+01:00"], Type.TIMESTAMP),
        (["2026-11-20T07:00:00Z", "soon"], Type.TEXT),
        (["2026-11-20"], Type.TEXT),
        ([1, "1"], Type.TEXT),
        ([True, 1], Type.TEXT),
        ([[1, 2]], Type.TEXT),
        ([None, ""], Type.TEXT),
        (["", 3], Type.BIGINT),
    ],
)
def test_the_narrowest_type_that_holds_all_is_taken(values: list[Any], kind: Type) -> None:
    """An empty string says nothing, and a date without a time is text."""
    assert type_of(values) is kind


@pytest.mark.parametrize(
    ("column", "value", "kind"),
    [
        ("bigint", 0.5, Type.NUMERIC),
        ("integer", 2**40, Type.BIGINT),
        ("bigint", "much", Type.TEXT),
        ("boolean", 1, Type.TEXT),
        ("timestamp with time zone", "later", Type.TEXT),
        ("double precision", "x", Type.TEXT),
        ("character varying(5)", "longer than that", Type.TEXT),
        ("uuid", "x", Type.TEXT),
    ],
)
def test_a_column_is_widened_to_hold_what_came(column: str, value: object, kind: Type) -> None:
    """What does not fit says so, and the type that it needs holds it."""
    assert convert([value], column).misfits == [0]
    assert widened(column, [value]) is kind
    assert convert([value], kind).misfits == []


@pytest.mark.parametrize(
    ("column", "values", "texts"),
    [
        ("bigint", [1, None, -5], ["1", NULL, "-5"]),
        ("bigint", [1, "42", ""], ["1", "42", NULL]),
        ("numeric", [1, 2.5, 1e300, "3.33", float("inf")], ["1", "2.5", "1e+300", "3.33", NULL]),
        ("double precision", [1, 0.1], ["1", "0.1"]),
        ("boolean", [True, False, "true", ""], ["true", "false", "true", NULL]),
        ("boolean", [True, None], ["true", NULL]),
        ("text", ["a", "", None], ["a", "", NULL]),
        ("text", [1, 2.5, True, [1, {"a": "b"}]], ["1", "2.5", "true", '[1,{"a":"b"}]']),
        ("timestamp with time zone", ["2026-11-20T07:00:00+02:00"], ["2026-11-20T05:00:00+00:00"]),
        ("timestamp without time zone", ["2026-11-20T07:00:00+02:00"], ["2026-11-20T05:00:00"]),
        ("character varying(3)", ["abc"], ["abc"]),
        ("jsonb", [{"a": "\0"}], ['{"a":"\N{REPLACEMENT CHARACTER}"}']),
    ],
)
def test_values_are_written_as_their_column_reads_them(column: str, values: list[Any], texts: list[str]) -> None:
    """Numbers and booleans that came as text too."""
    assert convert(values, column) == (texts, [])


def test_only_what_does_not_fit_is_named() -> None:
    """The values beside it are converted."""
    assert convert([1, "x", 2, "007"], "bigint") == (["1", NULL, "2", NULL], [1, 3])


@pytest.mark.parametrize(
    "text",
    ["2026-13-20T07:00:00Z", "2026-11-20T23:59:60Z", "0001-01-01T00:00:00+10:00", "20261120T070000Z", "2026-11-20T07"],
)
def test_what_is_no_time_is_none(text: str) -> None:
    """Neither times that do not exist nor those that PostgreSQL could not hold."""
    assert timestamp_of(text) is None


def test_text_that_cannot_be_encoded_is_cleaned_in_lists() -> None:
    """Half a character in a list does not fail the event."""
    assert text_of(["\ud800"]) == '["\N{REPLACEMENT CHARACTER}"]'
    assert text_of([2**70]) == f"[{2**70}]"
