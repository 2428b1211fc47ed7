"""Tables follow what comes: new columns, wider types, bounds; and each change is announced."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from hookline.kinds.answers import ACCEPTED, Verdict
from hookline.kinds.model import Json
from hookline.kinds.postgres import tables
from hookline.kinds.postgres.rows import Batch, RowMaker, TableName
from hookline.kinds.postgres.tables import Tables
from hookline.kinds.sink import SinkFailed
from tests.postgres import OWNER, PLAIN_USER
from tests.service.waiting import wait_until
from tests.unit.kinds.postgres.warehouse import Warehouse, event


def test_new_properties_become_columns_and_are_announced(warehouse: Warehouse) -> None:
    """Rows from before have no value there."""
    with warehouse.open() as sink:
        sink.write([event(properties={"a": 1})])
        sink.write([event(properties={"a": 2, "coupon": "X", "total": 1.5})])
    assert warehouse.rows("site.order_completed", "a", "coupon") == [(1, None), (2, "X")]
    assert warehouse.notices == [
        ("schema_created", "The schema site was created."),
        ("tables_created", "Tables were created: site.tracks, site.order_completed."),
        ("columns_added", "site.order_completed has new columns: coupon (text), total (numeric)."),
    ]


def test_types_are_widened_without_loss_and_announced(warehouse: Warehouse) -> None:
    """What was there before reads as it was sent."""
    first = {"count": 1, "seen": "2026-11-20T07:00:00.5Z", "yes": True, "id number": 7}
    second = {"count": 2.25, "seen": "never", "yes": "perhaps", "id number": "007"}
    with warehouse.open() as sink:
        sink.write([event(properties=first)])
        sink.write([event(properties=second)])
    assert [[str(value) for value in row] for row in warehouse.rows(
        "site.order_completed", "count", "seen", "yes", "id_number"
    )] == [["1", "2026-11-20T07:00:00.500Z", "true", "7"], ["2.25", "never", "perhaps", "007"]]  # fmt: skip
    name, sentence = warehouse.notices[-1]
    assert name == "columns_widened"
    assert "count from bigint to numeric, seen from timestamp with time zone to text" in sentence


def test_a_column_that_a_view_uses_keeps_its_type(warehouse: Warehouse) -> None:
    """PostgreSQL cannot widen it: what does not fit is kept as JSON, what fits in the column, and a notice says so."""
    with warehouse.open() as sink:
        sink.write([event(properties={"total": 1})])
        warehouse.run("CREATE VIEW site.totals AS SELECT total FROM site.order_completed")
        for _ in range(2):
            verdicts = sink.write([event(properties={"total": "much"}), event(properties={"total": 3})])
            assert verdicts == [ACCEPTED, ACCEPTED]
    rows = [(1, None), (None, {"total": "much"}), (3, None)]
    assert warehouse.rows("site.order_completed", "total", "other_properties") == [*rows, *rows[1:]]
    told = [sentence for name, sentence in warehouse.notices if name == "column_not_widened"]
    assert len(told) == 1
    assert "site.order_completed.total stays bigint: rule _RETURN on view site.totals" in told[0]


@pytest.mark.parametrize(
    "own",
    [
        "CREATE INDEX ON site.order_completed (received_at) WHERE total > 100",
        "CREATE INDEX ON site.order_completed ((total * 2))",
        "CREATE INDEX ON site.order_completed USING brin (total int8_minmax_multi_ops)",
        "ALTER TABLE site.order_completed ADD CHECK (total >= 0)",
    ],
)
def test_a_column_that_an_index_or_constraint_uses_keeps_its_type(warehouse: Warehouse, own: str) -> None:
    """One event with a text does not hold up those it came with, nor the next."""
    with warehouse.open() as sink:
        sink.write([event(properties={"total": 1})])
        warehouse.run(own)
        for _ in range(2):
            verdicts = sink.write([event(properties={"total": "much"}), event(properties={"total": 3})])
            assert verdicts == [ACCEPTED, ACCEPTED]
    rows = [(1, None), (None, {"total": "much"}), (3, None)]
    assert warehouse.rows("site.order_completed", "total", "other_properties") == [*rows, *rows[1:]]
    assert [name for name, _ in warehouse.notices].count("column_not_widened") == 1


def test_a_column_that_belongs_to_others_is_waited_for(warehouse: Warehouse) -> None:
    """Who may not change it is told to be granted that, and the events are tried again."""
    warehouse.server.plain_url(warehouse.name)
    with warehouse.open(user=PLAIN_USER) as sink:
        sink.write([event(properties={"total": 1})])
        warehouse.run(f"ALTER TABLE site.order_completed OWNER TO {OWNER}")
        warehouse.run(f"GRANT ALL ON site.order_completed TO {PLAIN_USER}")
        with pytest.raises(SinkFailed, match="owner"):
            sink.write([event(properties={"total": "much"})])


def test_tables_that_others_made_are_filled(warehouse: Warehouse) -> None:
    """As the columns there take it, for example those that another service made."""
    warehouse.run("CREATE SCHEMA site")
    warehouse.run(
        'CREATE TABLE site.order_completed (id varchar(512) PRIMARY KEY, received_at timestamp, "timestamp" timestamp,'
        " event varchar(512), event_text varchar(512), small integer, real double precision, short varchar(3),"
        " other uuid)"
    )
    with warehouse.open() as sink:
        sink.write([event(properties={"small": 1, "real": 0.5, "short": "abc"}, timestamp="2026-11-20T07:00:00.000Z")])
        sink.write([event(properties={"small": 2**40, "real": 1, "short": "abcd", "other": "x"})])
    rows = warehouse.rows("site.order_completed", "small", "real", "short", "other")
    assert rows == [(1, 0.5, "abc", None), (2**40, 1.0, "abcd", "x")]
    assert str(warehouse.rows("site.order_completed", "timestamp")[0][0]) == "2026-11-20 07:00:00"
    types = warehouse.types("site.order_completed")
    assert [types[name] for name in ("small", "real", "short")] == ["bigint", "double precision", "text"]


def test_a_column_that_was_dropped_meanwhile_is_made_again(warehouse: Warehouse) -> None:
    """A sink that has been writing notices it by the server's answer."""
    with warehouse.open() as sink:
        sink.write([event(properties={"a": 1, "b": 1})])
        warehouse.run("ALTER TABLE site.order_completed DROP COLUMN b")
        assert sink.write([event(properties={"a": 2, "b": 2})]) == [ACCEPTED]
        warehouse.run("DROP SCHEMA site CASCADE")
        assert sink.write([event(properties={"a": 3, "b": 3})]) == [ACCEPTED]
    assert warehouse.rows("site.order_completed", "a", "b") == [(3, 3)]


def test_columns_are_bounded(warehouse: Warehouse) -> None:
    """Properties beyond the bound are kept as JSON, of each event that has some; those within have columns."""
    many = {f"p{number}": "x" * 30 for number in range(400)}
    with warehouse.open() as sink:
        sink.write([event(properties=many), event(properties={"p399": 5})])
        sink.write([event(properties={**many, "fresh": True})])
    assert len(warehouse.types("site.order_completed")) == tables.COLUMNS_MAX
    rows = warehouse.rows("site.order_completed", "p0", "other_properties")
    columns = set(warehouse.types("site.order_completed"))
    left = {name: value for name, value in many.items() if name not in columns}
    assert rows == [("x" * 30, left), (None, {"p399": 5}), ("x" * 30, {**left, "fresh": True})]
    assert [name for name, _ in warehouse.notices].count("columns_not_added") == 1


def test_rows_are_not_asked_for_names_of_other_rows() -> None:
    """Each event may have thousands of names of its own: a row gives up what it has, in as many steps."""
    steps: list[object] = []

    class CountedRow(dict[str, Json]):
        def __contains__(self, name: object) -> bool:
            steps.append(name)
            return super().__contains__(name)

        def __iter__(self) -> Iterator[str]:
            return (steps.append(name) or name for name in super().__iter__())  # type: ignore[func-returns-value]

    batch = Batch()
    for number in range(20):
        RowMaker("").add(batch, event(properties={f"p{number}_{each}": each for each in range(100)}))
    rows = batch.of(TableName("site", "order_completed"))
    rows.rows = {id: CountedRow(row) for id, row in rows.rows.items()}
    Tables(lambda *_: None)._fit_table(rows, None)
    assert sum(len(row.get("other_properties", ())) for row in rows.rows.values()) > 1_500
    assert len(steps) < 10 * 20 * 100


def test_tables_are_bounded(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events beyond the bound are in tracks alone, with their properties."""
    monkeypatch.setattr(tables, "EVENT_TABLES_MAX", 2)
    with warehouse.open() as sink:
        for _ in range(2):
            sink.write([event(event=f"Event {number}", properties={"n": number}) for number in range(4)])
    assert warehouse.tables() == {"tracks", "event_0", "event_1"}
    rows = warehouse.rows("site.tracks", "event", "other_properties")
    assert rows == [("event_0", None), ("event_1", None), ("event_2", {"n": 2}), ("event_3", {"n": 3})] * 2
    assert [name for name, _ in warehouse.notices].count("tables_not_created") == 1


def test_an_event_named_like_a_view_goes_into_tracks(warehouse: Warehouse) -> None:
    """A view cannot be written to, and is not ours to replace."""
    warehouse.run("CREATE SCHEMA site")
    warehouse.run("CREATE VIEW site.orders AS SELECT 1 AS id")
    assert warehouse.write(event(event="Orders", properties={"n": 1})) == [ACCEPTED]
    assert warehouse.rows("site.tracks", "event", "other_properties") == [("orders", {"n": 1})]
    assert "table_not_usable" in [name for name, _ in warehouse.notices]


def test_a_standard_table_without_a_key_is_not_written_to(warehouse: Warehouse) -> None:
    """A repeat could not be told from something new there."""
    warehouse.run("CREATE SCHEMA site")
    warehouse.run("CREATE TABLE site.tracks (id text)")
    with pytest.raises(SinkFailed, match=r"site\.tracks is no table with a unique column id; rename it"):
        warehouse.write(event())


def test_tables_are_changed_by_one_process_at_a_time(warehouse: Warehouse) -> None:
    """Who comes second waits, and goes on with what the first has made."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.extend(warehouse.write(event(properties={"a": 1}))))
    with psycopg.connect(warehouse.url) as first:
        first.execute("SELECT pg_advisory_xact_lock(%s, hashtext('site'))", (tables.LOCK_NUMBER,))
        thread.start()
        waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        wait_until(lambda: warehouse.run(waiting) == [(1,)], what="the second waits")
        first.execute("CREATE SCHEMA site")
        first.execute("CREATE TABLE site.order_completed (id text PRIMARY KEY, received_at timestamptz, a numeric)")
    thread.join(60)
    assert results == [ACCEPTED]
    assert warehouse.types("site.order_completed")["a"] == "numeric"
    assert len(warehouse.rows("site.tracks")) == 1


def test_two_writers_change_the_same_tables_at_once(warehouse: Warehouse) -> None:
    """Both write all that they have, whoever makes a table or a column first."""
    results: list[Any] = []

    def write(name: str) -> None:
        with warehouse.open() as sink:
            for number in range(8):
                value = number if number % 2 else f"{name}{number}"
                given = {f"both{number}": value, f"{name}{number}": 1}
                results.extend(sink.write([event(event=f"Event {number}", properties=given)]))

    threads = [threading.Thread(target=write, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == [ACCEPTED] * 16
    assert len(warehouse.rows("site.tracks")) == 16
    for number in range(8):
        assert len(warehouse.rows(f"site.event_{number}", f"one{number}", f"both{number}")) == 2


def test_one_value_that_the_database_refuses_fails_alone(warehouse: Warehouse) -> None:
    """For example for a rule that somebody gave the table: the events beside it are written."""
    with warehouse.open() as sink:
        sink.write([event(properties={"total": 1})])
        warehouse.run("ALTER TABLE site.order_completed ADD CHECK (total < 100)")
        verdicts = sink.write([event(properties={"total": number}) for number in (2, 3, 500, 4)])
    assert [verdict.accepted for verdict in verdicts] == [True, True, False, True]
    refused: Verdict = verdicts[2]
    assert (refused.of_event, refused.retry) == (True, False)
    assert "check constraint" in refused.error
    assert [str(total) for (total,) in warehouse.rows("site.order_completed", "total")] == ["1", "2", "3", "4"]
    assert len(warehouse.rows("site.tracks")) == 4
