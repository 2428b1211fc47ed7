"""Names of schemas, tables and columns."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.kinds.postgres.names import ColumnNames, column_name, schema_name, snake_case, table_name


@pytest.mark.parametrize(
    ("given_name", "made"),
    [
        ("Order Completed", "order_completed"),
        ("orderCompleted", "order_completed"),
        ("ORDER completed", "order_completed"),
        ("  --Order::Completed!! ", "order_completed"),
        ("order__completed", "order_completed"),
        ("already_fine_2", "already_fine_2"),
        ("example.com/path", "example_com_path"),
        ("userID", "user_id"),
        ("Md5Sum", "md5_sum"),
        ("md5Sum", "md_5sum"),
        ("HTTPServer", "httpserver"),
        ("Plan 9 From Outer Space", "plan_9_from_outer_space"),
        ("caféBar", "caf_bar"),
        ("购买", ""),
    ],
)
def test_names_are_split_as_the_published_rules_say(given_name: str, made: str) -> None:
    """Capitals begin words, all that is no letter or digit of ASCII ends them."""
    assert snake_case(given_name) == made


def test_names_that_postgresql_cannot_have_are_changed() -> None:
    """Leading digits and names that are taken get an underscore."""
    assert table_name("2nd Order") == "_2nd_order"
    assert table_name("Tracks") == "_tracks"
    assert table_name("Users") == "_users"
    assert column_name("xmin") == "_xmin"
    assert column_name("Other Properties") == "_other_properties"
    assert schema_name("pg_site") == "_pg_site"
    assert schema_name("information_schema") == "_information_schema"
    assert schema_name("Main-Site", "prod_") == "prod_main_site"
    assert schema_name("1st") == "_1st"


def test_a_name_of_which_nothing_is_left_is_made_from_all_of_it() -> None:
    """Two events in a script without ASCII letters have two tables."""
    assert re.fullmatch(r"event_[0-9a-f]{8}", table_name("购买"))
    assert table_name("购买") != table_name("注册")
    assert re.fullmatch(r"property_[0-9a-f]{8}", column_name("价格"))
    assert table_name("___") != "___"


@given(st.text(max_size=200))
def test_any_text_makes_a_name_that_needs_no_quotes(text: str) -> None:
    """Of at most 63 small letters, digits and underscores, with no digit at its beginning."""
    for name in (schema_name(text), table_name(text), column_name(text)):
        assert re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", name), name


def test_long_names_that_differ_stay_different() -> None:
    """PostgreSQL would cut both to the same."""
    one, other = column_name("a" * 70), column_name("a" * 71)
    assert one != other
    assert one[:50] == other[:50]


def test_names_of_keys_are_those_of_their_path() -> None:
    """The names of the objects that a key is in stand before it, and reserved ones have no column."""
    names = ColumnNames("context_", frozenset({"context_ip"}))
    assert names["userAgent"] == "context_user_agent"
    assert names["ip"] == ""
    assert names.inner("page")["absoluteUrl"] == "context_page_absolute_url"


def test_remembered_names_are_bounded() -> None:
    """Ever new keys are named all the same, and no more of them are kept than the bound."""
    names = ColumnNames("")
    for number in range(10_000):
        assert names[f"key{number}x"] == f"key{number}x"
        assert names.inner(f"inner{number}")["a"] == f"inner{number}_a"
        assert names.held_bytes <= ColumnNames.BYTES_MAX
    assert len(names) < 10_000
