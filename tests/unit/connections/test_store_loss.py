"""The connections when PostgreSQL's answer is lost on its way."""

from __future__ import annotations

from contextlib import closing

import pytest

from hookline.connections.store import Store
from hookline.database.location import Schema
from hookline.database.sqlite import DatabaseAway
from tests.postgres import TEMPLATE, PostgresServer
from tests.unit.connections.examples import change, source
from tests.unit.database.postgres.cable import Cable


def test_a_change_whose_commit_was_not_answered_is_seen(postgres: PostgresServer) -> None:
    """Whoever made it is told that the database is away; what is in force is known at the next look."""
    with postgres.database(TEMPLATE) as url, Cable(postgres.port) as cable:
        name = url.partition("@/")[2].partition("?")[0]
        place = Schema(f"postgresql://hookline@127.0.0.1:{cable.port}/{name}", "control")
        with closing(Store(place)) as store:
            cable.cut_after = b"COMMIT\0"
            with pytest.raises(DatabaseAway):
                change(store, source("website"))
            assert store.source("website") is None
            store.catch_up()
            assert store.source("website") is not None
            change(store, source("shop"))
            assert store.version == 2
