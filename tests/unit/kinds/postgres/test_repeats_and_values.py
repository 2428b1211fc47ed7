"""A repeat changes nothing, and no value fails a batch."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hookline.kinds.answers import ACCEPTED
from hookline.kinds.postgres.types import NULL
from hookline.kinds.postgres.writing import COPY_OPTIONS, block_of
from tests.unit.kinds.postgres.warehouse import Warehouse, event


def test_events_that_come_again_change_nothing(warehouse: Warehouse) -> None:
    """Neither alone nor among new ones, within a batch or in the next."""
    first = [
        event(properties={"n": 1, "list": ["a", 'b"\\']}),
        event("identify", userId="u1", traits={"plan": "pro"}),
        event("group", userId="u1", groupId="g1", traits={"n": 1}),
        event("page", userId="u1", name="Home"),
        event("alias", userId="u1", previousId="a1"),
    ]
    with warehouse.open() as sink:
        assert sink.write([*first, *first]) == [ACCEPTED] * 10
        before = warehouse.everything()
        assert sink.write(first) == [ACCEPTED] * 5
    assert warehouse.everything() == before
    new = event(properties={"n": 2, "new": True})
    assert warehouse.write(*first, new) == [ACCEPTED] * 6
    after = warehouse.everything()
    assert [row["n"] for row in after["order_completed"]] == [1, 2]
    assert [row["list"] for row in after["order_completed"]] == ['["a","b\\"\\\\"]', None]
    assert {name: rows for name, rows in after.items() if name not in ("tracks", "order_completed")} == {
        name: rows for name, rows in before.items() if name not in ("tracks", "order_completed")
    }


ODD = [
    "\t",
    "\n",
    "\r",
    "\\",
    "\\N",
    "\\.",
    "\x1e",
    "\x1f",
    "\x1e0\x1f",
    "a\0b",
    "\ud83d",
    "'; DROP",
    '"',
    "%s",
    "😀",
    "",
]


@pytest.mark.parametrize("again", [False, True], ids=["copied", "inserted"])
def test_any_text_is_kept(warehouse: Warehouse, again: bool) -> None:
    """By COPY, and by the statements that follow a repeat; only what PostgreSQL has no place for is replaced."""
    events = [event(properties={"text": text, "list": [text]}, userId=text or None) for text in ODD]
    with warehouse.open() as sink:
        sink.write(events[:1] if again else [])
        assert sink.write(events) == [ACCEPTED] * len(ODD)
    kept = [
        text.replace("\0", "\N{REPLACEMENT CHARACTER}").replace("\ud83d", "\N{REPLACEMENT CHARACTER}") for text in ODD
    ]
    rows = warehouse.rows("site.order_completed", "text", "user_id")
    assert rows == [(text, text or None) for text in kept]


def test_numbers_beyond_any_type_are_kept(warehouse: Warehouse) -> None:
    """A column of numbers holds what JSON can say; infinity is nothing, as in JSON."""
    given_numbers = [1, 2**62, 2**64, -(2**80), 1e300, 5e-324, float("inf")]
    assert warehouse.write(*(event(properties={"n": number}) for number in given_numbers)) == [ACCEPTED] * 7
    found = [row[0] for row in warehouse.rows("site.order_completed", "n")]
    assert [float(number) for number in found[:-1]] == [float(number) for number in given_numbers[:-1]]
    assert found[3] == -(2**80)
    assert found[-1] is None


def test_ids_that_no_index_takes_are_refused_or_left_out(warehouse: Warehouse) -> None:
    """A messageId that is too long is refused, a user id is only missing in users."""
    long = event("identify", userId="u" * 3_000, traits={"a": 1})
    refused, accepted = warehouse.write(event(messageId="m" * 3_000), long)
    assert not refused.accepted
    assert refused.of_event
    assert "this messageId has 3000" in refused.error
    assert accepted == ACCEPTED
    assert warehouse.tables() == {"identifies"}


def test_long_texts_and_wide_rows_are_written(warehouse: Warehouse) -> None:
    """Each value may be as long as an event, and all columns may be used at once."""
    wide = {f"p{number:03}": "w" * 24 for number in range(289)}
    assert warehouse.write(event(properties={"text": "x" * 30_000, **wide})) == [ACCEPTED]
    assert warehouse.rows("site.order_completed", "p288", "text") == [("w" * 24, "x" * 30_000)]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.lists(st.one_of(st.just(NULL), st.text(max_size=8), st.sampled_from(ODD)), min_size=3, max_size=3),
        min_size=1,
        max_size=8,
    )
)
def test_blocks_read_back_as_they_were(warehouse: Warehouse, rows: list[list[str]]) -> None:
    """For any mixture of values, PostgreSQL reads from a block what was put in."""
    import psycopg

    with psycopg.connect(warehouse.url) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TEMP TABLE read (n serial, a text, b text, c text) ON COMMIT DROP")
        with cursor.copy(f"COPY read (a, b, c) FROM STDIN WITH {COPY_OPTIONS}".encode()) as copy:
            copy.write(block_of(rows))
        found = cursor.execute("SELECT a, b, c FROM read ORDER BY n").fetchall()

    def kept(value: str) -> str | None:
        return (
            None
            if value is NULL
            else "".join("\N{REPLACEMENT CHARACTER}" if c == "\0" or "\ud800" <= c <= "\udfff" else c for c in value)
        )

    assert found == [tuple(map(kept, row)) for row in rows]
