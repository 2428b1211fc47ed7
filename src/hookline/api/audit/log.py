"""Keep the audit log in ``control.db``: a row for each change and sign-in. What nobody known was refused is counted, so
that strangers can neither flood the log nor push rows out of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from hookline.api.caller import NOBODY, Caller
from hookline.api.services import Services, control_database, part
from hookline.client_address import network_of
from hookline.database.connect import Shared
from hookline.database.sqlite import OperationalError
from hookline.events.timestamps import iso
from hookline.telemetry.log import logger

HOUR_MS = 3_600_000
NETWORKS_PER_HOUR_MAX = 90
OTHERS = "others"
"""In place of the address, once there were too many in an hour."""
ROWS_PER_HOUR_MAX = 100
"""Those of single networks, and one for each kind of refusal of all others; there are fewer than ten kinds."""
REFUSED_KEPT_MS = 31 * 86_400_000
REFUSED_FORGOTTEN_AT_ONCE_MAX = 200
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
                    (NOBODY, self._written_at - REFUSED_KEPT_MS, REFUSED_FORGOTTEN_AT_ONCE_MAX),
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


KEPT_MS = 366 * 86_400_000
KEPT_ROWS_MAX = 1_000_000
"""Of what somebody known did."""
FORGOTTEN_AT_ONCE_MAX = 100
"""More than one is added at a time, so the bound holds, and no change waits long for it."""
CHANGES_BYTES_MAX = 16_384
TEXT_CHARACTERS_MAX = 1_000
RARE_ROWS = 2_000
"""A value in fewer rows than this is rare enough to read them all."""

_NO_ID = 1 << 62
IDS_OF_STRANGERS_MAX = ROWS_PER_HOUR_MAX * (KEPT_MS // 3_600_000)
"""So many ids within a year, at most, are not of somebody known: their rows push nobody's out."""
_COLUMNS = "id, at, actor, actor_kind, action, target, version, changes, address, request_id, count, last_at"


class AuditLog:
    """Adds rows and reads them; there is no way to change one."""

    def __init__(
        self,
        database: Shared,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        steady_ms: Callable[[], int] | None = None,
    ) -> None:
        """``steady_ms`` is the service's own clock: one that people set forward makes no row older."""
        self._database = database
        self._now_ms = now_ms
        self._steady_ms = steady_ms or now_ms
        self._refused = Refused(database, now_ms)

    def record(
        self,
        caller: Caller,
        action: str,
        target: str,
        address: str,
        request_id: str,
        changes: Sequence[AuditChange] = (),
        version: int | None = None,
    ) -> None:
        """Add a row; the oldest go when there are too many, or when they are more than a year old."""
        now = self._now_ms()
        author, action, target = (text[:TEXT_CHARACTERS_MAX] for text in (caller.author, action, target))
        with self._database.transaction() as execute:
            ((id,),) = execute(
                "INSERT INTO audit_log (at, actor, actor_kind, action, target, version, changes, address, request_id)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
                (now, author, caller.kind, action, target, version, _encoded(changes), address, request_id),
            ).fetchall()
            execute(
                "DELETE FROM audit_log WHERE id IN (SELECT id FROM audit_log ORDER BY id LIMIT ?)"
                " AND (id <= ? OR at < ?)",
                (
                    FORGOTTEN_AT_ONCE_MAX,
                    id - KEPT_ROWS_MAX - IDS_OF_STRANGERS_MAX,
                    min(now, self._steady_ms()) - KEPT_MS,
                ),
            )

    def count_refused(self, action: str, target: str, address: str, request_id: str) -> bool:
        """Count what nobody known was refused; return whether it is the first of its kind from there in this hour."""
        return self._refused.count(action, target, address, request_id)

    def close(self) -> None:
        """Write down what was only counted so far."""
        self.flush()

    def flush(self) -> None:
        """Write down what was only counted so far."""
        self._refused.flush()

    def newest(
        self,
        limit: int,
        before_id: int | None = None,
        actor: str | None = None,
        action: str | None = None,
        target: str | None = None,
        since_ms: int | None = None,
        until_ms: int | None = None,
    ) -> list[AuditEntry]:
        """At most ``limit`` entries older than one, newest first: all, or of one actor, action, object, or time."""
        self.flush()
        wanted = {"actor": actor, "action": action, "target": target}
        given = {column: value for column, value in wanted.items() if value is not None}
        first = 0 if since_ms is None else self._first_at(since_ms)
        end = min(before_id or _NO_ID, _NO_ID if until_ms is None else self._first_at(until_ms))
        where = " AND ".join(["id >= ? AND id < ?", *(f"{column} = ?" for column in given)])
        query = f"SELECT {_COLUMNS} FROM audit_log {self._index(given)} WHERE {where} ORDER BY id DESC LIMIT ?"
        return [_entry(row) for row in self._database.rows(query, (first, end, *given.values(), limit))]

    def _index(self, given: dict[str, str]) -> str:
        """Return the index of the rarest of the values; left alone, the database goes by averages, and may read every
        row."""
        if len(given) < 2:
            return ""

        def rows(column: str) -> int:
            counted = f"SELECT count(*) FROM (SELECT 1 FROM audit_log WHERE {column} = ? LIMIT ?) AS found"
            return int(self._database.rows(counted, (given[column], RARE_ROWS))[0][0])

        return f"INDEXED BY audit_log_{min(given, key=rows)}"

    def _first_at(self, ms: int) -> int:
        """Return the first id at or after a time: entries are added in the order of time, so it is found by halving."""
        # Two queries in one: asked for both together, the database would read every row.
        ends = "SELECT (SELECT coalesce(min(id), 1) FROM audit_log), (SELECT coalesce(max(id), 0) + 1 FROM audit_log)"
        ((low, high),) = self._database.rows(ends)
        while low < high:
            middle = (low + high) // 2
            row = self._database.row("SELECT at FROM audit_log WHERE id >= ? ORDER BY id LIMIT 1", (middle,))
            low, high = (middle + 1, high) if row is not None and row[0] < ms else (low, middle)
        return int(low)

    def get(self, id: int) -> AuditEntry | None:
        """Return the entry with this id."""
        self.flush()
        row = self._database.row(f"SELECT {_COLUMNS} FROM audit_log WHERE id = ?", (id,))
        return None if row is None else _entry(row)


def _encoded(changes: Sequence[AuditChange]) -> str:
    """Return the changes as JSON; of a large one only as much as there is room for, and how many more there were."""
    kept: list[bytes] = []
    size = 0
    for number, change in enumerate(changes):
        text = msgspec.json.encode(change)
        if size + len(text) > CHANGES_BYTES_MAX:
            kept.append(msgspec.json.encode(AuditChange("", "", None, f"and {len(changes) - number} more")))
            break
        kept.append(text)
        size += len(text)
    return (b"[" + b",".join(kept) + b"]").decode()


def _entry(row: tuple[Any, ...]) -> AuditEntry:
    id, at, actor, actor_kind, action, target, version, changes, address, request_id, count, last_at = row
    return AuditEntry(
        id=id,
        at=iso(at),
        actor=actor,
        actor_kind=actor_kind,
        action=action,
        target=target,
        version=version,
        changes=msgspec.json.decode(changes, type=tuple[AuditChange, ...]),
        address=address,
        request_id=request_id,
        count=count,
        last_at=None if last_at is None else iso(last_at),
    )


ActorKind = Literal["account", "token", "admin_token", "nobody"]


class AuditChange(msgspec.Struct, frozen=True):
    """One field of one object before and after, null if it had no value. Secrets are masked."""

    object: str
    path: str
    before: Any = None
    after: Any = None


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One entry of the audit log: who did what to what. ``version`` is the version of the connections that it created,
    if any. ``actorKind`` is null in old entries. Refused calls without a known account or token are counted by the
    hour: ``count`` of them from ``at`` to ``lastAt``.
    """

    id: int
    at: str
    actor: str
    actor_kind: ActorKind | None = None
    action: str
    target: str
    version: int | None
    changes: tuple[AuditChange, ...]
    address: str
    request_id: str
    count: int | None = None
    last_at: str | None = None


@part
def audit_log(services: Services) -> AuditLog:
    """Return the audit log."""
    return AuditLog(control_database(services), steady_ms=services.store.steady_ms)
