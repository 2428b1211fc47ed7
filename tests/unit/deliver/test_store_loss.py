"""deliver's database when PostgreSQL's answer is lost on its way."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import pytest

from hookline.bench.machine import wait_until
from hookline.database.connect import connect
from hookline.database.location import Schema
from hookline.database.sqlite import DatabaseAway
from hookline.deliver.store.batch import Batch, BlockRow, DeadLetterRow
from hookline.deliver.store.writer import DeliverStore
from tests.postgres import TEMPLATE, PostgresServer
from tests.unit.database.postgres.cable import Cable

WAIT_SECONDS = 30.0
WAITS = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


def adding() -> Batch:
    """A batch whose parts would add up if it were written twice."""
    batch = Batch()
    letter = DeadLetterRow(1, "crm", 0, 1, "m1", "website", "track", "failed", 1, 100, "refused", 400, "no")
    batch.dead_letters.append(letter)
    batch.blocks.append(BlockRow(0, 1, 1, 100, b"e" * 32))
    batch.usage[20_000, "website", 0] = [5, 0]
    return batch


def written(schema: Schema) -> tuple[int, int, int]:
    """Dead letters, bytes of results, and events counted."""
    with closing(connect(schema, read_only=True)) as reader:
        tables = ("count(*) FROM dead_letters", "sum(length(entries)) FROM outcome_blocks", "sum(events) FROM usage")
        found = [reader.execute(f"SELECT {table}").fetchone() for table in tables]
        return found[0][0], found[1][0] or 0, found[2][0] or 0


@contextmanager
def new_store(postgres: PostgresServer) -> Iterator[tuple[DeliverStore, Cable, Schema]]:
    """A store, the cable that leads to its database, and where that is without it."""
    with postgres.database(TEMPLATE) as url, Cable(postgres.port) as cable:
        name = url.partition("@/")[2].partition("?")[0]
        through = Schema(f"postgresql://hookline@127.0.0.1:{cable.port}/{name}", "deliver")
        with closing(DeliverStore(through)) as store:
            yield store, cable, Schema(url, "deliver")


def test_a_batch_whose_commit_was_not_answered_is_written_once(postgres: PostgresServer) -> None:
    """Given again it is found to be there; the same batch of another transaction that failed is written."""
    with new_store(postgres) as (store, cable, schema):
        batch = adding()
        for said, expected in ((b"INSERT INTO usage", (0, 0, 0)), (b"COMMIT\0", (1, 32, 5))):
            cable.cut_after = said
            with pytest.raises(DatabaseAway):
                store.commit(batch)
            assert written(schema) == expected
        store.commit(batch)
        assert cable.cuts == 2
        assert written(schema) == (1, 32, 5)
        store.commit(adding())
        assert written(schema) == (2, 64, 10)


def test_a_batch_whose_commit_is_still_under_way_is_written_once(postgres: PostgresServer) -> None:
    """The connection breaks while the server waits for its standby: given again, the batch waits for what becomes of
    the first transaction, and only then looks."""
    with new_store(postgres) as (store, cable, schema), ThreadPoolExecutor(1) as thread:
        batch = adding()
        set_standby(postgres, "nobody")
        try:
            cable.cuts_at_once, cable.cut_after = True, b"COMMIT\0"
            with pytest.raises(DatabaseAway):
                store.commit(batch)
            assert written(schema) == (0, 0, 0)
            again = thread.submit(store.commit, batch)
            wait_until(lambda: postgres.run(schema.url, WAITS) == [(1,)], WAIT_SECONDS, "it waits for its turn")
        finally:
            set_standby(postgres, "")
        again.result(WAIT_SECONDS)
        assert written(schema) == (1, 32, 5)


def set_standby(postgres: PostgresServer, name: str) -> None:
    """Have commits wait for this standby, which there is none of; empty: for none."""
    postgres.admin(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
    postgres.admin("SELECT pg_reload_conf()")
    wait_until(lambda: postgres.admin("SHOW synchronous_standby_names") == [(name,)], WAIT_SECONDS, "it is in force")
    postgres.admin("CHECKPOINT")  # by the process that says so to all sessions, once it has
