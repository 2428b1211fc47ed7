"""deliver's database when PostgreSQL's answer is lost on its way."""

from __future__ import annotations

from contextlib import closing

import pytest

from hookline.database.connect import connect
from hookline.database.location import Schema
from hookline.database.sqlite import DatabaseAway
from hookline.deliver.store.batch import Batch, BlockRow, DeadLetterRow
from hookline.deliver.store.writer import DeliverStore
from tests.postgres import TEMPLATE, PostgresServer
from tests.unit.database.postgres.cable import Cable


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


def test_a_batch_whose_commit_was_not_answered_is_written_once(postgres: PostgresServer) -> None:
    """Given again it is found to be there; the same batch of another transaction that failed is written."""
    with postgres.database(TEMPLATE) as url, Cable(postgres.port) as cable:
        name = url.partition("@/")[2].partition("?")[0]
        through = Schema(f"postgresql://hookline@127.0.0.1:{cable.port}/{name}", "deliver")
        with closing(DeliverStore(through)) as store:
            batch = adding()
            for said, expected in ((b"INSERT INTO usage", (0, 0, 0)), (b"COMMIT", (1, 32, 5))):
                cable.cut_after = said
                with pytest.raises(DatabaseAway):
                    store.commit(batch)
                assert written(Schema(url, "deliver")) == expected
            store.commit(batch)
            assert cable.cuts == 2
            assert written(Schema(url, "deliver")) == (1, 32, 5)
            store.commit(adding())
            assert written(Schema(url, "deliver")) == (2, 64, 10)
