"""Writes rows as NDJSON or Parquet, and writes such files anew without a person's rows.

A file's columns are those of its rows: a property that is new makes a new column in new files, and readers put files
together by the names of columns.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator, Sequence
from io import BufferedReader, BytesIO
from itertools import count
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import msgspec

from hookline.events.timestamps import parse
from hookline.kinds.files.rows import PERSON_FIELDS, Row
from hookline.kinds.files.store import FILE_BYTES_MAX, too_large

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
ROW_BYTES_MAX = 1024 * 1024
"""Of what is read back. An event has 32 KB, and no character or number of it more than four times as many in a row."""
ROWS_MAX = 100_000
"""Of a file that is read back. A write has 10,000 events."""
ROWS_AT_ONCE = 1_024

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
    """Return a file without some of its rows, and how many those are; the name says how it is written.

    Raise SinkFailed for one that is larger than what is written: a few bytes may decompress to gigabytes.
    """
    if path.endswith(".parquet"):
        return _parquet_without(path, data, is_erased)
    gone = [is_erased(json.loads(line)) for line in _lines(path, data)]
    if not any(gone):
        return data, 0
    kept = b"".join(line for line, is_gone in zip(_lines(path, data), gone, strict=True) if not is_gone)
    return _compressed(kept, _compression_of(path)), sum(gone)


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


def _compression_of(path: str) -> str:
    return "zstd" if path.endswith(".zst") else "gzip" if path.endswith(".gz") else "none"


def _lines(path: str, data: bytes) -> Iterator[bytes]:
    """Yield the lines of a file; no more of it is in memory than one of them."""
    stream, size_bytes = _decompressed(data, _compression_of(path)), 0
    for number in count(1):
        line = stream.readline(ROW_BYTES_MAX + 1)
        if not line:
            return
        size_bytes += len(line)
        if len(line) > ROW_BYTES_MAX or size_bytes > FILE_BYTES_MAX or number > ROWS_MAX:
            raise too_large(path)
        yield line


def _decompressed(data: bytes, compression: str) -> BinaryIO:
    if compression == "zstd":
        import pyarrow

        stream: Any = pyarrow.CompressedInputStream(pyarrow.BufferReader(data), "zstd")
        return BufferedReader(stream)
    return cast(BinaryIO, gzip.GzipFile(fileobj=BytesIO(data))) if compression == "gzip" else BytesIO(data)


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


def _parquet_without(path: str, data: bytes, is_erased: Callable[[Row], bool]) -> tuple[bytes, int]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    gone = [is_erased(row) for row in _parquet_rows(path, data)]
    if not any(gone):
        return data, 0
    for _ in _batches(path, data):
        pass  # only now all columns are known to have a usual size
    file = pq.ParquetFile(pa.BufferReader(data))
    compression = file.metadata.row_group(0).column(0).compression.lower()
    kept = file.read().filter(pa.array([not each for each in gone], pa.bool_()))
    return _parquet_bytes(kept, "none" if compression == "uncompressed" else compression), sum(gone)


def _parquet_rows(path: str, data: bytes) -> Iterator[Row]:
    """Yield what of each row says whose it is."""
    import pyarrow as pa

    names = [*PERSON_FIELDS, *PLACE_COLUMNS, "receivedAt"]
    for batch in _batches(path, data, names):
        columns = {name: batch.column(name) for name in names}
        columns["receivedAt"] = columns["receivedAt"].cast(pa.int64())
        values = [column.to_pylist() for column in columns.values()]
        yield from (dict(zip(columns, each, strict=True)) for each in zip(*values, strict=True))


def _batches(path: str, data: bytes, names: list[str] | None = None) -> Iterator[pyarrow.RecordBatch]:
    """Yield some columns, or all, of a file piece by piece, with texts in dictionaries, as they may be stored: one of
    megabytes may be that of all rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pq.read_schema(pa.BufferReader(data))
    texts = [field.name for field in schema if pa.types.is_string(field.type)]
    is_flat = all(pa.types.is_string(type) or pa.types.is_primitive(type) for type in schema.types)
    file = pq.ParquetFile(pa.BufferReader(data), read_dictionary=texts)
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    stored_bytes = sum(group.total_byte_size for group in groups)
    # A list may have any number of nulls, which take no room in a file.
    if not is_flat or file.metadata.num_rows > ROWS_MAX or stored_bytes > FILE_BYTES_MAX:
        raise too_large(path)
    size_bytes = 0
    for batch in file.iter_batches(ROWS_AT_ONCE, columns=names):
        size_bytes += sum(map(_size_bytes, batch.columns))
        if size_bytes > FILE_BYTES_MAX:
            raise too_large(path)
        yield batch


def _size_bytes(column: Any) -> int:
    """Return how large a column is once each row has its own text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    return pc.sum(pc.take(pc.binary_length(column.dictionary), column.indices)).as_py() or 0
