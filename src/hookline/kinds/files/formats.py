"""Writes rows as NDJSON or Parquet, and writes such files anew without a person's rows.

A file's columns are those of its rows: a property that is new makes a new column in new files, and readers put files
together by the names of columns.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from hookline.events.timestamps import parse
from hookline.kinds.files.rows import PERSON_FIELDS, Row

if TYPE_CHECKING:
    import pyarrow

TEXT_COLUMNS = ("type", "event", "name", "category", "userId", "anonymousId", "previousId", "groupId", "messageId")
TIME_COLUMNS = ("timestamp", "receivedAt")
JSON_COLUMNS = ("properties", "traits", "context")
PLACE_COLUMNS = ("journal_partition", "journal_offset")
PROPERTY_COLUMNS_MAX = 200
"""Columns of their own in one file; every property is in the JSON text of ``properties`` too."""
PROPERTY_CHARACTERS_MAX = 100
INT64_MAX = 2**63 - 1
GZIP_LEVEL = 5
"""What is gained above it costs twice the time."""
ZSTD_LEVEL = 3

_encode_line = msgspec.json.encode


def suffix_of(format: str, compression: str) -> str:
    """Return how the names of files end."""
    return ".parquet" if format == "parquet" else ".ndjson" + {"zstd": ".zst", "gzip": ".gz"}.get(compression, "")


def encode(rows: Sequence[Row], format: str, compression: str) -> bytes:
    """Return a file that holds the rows."""
    if format == "parquet":
        return _parquet_bytes(_table(rows), compression)
    return _compressed(b"".join(_line(row) for row in rows), compression)


def without(path: str, data: bytes, is_erased: Callable[[Row], bool]) -> tuple[bytes, int]:
    """Return a file without some of its rows, and how many those are; the name says how it is written."""
    if path.endswith(".parquet"):
        return _parquet_without(data, is_erased)
    compression = "zstd" if path.endswith(".zst") else "gzip" if path.endswith(".gz") else "none"
    kept, removed = [], 0
    for line in _decompressed(data, compression).splitlines(keepends=True):
        if is_erased(json.loads(line)):
            removed += 1
        else:
            kept.append(line)
    return (_compressed(b"".join(kept), compression) if removed else data), removed


def _line(row: Row) -> bytes:
    try:
        return _encode_line(row) + b"\n"
    except (UnicodeEncodeError, ValueError):  # half a character, as only escapes can write it
        return json.dumps(row).encode() + b"\n"


def _compressed(data: bytes, compression: str) -> bytes:
    if compression == "zstd":
        import pyarrow

        return bytes(pyarrow.Codec("zstd", compression_level=ZSTD_LEVEL).compress(data, asbytes=True))
    return gzip.compress(data, GZIP_LEVEL, mtime=0) if compression == "gzip" else data


def _decompressed(data: bytes, compression: str) -> bytes:
    if compression == "zstd":
        import pyarrow

        with pyarrow.CompressedInputStream(pyarrow.BufferReader(data), "zstd") as stream:
            return bytes(stream.read())
    return gzip.decompress(data) if compression == "gzip" else data


def _table(rows: Sequence[Row]) -> pyarrow.Table:
    import pyarrow as pa

    moment = pa.timestamp("ms", tz="UTC")
    columns: dict[str, Any] = {"source": pa.array([_text(row.get("source")) for row in rows], pa.string())}
    for name in TEXT_COLUMNS:
        columns[name] = pa.array([_text(row.get(name)) for row in rows], pa.string())
    for name in TIME_COLUMNS:
        columns[name] = pa.array([parse(row.get(name)) for row in rows], pa.int64()).cast(moment)
    for name in JSON_COLUMNS:
        columns[name] = pa.array([_json_text(row.get(name)) for row in rows], pa.string())
    for name in PLACE_COLUMNS:
        columns[name] = pa.array([row[name] for row in rows], pa.int64())
    columns.update(_property_columns(rows))
    return pa.table(columns)


def _property_columns(rows: Sequence[Row]) -> dict[str, Any]:
    # Names that differ in their case only are one column: SQL does not tell them apart.
    names: dict[str, str] = {}
    values: dict[str, list[Any]] = {}
    for index, row in enumerate(rows):
        properties = row.get("properties")
        for name, value in properties.items() if isinstance(properties, dict) else ():
            if not isinstance(value, str | int | float):
                continue
            cleaned = "properties_" + re.sub(r"\W", "_", _text(name) or "_")[:PROPERTY_CHARACTERS_MAX]
            key = cleaned.lower()
            if key not in values:
                if len(values) == PROPERTY_COLUMNS_MAX:
                    continue
                names[key], values[key] = cleaned, [None] * len(rows)
            if values[key][index] is None:
                values[key][index] = value
    return {names[key]: _typed(column) for key, column in sorted(values.items())}


def _typed(values: Sequence[Any]) -> Any:
    import pyarrow as pa

    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    if kinds == {int} and all(value is None or -INT64_MAX <= value <= INT64_MAX for value in values):
        return pa.array(values, pa.int64())
    if kinds <= {int, float}:
        try:
            return pa.array([None if value is None else float(value) for value in values], pa.float64())
        except OverflowError:
            pass
    texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    return pa.array([_text(text) for text in texts], pa.string())


def _text(value: Any) -> str | None:
    """Return a value as text that Parquet can hold: half a character becomes a question mark."""
    if value is None:
        return None
    text = value if isinstance(value, str) else str(value)
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _json_text(value: Any) -> str | None:
    if value is None:
        return None
    try:
        return _encode_line(value).decode()
    except (UnicodeEncodeError, ValueError):
        return json.dumps(value)


def _parquet_bytes(table: pyarrow.Table, compression: str) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = pa.BufferOutputStream()
    pq.write_table(table, out, compression=None if compression == "none" else compression)
    return bytes(out.getvalue().to_pybytes())


def _parquet_without(data: bytes, is_erased: Callable[[Row], bool]) -> tuple[bytes, int]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(pa.BufferReader(data))
    table = file.read()
    group = file.metadata.row_group(0) if file.metadata.num_row_groups else None
    compression = group.column(0).compression.lower() if group is not None else "none"
    columns = {name: table.column(name).to_pylist() for name in (*PERSON_FIELDS, *PLACE_COLUMNS)}
    columns["receivedAt"] = table.column("receivedAt").cast(pa.int64()).to_pylist()
    rows = (dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))
    erased = [is_erased(row) for row in rows]
    removed = sum(erased)
    if not removed:
        return data, 0
    kept = table.filter(pa.array([not each for each in erased], pa.bool_()))
    return _parquet_bytes(kept, "none" if compression == "uncompressed" else compression), removed
