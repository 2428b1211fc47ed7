"""What a database refuses while it answers: tables locked one after another, no writes, statements ended, rights gone,
no room. Each lasts longer than anybody waits for it, and then everything is to go through again by itself."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from tests.faults.load import Scenario
from tests.faults.stage import SCHEMAS, Stage
from tests.postgres import PLAIN_USER, PostgresServer

LOCK_SECONDS = 7.0
"""Of each table: longer than anybody waits for a lock. ``--lasting 60`` is what an ``ALTER TABLE`` takes."""
TABLES_MAX = 82
"""There are as many."""
TROUBLE_SECONDS = 15.0
EVENTS_PER_SECOND = 200.0
STATEMENT_MS_MAX = 2
"""Ends checkpoints, and lets the shortest questions be answered."""
SMALL_DISK_MB = 32
TABLES = "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname LIKE 'hookline%' ORDER BY 1"
BIG_TABLES = ("outcome_blocks", "attempts", "checkpoints", "commit_marks")


@contextmanager
def locked(server: PostgresServer, url: str, table: str) -> Iterator[None]:
    """Hold a table as ``ALTER TABLE`` does."""
    with psycopg.connect(url, options="-c statement_timeout=0") as holder:
        holder.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE".encode())
        yield


@contextmanager
def setting(server: PostgresServer, name: str, value: str) -> Iterator[None]:
    """Have a setting of the server be another one for a while, in sessions that are open too."""
    server.admin(f"ALTER SYSTEM SET {name} = '{value}'")
    server.admin("SELECT pg_reload_conf()")
    try:
        yield
    finally:
        server.admin(f"ALTER SYSTEM RESET {name}")
        server.admin("SELECT pg_reload_conf()")


@contextmanager
def forbidden(server: PostgresServer, url: str, schema: str) -> Iterator[None]:
    """Take the rights on a schema and its tables away from the service's user, and give them back."""
    for what in (f"ALL TABLES IN SCHEMA {schema}", f"SCHEMA {schema}"):
        server.run(url, f"REVOKE ALL ON {what} FROM {PLAIN_USER}")
    try:
        yield
    finally:
        for what in (f"SCHEMA {schema}", f"ALL TABLES IN SCHEMA {schema}"):
            server.run(url, f"GRANT ALL ON {what} TO {PLAIN_USER}")


def locks_table_by_table(stage: Stage, times: int) -> None:
    """One table after another is held as by ``ALTER TABLE``, for longer than anybody waits for it."""
    server, url = stage.server, stage.server.url("postgres")
    for (table,) in stage.in_turn(server.run(url, TABLES), times, stage.injected_before):
        with stage.trouble(f"{table} locked"), locked(server, url, table):
            stage.last(LOCK_SECONDS)


def read_only(stage: Stage, times: int) -> None:
    """The server takes no writes."""
    for _ in stage.in_turn([None], times):
        with stage.trouble("read-only"), setting(stage.server, "default_transaction_read_only", "on"):
            stage.last(TROUBLE_SECONDS)


def statements_ended(stage: Stage, times: int) -> None:
    """The server ends what takes longer than a moment."""
    for _ in stage.in_turn([None], times):
        limit = f"{STATEMENT_MS_MAX}ms"
        with stage.trouble("statement_timeout"), setting(stage.server, "statement_timeout", limit):
            stage.last(TROUBLE_SECONDS)


def rights_taken_away(stage: Stage, times: int) -> None:
    """The rights on one schema after the other are taken away and given back. Who may not read whose events are not to
    be stored stores none: then, and only then, calls are refused."""
    server, url = stage.server, stage.server.url("postgres")
    for (schema,) in stage.in_turn(server.run(url, SCHEMAS), times):
        before = stage.refused()
        with stage.trouble(f"no rights on {schema}"), forbidden(server, url, schema):
            stage.last(TROUBLE_SECONDS)
        if (stage.refused() > before) != (schema == "hookline_privacy"):
            stage.failures.append(f"no rights on {schema}: {stage.refused() - before} calls refused or cut off")


def database_full(stage: Stage, times: int) -> None:
    """What deliver writes lies on a disk of its own, which is filled; only root can make one."""
    server, url = stage.server, stage.server.url("postgres")
    with _small_disk(server.folder) as disk:
        server.run(url, f"CREATE TABLESPACE small LOCATION '{disk}'")
        _move(server, url, "small")
        for _ in stage.in_turn([None], times):
            with stage.trouble("the disk is full"), _filled(disk):
                stage.last(TROUBLE_SECONDS)
        _move(server, url, "pg_default")
        server.run(url, "DROP TABLESPACE small")


def _move(server: PostgresServer, url: str, to: str) -> None:
    for table in BIG_TABLES:
        server.run(url, f"ALTER TABLE hookline_deliver.{table} SET TABLESPACE {to}")


@contextmanager
def _small_disk(folder: Path) -> Iterator[Path]:
    """A disk of its own beside a server's folder, which belongs to whom that does."""
    disk, owner = folder / "small", folder.stat()
    disk.mkdir()
    options = f"size={SMALL_DISK_MB}m,mode=700,uid={owner.st_uid},gid={owner.st_gid}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


@contextmanager
def _filled(disk: Path) -> Iterator[None]:
    path = disk / "filler"
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"\xaa" * 65_536) == 65_536:
            pass
    yield
    path.unlink()


def _scenario(
    name: str, title: str, times: int, play: Callable[[Stage, int], None], refuses_none: bool = True
) -> Scenario:
    return Scenario(name, title, times, play, rate=EVENTS_PER_SECOND, refuses_none=refuses_none)


TROUBLES = (
    _scenario("locks-table-by-table", "one table after another locked", TABLES_MAX, locks_table_by_table)._replace(
        has_audience=True
    ),
    _scenario("read-only", f"PostgreSQL takes no writes for {TROUBLE_SECONDS:g} s", 3, read_only),
    _scenario("statements-ended", f"statements ended after {STATEMENT_MS_MAX} ms", 3, statements_ended),
    _scenario(
        "rights-taken-away",
        "the rights on one schema after another taken away",
        6,
        rights_taken_away,
        refuses_none=False,
    ),
    _scenario("database-full", "the disk of deliver's tables full", 3, database_full),
)
