"""What a database refuses while it answers: tables locked one after another, no writes, statements ended, rights gone,
no room. Each lasts longer than anybody waits for it, and then everything is to go through again by itself."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psycopg

from tests.faults.stage import Stage
from tests.postgres import PLAIN_USER, PostgresServer

LOCK_SECONDS = 60.0
"""Of each table: as an ``ALTER TABLE`` or ``VACUUM FULL`` takes."""
TROUBLE_SECONDS = 20.0
BREATHING_SECONDS = 1.0
STATEMENT_MS_MAX = 2
"""Ends checkpoints, and lets the shortest questions be answered."""
SMALL_DISK_MB = 32
TABLES = "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname LIKE 'hookline%' ORDER BY 1"
SCHEMAS = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'hookline%' ORDER BY 1"
BIG_TABLES = ("outcome_blocks", "attempts", "checkpoints", "commit_marks")


class Trouble(NamedTuple):
    """A scenario's name, title and number of times, and what it does."""

    name: str
    title: str
    times: int
    play: Callable[[Stage, int], None]


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
    """Each table is held for a minute."""
    server, url = stage.server, stage.server.url("postgres")
    for (table,) in stage.in_turn(server.run(url, TABLES), times):
        stage.inject(f"{table} locked")
        with locked(server, url, table):
            time.sleep(LOCK_SECONDS)
        _go_on(stage)


def read_only(stage: Stage, times: int) -> None:
    """The server takes no writes."""
    for _ in stage.in_turn([None], times):
        stage.inject("read-only")
        with setting(stage.server, "default_transaction_read_only", "on"):
            time.sleep(TROUBLE_SECONDS)
        _go_on(stage)


def statements_ended(stage: Stage, times: int) -> None:
    """The server ends what takes longer than a moment."""
    for _ in stage.in_turn([None], times):
        stage.inject("statement_timeout")
        with setting(stage.server, "statement_timeout", f"{STATEMENT_MS_MAX}ms"):
            time.sleep(TROUBLE_SECONDS)
        _go_on(stage)


def rights_taken_away(stage: Stage, times: int) -> None:
    """The rights on one schema after the other are taken away and given back."""
    server, url = stage.server, stage.server.url("postgres")
    for (schema,) in stage.in_turn(server.run(url, SCHEMAS), times):
        stage.inject(f"no rights on {schema}")
        with forbidden(server, url, schema):
            time.sleep(TROUBLE_SECONDS)
        _go_on(stage)


def database_full(stage: Stage, times: int) -> None:
    """What deliver writes lies on a disk of its own, which is filled; only root can make one."""
    server, url = stage.server, stage.server.url("postgres")
    disk = server.folder / "small"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK_MB}m,mode=777", "tmpfs", str(disk)], check=True)
    try:
        server.run(url, f"CREATE TABLESPACE small LOCATION '{disk}'")
        for table in BIG_TABLES:
            server.run(url, f"ALTER TABLE hookline_deliver.{table} SET TABLESPACE small")
        for _ in stage.in_turn([None], times):
            stage.inject("the disk is full")
            filler = _fill(disk)
            time.sleep(TROUBLE_SECONDS)
            filler.unlink()
            _go_on(stage)
    finally:
        server.stop()
        subprocess.run(["umount", str(disk)], check=True)


def _fill(disk: Path) -> Path:
    path = disk / "filler"
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(b"\xaa" * 65_536) == 65_536:
                pass
        except OSError:
            pass
    return path


def _go_on(stage: Stage) -> None:
    stage.wait_until_level()
    stage.go_on_for(BREATHING_SECONDS)


TROUBLES = (
    Trouble("locks-table-by-table", f"one table after another locked for {LOCK_SECONDS:g} s", 60, locks_table_by_table),
    Trouble("read-only", f"PostgreSQL takes no writes for {TROUBLE_SECONDS:g} s", 5, read_only),
    Trouble("statements-ended", f"statements ended after {STATEMENT_MS_MAX} ms", 5, statements_ended),
    Trouble("rights-taken-away", "the rights on one schema after another taken away", 6, rights_taken_away),
    Trouble("database-full", "the disk of deliver's tables full", 3, database_full),
)
