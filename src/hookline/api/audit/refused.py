"""What nobody known was refused, counted in rows of the audit log: strangers can neither flood it nor push rows out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hookline.api.caller import NOBODY
from hookline.client_address import network_of
from hookline.database.shared import Shared
from hookline.database.sqlite import OperationalError
from hookline.telemetry.log import logger

HOUR_MS = 3_600_000
NETWORKS_PER_HOUR_MAX = 90
OTHERS = "others"
"""In place of the address, once there were too many in an hour."""
ROWS_PER_HOUR_MAX = 100
"""Those of single networks, and one for each kind of refusal of all others; there are fewer than ten kinds."""
KEPT_MS = 31 * 86_400_000
FORGOTTEN_AT_ONCE_MAX = 200
"""More than an hour adds, so the bound holds."""
WRITTEN_EVERY_MS = 10_000
"""Counts are written down at most so often: each time is a write to the disk."""

Key = tuple[str, str, str]
"""Action, target, network."""


@dataclass(slots=True)
class _Row:
    request_id: str
    first_at: int
    last_at: int = 0
    count: int = 0
    id: int | None = None
    written: int = 0


class Refused:
    """A row per kind of refusal, object and network in each hour, and how often; times are the wall clock's."""

    def __init__(self, database: Shared, now_ms: Callable[[], int]) -> None:
        self._database = database
        self._now_ms = now_ms
        self._rows: dict[Key, _Row] = {}
        self._hour = 0
        self._written_at = 0

    def count(self, action: str, target: str, address: str, request_id: str) -> bool:
        """Count one; return whether it is the first of its row, which is written down at once."""
        now = self._now_ms()
        if now // HOUR_MS != self._hour:
            self.flush()
            self._rows.clear()
            self._hour = now // HOUR_MS
        key = (action, target, network_of(address))
        if key not in self._rows and len(self._rows) >= NETWORKS_PER_HOUR_MAX:
            key = (action, "", OTHERS)
        row = self._rows.setdefault(key, _Row(request_id, now))
        row.count += 1
        row.last_at = now
        if row.count == 1 or not 0 <= now - self._written_at < WRITTEN_EVERY_MS:
            self.flush()
        return row.count == 1

    def flush(self) -> None:
        """Write down what was counted since the last time; what the disk refuses is tried again with the next."""
        changed = [(key, row) for key, row in self._rows.items() if row.count != row.written]
        if not changed:
            return
        self._written_at = self._now_ms()
        try:
            with self._database.transaction() as execute:
                ids = [self._write(execute, key, row) for key, row in changed]
                execute(
                    "DELETE FROM audit_log WHERE id IN (SELECT id FROM audit_log WHERE actor = ? AND count IS NOT NULL"
                    " AND at < ? ORDER BY id LIMIT ?)",
                    (NOBODY, self._written_at - KEPT_MS, FORGOTTEN_AT_ONCE_MAX),
                )
        except OperationalError as error:
            logger().warning("refused_attempts_not_written", reason=str(error))
            return
        for (_, row), id in zip(changed, ids, strict=True):
            row.id, row.written = id, row.count

    def _write(self, execute: Callable[..., Any], key: Key, row: _Row) -> int:
        if row.id is not None:
            execute("UPDATE audit_log SET count = ?, last_at = ? WHERE id = ?", (row.count, row.last_at, row.id))
            return row.id
        action, target, network = key
        ((id,),) = execute(
            "INSERT INTO audit_log"
            " (at, actor, actor_kind, action, target, changes, address, request_id, count, last_at)"
            " VALUES (?, ?, ?, ?, ?, '[]', ?, ?, ?, ?) RETURNING id",
            (row.first_at, NOBODY, NOBODY, action, target, network, row.request_id, row.count, row.last_at),
        ).fetchall()
        return int(id)
