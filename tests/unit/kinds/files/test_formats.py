"""What stands in files: every event whole, columns by the types of their values, new ones added."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from hookline.kinds.files import formats
from hookline.kinds.files.formats import PROPERTY_COLUMNS_MAX, encode, suffix_of, without
from hookline.kinds.files.rows import row_of
from hookline.kinds.sink import SinkFailed
from tests.unit.kinds.files.place import event

FORMATS = [("ndjson", "zstd"), ("ndjson", "gzip"), ("ndjson", "none"), ("parquet", "zstd"), ("parquet", "gzip")]

BOUNDS = {"FILE_BYTES_MAX": 20_000, "ROWS_MAX": 500}


def written(folder: Path, name: str, *events: object, format: str = "parquet", compression: str = "zstd") -> str:
    path = folder / (name + suffix_of(format, compression))
    path.write_bytes(encode([row_of(each) for each in events], format, compression))  # type: ignore[arg-type]
    return str(path)


@pytest.mark.parametrize(("format", "compression"), FORMATS)
def test_duckdb_reads_what_was_written(tmp_path: Path, format: str, compression: str) -> None:
    """In each format and compression a reader finds ids, times and properties."""
    file = written(tmp_path, "f", event(7, properties={"total": 9.5}), format=format, compression=compression)
    reader = "read_parquet" if format == "parquet" else "read_ndjson"
    rows = duckdb.sql(f"SELECT source, event, userId, receivedAt::TIMESTAMP, journal_offset FROM {reader}('{file}')")
    assert rows.fetchall() == [("web", "Order Completed", "u1", datetime.datetime(2026, 11, 24, 12, 0, 7), 7)]


def test_columns_have_the_types_of_their_values(tmp_path: Path) -> None:
    """Times are times, whole numbers stay whole, and what is of several types is text."""
    first = event(1, properties={"n": 1, "x": 1, "ok": True, "mix": 1, "deep": {"a": [1]}, "big": 2**70})
    second = event(2, properties={"n": 2, "x": 1.5, "ok": False, "mix": "one", "big": 1})
    file = written(tmp_path, "f", first, second)
    types = {name: type for name, type, *_ in duckdb.sql(f"DESCRIBE SELECT * FROM '{file}'").fetchall()}
    found = {name.removeprefix("properties_"): type for name, type in types.items() if name.startswith("properties_")}
    assert found == {"n": "BIGINT", "x": "DOUBLE", "ok": "BOOLEAN", "mix": "VARCHAR", "big": "DOUBLE"}
    assert types["timestamp"] == types["receivedAt"] == "TIMESTAMP WITH TIME ZONE"
    deep = duckdb.sql(f"SELECT json_extract(properties, '$.deep.a[0]') FROM '{file}' WHERE journal_offset = 1")
    assert deep.fetchall() == [("1",)]


def test_a_new_property_is_a_new_column(tmp_path: Path) -> None:
    """Files of before and after are read together by the names of their columns; a type may grow."""
    written(tmp_path, "1", event(1, properties={"total": 5}))
    written(tmp_path, "2", event(2, properties={"total": 5.5, "coupon": "X"}))
    rows = duckdb.sql(
        "SELECT journal_offset, properties_total, properties_coupon"
        f" FROM read_parquet('{tmp_path}/*.parquet', union_by_name = true) ORDER BY 1"
    )
    assert rows.fetchall() == [(1, 5.0, None), (2, 5.5, "X")]


def test_names_that_sql_does_not_tell_apart_are_one_column(tmp_path: Path) -> None:
    """A property whose name differs in its case only does not make a column that nobody can ask for."""
    file = written(tmp_path, "f", event(1, properties={"Plan": "a"}), event(2, properties={"plan": "b", "a.b c": 1}))
    rows = duckdb.sql(f"SELECT properties_plan, properties_a_b_c FROM '{file}' ORDER BY journal_offset")
    assert rows.fetchall() == [("a", None), ("b", 1)]


def test_columns_are_bounded(tmp_path: Path) -> None:
    """Whoever makes up thousands of properties gets them in the JSON text, and a table that can be read."""
    file = written(tmp_path, "f", event(1, properties={f"p{number}": number for number in range(3_000)}))
    names = [name for name, *_ in duckdb.sql(f"DESCRIBE SELECT * FROM '{file}'").fetchall()]
    assert sum(name.startswith("properties_") for name in names) == PROPERTY_COLUMNS_MAX
    (whole,) = duckdb.sql(f"SELECT json_extract(properties, '$.p2999') FROM '{file}'").fetchall()
    assert whole == ("2999",)


@pytest.mark.parametrize(("format", "compression"), FORMATS)
def test_half_a_character_does_no_harm(tmp_path: Path, format: str, compression: str) -> None:
    """Text that is no proper Unicode is written all the same, and the rows beside it with it."""
    odd = event(1, properties={"half": "\ud83d", "\ud83d": 1}, user="\ud83d")
    file = written(tmp_path, "f", odd, event(2), format=format, compression=compression)
    _, removed = without(file, Path(file).read_bytes(), lambda row: row["userId"] == "u1")
    assert removed == 1


@pytest.mark.parametrize(("format", "compression"), FORMATS)
def test_rows_are_taken_out(tmp_path: Path, format: str, compression: str) -> None:
    """What is left has all its columns and the same compression; a file that loses nothing stays as it is."""
    events = [event(number, user=f"u{number % 2}", properties={"n": number}) for number in range(6)]
    file = written(tmp_path, "f", *events, format=format, compression=compression)
    before = Path(file).read_bytes()
    data, removed = without(file, before, lambda row: row["userId"] == "u1")
    Path(file).write_bytes(data)
    reader = "read_parquet" if format == "parquet" else "read_ndjson"
    assert removed == 3
    assert duckdb.sql(f"SELECT DISTINCT userId FROM {reader}('{file}')").fetchall() == [("u0",)]
    assert without(file, data, lambda row: row["userId"] == "u1") == (data, 0)


@pytest.mark.parametrize(("format", "compression"), FORMATS)
@pytest.mark.parametrize("bound", BOUNDS)
def test_no_more_is_read_than_can_have_been_written(
    tmp_path: Path, format: str, compression: str, bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few bytes may decompress to gigabytes: what is too long is a failure, and little of it was looked at."""
    file = written(tmp_path, "f", *map(event, range(3_000)), format=format, compression=compression)
    monkeypatch.setattr(formats, bound, BOUNDS[bound])
    looked: list[Mapping[str, Any]] = []
    with pytest.raises(SinkFailed, match=r"f\..* is larger than anything that was written there"):
        without(file, Path(file).read_bytes(), lambda row: bool(looked.append(row)))
    assert len(looked) <= 500


@pytest.mark.parametrize("compression", ["gzip", "zstd", "none"])
def test_a_line_has_an_end(compression: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is longer than a row can be is never decoded, and not even read to its end."""
    monkeypatch.setattr(formats, "ROW_BYTES_MAX", 1_000)
    data = formats._compressed(b"[" * 100_000, compression)
    with pytest.raises(SinkFailed, match="larger"):
        without("f" + suffix_of("ndjson", compression), data, lambda row: True)


@pytest.mark.parametrize("name", ["userId", "properties"])
def test_a_text_that_parquet_has_once_for_all_rows_counts_for_each(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the file says how large it becomes: a megabyte, stored once, may be that of every row."""
    monkeypatch.setattr(formats, "FILE_BYTES_MAX", 5_000_000)
    table = formats._table([row_of(event(number)) for number in range(1_000)])
    texts = pa.array(["x" * 100_000] * 1_000)
    data = formats._parquet_bytes(table.set_column(table.column_names.index(name), name, texts), "zstd")
    assert len(data) < 20_000
    with pytest.raises(SinkFailed, match="larger"):
        without("f.parquet", data, lambda row: row["journal_offset"] == 1)


def test_a_list_is_not_read() -> None:
    """Millions of nulls in one take no room in a file; files of ours have no lists."""
    table = formats._table([row_of(event(1))]).append_column("more", pa.array([[None] * 1_000], pa.list_(pa.int64())))
    with pytest.raises(SinkFailed, match="larger"):
        without("f.parquet", formats._parquet_bytes(table, "zstd"), lambda row: True)
