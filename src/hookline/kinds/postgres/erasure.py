"""Erase people: their rows in every table that was made here, in all schemas of a destination.

A table is one of ours by its columns (``id``, ``received_at``, ``uuid_ts``) and by the right to write into it. It is
found in the database itself, so that the tables of a source that is gone are not forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from hookline.kinds.postgres.rows import TableName
from hookline.kinds.postgres.tables import qualified
from hookline.kinds.postgres.types import cleaned
from hookline.kinds.sink import SinkEvent, SinkFailed

if TYPE_CHECKING:
    from psycopg import Connection

STATEMENT_BOUND = "SET LOCAL statement_timeout = '600s'"
"""A table is read from its beginning to its end for it."""


class Erased(NamedTuple):
    """Say how many rows are gone, and from how many tables."""

    rows: int
    tables: int


class OurTable(NamedTuple):
    """A table, and which columns of it name a person."""

    table: TableName
    may_delete: bool
    columns: frozenset[str]


def erase(connection: Connection[tuple[object, ...]], events: Sequence[SinkEvent], schema_prefix: str) -> Erased:
    """Delete the rows of the users, and those without a user that have an anonymous id of theirs.

    Rows of other users stay, even with an anonymous id that both have: they are other people's data.
    """
    users = sorted({cleaned(each.fields["userId"]) for each in events if each.fields.get("userId")})
    anonymous = {cleaned(each.fields["anonymousId"]) for each in events if each.fields.get("anonymousId")}
    connection.execute(STATEMENT_BOUND)
    tables = _our_tables(connection, schema_prefix)
    gone: dict[TableName, int] = {}
    for each in tables:
        count, found = _delete_users(connection, each, users)
        gone[each.table] = count
        anonymous.update(found)
    if anonymous:
        for each in tables:
            if "anonymous_id" in each.columns:
                nobody = "user_id IS NULL AND " if "user_id" in each.columns else ""
                statement = f"DELETE FROM {qualified(each.table)} WHERE {nobody}anonymous_id = ANY(%s)"
                gone[each.table] += connection.execute(statement.encode(), (sorted(anonymous),)).rowcount
    return Erased(sum(gone.values()), sum(count > 0 for count in gone.values()))


def _delete_users(
    connection: Connection[tuple[object, ...]], each: OurTable, users: list[str]
) -> tuple[int, list[str]]:
    """Delete the rows of the users in one table; return how many, and which other ids they had."""
    if "user_id" not in each.columns:
        if each.table.name != "users":  # accounts: one row for each group, which is nobody's
            return 0, []
        return connection.execute(
            f"DELETE FROM {qualified(each.table)} WHERE id = ANY(%s)".encode(), (users,)
        ).rowcount, []
    others = [name for name in ("anonymous_id", "previous_id") if name in each.columns]
    owner = "user_id = ANY(%(users)s)"
    if "previous_id" in each.columns:
        owner += " OR previous_id = ANY(%(users)s)"
    statement = (
        f"WITH gone AS (DELETE FROM {qualified(each.table)} WHERE {owner} RETURNING {', '.join([*others, 'id'])})"
        f" SELECT (SELECT count(*) FROM gone)"
        + "".join(f", (SELECT array_agg(DISTINCT {name}) FROM gone WHERE {name} IS NOT NULL)" for name in others)
    )
    row = connection.execute(statement.encode(), {"users": users}).fetchone()
    assert row is not None
    count, *found = row
    assert isinstance(count, int)
    return count, [str(id) for ids in found if isinstance(ids, list) for id in ids]


def _our_tables(connection: Connection[tuple[object, ...]], schema_prefix: str) -> list[OurTable]:
    found: list[OurTable] = []
    for schema, name, may_delete, columns in connection.execute(_OURS, (schema_prefix,)):
        assert isinstance(columns, list)
        found.append(OurTable(TableName(str(schema), str(name)), bool(may_delete), frozenset(columns)))
    closed = [f"{each.table.schema}.{each.table.name}" for each in found if not each.may_delete]
    if closed:
        raise SinkFailed(f"rows of {closed[0]} may not be deleted; grant the user SELECT and DELETE on it")
    return found


_OURS = """
SELECT n.nspname::text, c.relname::text,
       has_table_privilege(c.oid, 'DELETE') AND has_table_privilege(c.oid, 'SELECT'),
       COALESCE(array_agg(a.attname::text) FILTER (WHERE a.attname IN ('anonymous_id', 'previous_id', 'user_id')), '{}')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relkind IN ('r', 'p') AND starts_with(n.nspname::text, %s)
  AND NOT starts_with(n.nspname::text, 'pg_')
  AND a.attnum > 0 AND NOT a.attisdropped
  AND CASE WHEN has_schema_privilege(n.oid, 'USAGE') THEN has_table_privilege(c.oid, 'INSERT') ELSE false END
GROUP BY c.oid, n.nspname, c.relname
HAVING array_agg(a.attname::text) @> ARRAY['id', 'received_at', 'uuid_ts']
ORDER BY 1, 2
"""
