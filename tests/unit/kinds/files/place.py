"""Events by their offsets, and sinks that write them below a folder of a test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb

from hookline.events.timestamps import iso
from hookline.kinds.files.sink import FilesSink, open_sink
from hookline.kinds.sink import SinkContext, SinkEvent

NOON_MS = 1_795_521_600_000
"""2026-11-24T12:00:00Z"""


def event(
    offset: int,
    *,
    partition: int = 0,
    name: str = "Order Completed",
    at_ms: int | None = None,
    user: str | None = "u1",
    source: str = "web",
    type: str = "track",
    properties: dict[str, Any] | None = None,
    **more: Any,
) -> SinkEvent:
    """Return an event; a second passes from offset to offset, unless ``at_ms`` says when."""
    received_at_ms = NOON_MS + offset * 1_000 if at_ms is None else at_ms
    fields = {
        "type": type,
        "messageId": f"m{partition}-{offset}",
        "source": source,
        "timestamp": iso(received_at_ms),
        "receivedAt": iso(received_at_ms),
        "properties": properties or {},
        "context": {},
        "settings": {"where": "folder"},
        **more,
    }
    if type == "track":
        fields["event"] = name
    if user is not None:
        fields["userId"] = user
    return SinkEvent(partition, offset, received_at_ms, fields, b"")


def context(folder: Path, destination: str = "lake") -> SinkContext:
    """Return what a sink may use: the folder, and any address."""
    return SinkContext(destination, folder, lambda address: None, lambda name, sentence: None)


def folder_sink(folder: Path, destination: str = "lake", **settings: Any) -> FilesSink:
    """Open a sink on a folder, as deliver does."""
    usual = {"where": "folder", "format": "ndjson", "compression": "zstd"}
    return open_sink(context(folder, destination), {**usual, **settings})


def manifests(root: Path) -> list[dict[str, Any]]:
    """Return every manifest, in order."""
    return [json.loads(path.read_bytes()) for path in sorted((root / "_hookline/manifests").glob("*.json"))]


def named_files(root: Path) -> list[str]:
    """Return the paths that manifests name."""
    return [str(root / file["path"]) for manifest in manifests(root) for file in manifest["files"]]


def all_files(root: Path) -> list[str]:
    """Return all files of events there are."""
    return sorted(str(path) for path in root.glob("source=*/**/*") if path.is_file())


def offsets_in(files: list[str]) -> list[tuple[int, int]]:
    """Return partition and offset of every row of some files, in order, by DuckDB."""
    if not files:
        return []
    reader = "read_parquet" if files[0].endswith(".parquet") else "read_ndjson"
    rows = duckdb.sql(f"SELECT journal_partition, journal_offset FROM {reader}({files!r}, union_by_name = true)")
    return sorted((int(partition), int(offset)) for partition, offset in rows.fetchall())
