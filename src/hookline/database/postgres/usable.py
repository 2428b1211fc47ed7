"""Asking a server whether a schema can be used: whether it takes writes, and whether the user has each right it needs.

For who is told what is wrong, and for who waits until it is over; what a statement meets counts before this.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg

from hookline.database.location import Schema
from hookline.database.postgres.address import conninfo
from hookline.database.postgres.errors import as_ours
from hookline.database.postgres.patience import open_session
from hookline.database.sqlite import DatabaseAway, DatabaseForbidden, DatabaseLocked, DatabaseReadOnly

_RIGHTS = "SELECT, INSERT, UPDATE, DELETE"
_SETTINGS = {"lock_timeout": 1_000, "statement_timeout": 5_000}
_WRITES = "SELECT current_setting('transaction_read_only') = 'off'"
_SCHEMA = """
SELECT current_user, has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = %s
"""
_TABLES = """
SELECT format('%%I.%%I', n.nspname, c.relname), r.name
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, unnest(string_to_array(%s, ', ')) AS r (name)
WHERE n.nspname = %s AND c.relkind IN ('r', 'p') AND NOT has_table_privilege(c.oid, r.name) ORDER BY 1, 2
"""
_HOLDERS = """
SELECT format('%%I.%%I', n.nspname, c.relname), l.pid, coalesce(nullif(a.application_name, ''), a.usename::text)
FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_stat_activity a ON a.pid = l.pid
WHERE n.nspname = %s AND l.granted AND c.relkind IN ('r', 'p') AND l.pid <> pg_backend_pid()
AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock') ORDER BY 1
"""


def troubles(schema: Schema) -> Iterator[DatabaseAway]:
    """Yield what is wrong with a schema, each with what to do about it as its message; nothing when all is well, or
    when it was not made yet."""
    try:
        with open_session(conninfo(schema.url, "hookline"), _SETTINGS) as asked:
            yield from _troubles(asked, schema.name)
    except psycopg.Error as error:
        ours = as_ours(error)
        yield ours if isinstance(ours, DatabaseAway) else DatabaseAway(str(ours))


def is_unusable(schema: Schema, kind: str) -> bool:
    """Return whether a trouble of a kind that somebody met lasts, as far as the server can be asked."""
    return any(each.kind == kind for each in troubles(schema))


def _troubles(asked: psycopg.Connection[tuple[object, ...]], name: str) -> Iterator[DatabaseAway]:
    if asked.execute(_WRITES).fetchone() == (False,):
        yield DatabaseReadOnly("it is a standby server, or default_transaction_read_only is on")
    found = asked.execute(_SCHEMA, (name,)).fetchone()
    if found is None:
        return
    user, may_use = found
    if not may_use:
        yield DatabaseForbidden(f'GRANT USAGE ON SCHEMA {name} TO "{user}";')
    missing: dict[object, list[str]] = {}
    for table, right in asked.execute(_TABLES, (_RIGHTS, name)).fetchall():
        missing.setdefault(table, []).append(str(right))
    for table, rights in missing.items():
        yield DatabaseForbidden(f'GRANT {", ".join(rights)} ON {table} TO "{user}";')
    for table, pid, who in asked.execute(_HOLDERS, (name,)).fetchall():
        yield DatabaseLocked(f"{table} is locked by process {pid} of the server ({who})")
