"""Whether a warehouse could be written is found out without writing anything."""

from __future__ import annotations

from typing import Any

import pytest

from hookline.kinds.sink import SinkContext, SinkFailed, check_sink
from tests.postgres import PLAIN_USER
from tests.service.waiting import wait_until
from tests.unit.kinds.postgres.warehouse import Warehouse

MODULE = "hookline.kinds.postgres.sink"


def check(warehouse: Warehouse, **settings: Any) -> str:
    """Check settings; return why events cannot be written, empty when they can."""

    def refusal(address: str) -> str | None:
        return None if address in warehouse.allowed else f"{address} is in a network that is not allowed"

    context = SinkContext("warehouse", warehouse.folder, refusal, lambda *_: None)
    try:
        check_sink(MODULE, context, warehouse.settings(**settings))
    except SinkFailed as failure:
        return str(failure)
    return ""


def schemas(warehouse: Warehouse) -> list[Any]:
    return warehouse.run("SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg_%' ORDER BY 1")


def test_nothing_is_made(warehouse: Warehouse) -> None:
    """Whoever may make schemas is told so, and none is there afterwards."""
    before = schemas(warehouse)
    assert check(warehouse) == ""
    assert schemas(warehouse) == before
    connected = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{warehouse.name}'"
    wait_until(lambda: warehouse.run(connected) == [(1,)], what="the connection is gone, a moment after it was closed")


def test_what_is_in_the_way_is_said_with_the_next_step(warehouse: Warehouse) -> None:
    """A database that is not there, no server, an address that is not allowed, and a database that is only read."""
    assert "the database nowhere does not exist" in check(warehouse, database="nowhere")
    assert "check that the server runs" in check(warehouse, port=1)
    warehouse.allowed.clear()
    assert check(warehouse) == "127.0.0.1 is in a network that is not allowed"
    warehouse.allowed.add("127.0.0.1")
    warehouse.run(f"ALTER DATABASE {warehouse.name} SET default_transaction_read_only = on")
    assert check(warehouse) == "this server only reads; set host to the primary"


def test_a_right_that_is_missing_is_named(warehouse: Warehouse) -> None:
    """Either the right to make schemas, or a schema behind the prefix that was made for the user."""
    warehouse.server.plain_url(warehouse.name)
    warehouse.run(f"REVOKE CREATE ON DATABASE {warehouse.name} FROM {PLAIN_USER}")
    wanted = f"run GRANT CREATE ON DATABASE {warehouse.name} TO {PLAIN_USER}"
    assert wanted in check(warehouse, user=PLAIN_USER)
    warehouse.run(f"CREATE SCHEMA prod_site AUTHORIZATION {PLAIN_USER}")
    assert check(warehouse, user=PLAIN_USER, schemaPrefix="prod_") == ""
    assert wanted in check(warehouse, user=PLAIN_USER, schemaPrefix="test_")


def test_a_module_that_is_not_there_is_a_mistake_of_the_kind(warehouse: Warehouse) -> None:
    """It is said as such, and not as a fault of the server."""
    context = SinkContext("warehouse", warehouse.folder, lambda _: None, lambda *_: None)
    with pytest.raises(ValueError, match="cannot be used"):
        check_sink("hookline.kinds.nowhere", context, warehouse.settings())
