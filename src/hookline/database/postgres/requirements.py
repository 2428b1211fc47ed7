"""Hold the server, its database and our role in it against what they must have, and ask whether a schema can be
used.

Whatever lacks is refused in a sentence that says what to set or to grant; nothing is written for it.

For who is told what is wrong, and for who waits until it is over; what a statement meets counts before this.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import psycopg
from psycopg.conninfo import conninfo_to_dict

from hookline.database.location import Schema, Which
from hookline.database.postgres.dialect import as_ours
from hookline.database.postgres.sessions import conninfo, open_session
from hookline.database.sqlite import DatabaseAway, DatabaseForbidden, DatabaseLocked, DatabaseReadOnly, DatabaseUnusable

Session = psycopg.Connection[Any]

SERVER_VERSION_MIN = 140_000
ENCODING = "UTF8"
TARGETS = ("any", "read-write", "primary")
"""Of ``target_session_attrs``: those that may lead to a server that can be written to."""
SCHEMAS = ("hookline", *(f"hookline_{which}" for which in get_args(Which)))

LOOKS = 8
"""Rounds of asking two sessions who serves them. With one round a pooler that others use too might give each of them
the same process again by chance."""

# Quoted as they have to be written.
_NAMES = """
SELECT quote_ident(current_user), quote_ident(current_database()),
  has_database_privilege(current_database(), 'CREATE'), has_database_privilege(current_database(), 'TEMPORARY')
"""
_SCHEMAS = """
SELECT nspname::text, has_schema_privilege(oid, 'USAGE') AND has_schema_privilege(oid, 'CREATE')
FROM pg_namespace WHERE nspname = ANY (%s)
"""
_TABLES = """
SELECT DISTINCT n.nspname::text, CASE WHEN c.relkind = 'S' THEN 'S' ELSE 'r' END
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = ANY (%s) AND CASE
  WHEN c.relkind = 'S' THEN NOT (has_sequence_privilege(c.oid, 'USAGE') AND has_sequence_privilege(c.oid, 'UPDATE'))
  WHEN c.relkind IN ('r', 'p') THEN NOT (has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
    AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE'))
  ELSE false END
"""


def check(session: Session, address: str, *, temporary: bool = False) -> None:
    """Raise DatabaseUnusable when ``session``, a new one that ``address`` led to, cannot be worked with; ``temporary``:
    by who needs tables of its own for a while too."""
    refuse_standby(address)
    # Before anything is set in it: it may be somebody else's next.
    _refuse_shared_sessions(session, address)
    _refuse_old(session)
    _refuse_encoding(session)
    _refuse_lacking_rights(session, temporary)


def refuse_standby(address: str) -> None:
    """Raise DatabaseUnusable when the address asks for a server that cannot be written to."""
    target = conninfo_to_dict(address).get("target_session_attrs", "any")
    if target not in TARGETS:
        raise DatabaseUnusable(
            f"database.url asks for target_session_attrs={target}, and Hookline has to write: leave it out, or write"
            " read-write or primary"
        )


def _refuse_shared_sessions(session: Session, address: str) -> None:
    """Refuse a pooler that gives each statement or transaction another session: locks, settings and prepared
    statements are a session's."""
    with open_session(address) as other:
        served: dict[Session, set[object]] = {session: set(), other: set()}
        for _ in range(LOOKS):
            # Twice each: a pooler may hand its sessions out by turns, or always the one used last.
            for each in (session, other, other, session):
                served[each].update(each.execute("SELECT pg_backend_pid()", prepare=False).fetchall())
    if len(served[session]) > 1 or len(served[other]) > 1 or served[session] & served[other]:
        raise DatabaseUnusable(
            "database.url leads to a pooler that keeps no sessions (PgBouncer's pool_mode transaction or statement),"
            " and Hookline needs them: set pool_mode = session for its database, or name the server itself"
        )


def _refuse_old(session: Session) -> None:
    if session.info.server_version < SERVER_VERSION_MIN:
        raise DatabaseUnusable(
            f"PostgreSQL {session.info.server_version // 10_000} is too old; Hookline needs PostgreSQL "
            f"{SERVER_VERSION_MIN // 10_000} or newer"
        )


def _refuse_encoding(session: Session) -> None:
    """Anything may be in an event; other encodings lack characters, and SQL_ASCII has none."""
    ((encoding,),) = session.execute("SHOW server_encoding").fetchall()
    if encoding != ENCODING:
        raise DatabaseUnusable(
            f"the database that database.url names has the encoding {encoding}, and Hookline needs {ENCODING}: make"
            " another one, createdb --encoding=UTF8 --template=template0"
        )


def _refuse_lacking_rights(session: Session, temporary: bool) -> None:
    wanted = list(SCHEMAS)
    ((role, database, may_create, may_have_temporary),) = session.execute(_NAMES).fetchall()
    usable = dict(session.execute(_SCHEMAS, (wanted,)).fetchall())
    missing = [name for name in SCHEMAS if name not in usable]
    closed = ", ".join(name for name in SCHEMAS if not usable.get(name, True))
    lacking = session.execute(_TABLES, (wanted,)).fetchall()
    grants = []
    if missing and not may_create:
        grants.append(f"CREATE ON DATABASE {database}")
    if temporary and not may_have_temporary:
        grants.append(f"TEMPORARY ON DATABASE {database}")
    if closed:
        grants.append(f"USAGE, CREATE ON SCHEMA {closed}")
    for kind, rights in (("r", "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES"), ("S", "ALL ON ALL SEQUENCES")):
        if names := ", ".join(sorted(name for name, found in lacking if found == kind)):
            grants.append(f"{rights} IN SCHEMA {names}")
    if not grants:
        return
    by_hand = ""
    if missing and not may_create:
        made = " ".join(f"CREATE SCHEMA {name} AUTHORIZATION {role};" for name in missing)
        by_hand = f" (or make its schemas in place of the first: {made})"
    raise DatabaseUnusable(
        f"the role {role} lacks rights in the database {database}; let an administrator run there: "
        + " ".join(f"GRANT {grant} TO {role};" for grant in grants)
        + by_hand
    )


_RIGHTS = "SELECT, INSERT, UPDATE, DELETE"
_SETTINGS = {"lock_timeout": 1_000, "statement_timeout": 5_000}
_WRITES = "SELECT current_setting('transaction_read_only') = 'off'"
_SCHEMA = """
SELECT current_user, has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = %s
"""
_WITHOUT_RIGHT = """
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
    for table, right in asked.execute(_WITHOUT_RIGHT, (_RIGHTS, name)).fetchall():
        missing.setdefault(table, []).append(str(right))
    for table, rights in missing.items():
        yield DatabaseForbidden(f'GRANT {", ".join(rights)} ON {table} TO "{user}";')
    for table, pid, who in asked.execute(_HOLDERS, (name,)).fetchall():
        yield DatabaseLocked(f"{table} is locked by process {pid} of the server ({who})")
