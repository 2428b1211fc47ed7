"""What the tests of files share: the destination, load that survives kills, and DuckDB's view of what is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb

from tests.service.harness import Hookline, new_id

BATCH = 50
NAMES = ("Order Completed", "Signed Up", "Plan Changed")


def files(destination: str = "lake", **settings: Any) -> dict[str, Any]:
    """Return a destination that writes files soon."""
    usual = {"where": "folder", "batchSeconds": 0.2}
    return {
        "id": destination,
        "name": destination,
        "kind": "files",
        "sources": ["site"],
        "settings": {**usual, **settings},
    }


def send_batch(hookline: Hookline, user: str = "u1") -> list[str]:
    """Send a batch; return the messageIds if it was acknowledged, none if nobody answered."""
    ids = [new_id() for _ in range(BATCH)]
    batch = [
        {"type": "track", "userId": user, "event": NAMES[n % 3], "messageId": id, "properties": {"total": n * 1.5}}
        for n, id in enumerate(ids)
    ]
    try:
        return ids if hookline.post("/v1/batch", {"batch": batch}).status == 200 else []
    except OSError:
        return []


def manifests(root: Path) -> list[dict[str, Any]]:
    """Return every manifest, in order."""
    return [json.loads(path.read_bytes()) for path in sorted((root / "_hookline/manifests").glob("*.json"))]


def ids_named(root: Path) -> list[str]:
    """Return the messageId of every row in files that manifests name."""
    return ids_in([str(root / file["path"]) for each in manifests(root) for file in each["files"]])


def ids_there(root: Path) -> list[str]:
    """Return the messageId of every row in any file."""
    return ids_in([str(path) for path in root.glob("source=*/**/*") if path.is_file()])


def ids_in(paths: list[str]) -> list[str]:
    """Return the messageId of every row of some files, in order."""
    if not paths:
        return []
    reader = "read_parquet" if paths[0].endswith(".parquet") else "read_ndjson"
    rows = duckdb.sql(f"SELECT messageId FROM {reader}({paths!r}, union_by_name = true)").fetchall()
    return sorted(row[0] for row in rows)
