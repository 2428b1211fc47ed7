"""docs/how-to/events-in-postgresql.md: its queries answer what they say, and its bounds are those of the code."""

from __future__ import annotations

import re
from decimal import Decimal

import msgspec

from hookline.connections.kinds import kind_problems
from hookline.connections.model import Destination
from hookline.kinds.catalog import kind_of
from hookline.kinds.postgres import names, rows, tables
from tests.docs.pages import DOCS, section
from tests.unit.kinds.postgres.warehouse import Warehouse, event

PAGE = "how-to/events-in-postgresql.md"


def test_the_queries_of_the_page_answer(warehouse: Warehouse) -> None:
    """Each is run as it stands there, on a few events whose answers are known."""
    day = {"timestamp": "2026-11-20T07:00:00.000Z"}
    later = {"timestamp": "2026-11-21T07:00:00.000Z"}
    warehouse.write(
        event("identify", userId="u1", traits={"plan": "pro"}),
        event("identify", userId="u2", traits={"plan": "free"}),
        event(event="Signed Up", userId="u1", **day),
        event(event="Signed Up", userId="u2", **day),
        event(userId="u1", properties={"total": 33.63}, **day),
        event(userId="u1", properties={"total": 66.37}, **day),
        event(userId="u2", properties={"total": 5}, timestamp="2026-12-24T07:00:00.000Z"),
        event(userId="u3", properties={"total": 7}, **later),
    )
    warehouse.run("UPDATE site.order_completed SET received_at = now() RETURNING id")
    text = section(PAGE, "Three queries")
    days, funnel, plans = [warehouse.run(query) for query in re.findall(r"```sql\n(.*?)```", text, re.DOTALL)]
    assert [row[1:] for row in days] == [(2, Decimal("100.00")), (1, 7), (1, 5)]
    assert funnel == [(2, 1)]
    assert plans == [("pro", 1, Decimal("100.00")), ("free", 1, 5)]


def test_the_destination_of_the_page_is_accepted() -> None:
    """As it stands there."""
    (block,) = re.findall(r"```yaml\n(.*?)```", (DOCS / PAGE).read_text(), re.DOTALL)
    (written,) = msgspec.yaml.decode(block)["destinations"]
    assert list(kind_problems(msgspec.convert(written, Destination))) == []


def test_bounds_and_settings_on_the_page_are_those_of_the_code() -> None:
    """Every setting of the kind is named, and each number is the one in force."""
    text = (DOCS / PAGE).read_text()
    kind = kind_of("postgres")
    assert kind is not None
    assert [name for name in kind.manifest.settings["properties"] if f"{name}:" not in text and name not in text] == []
    assert (rows.DEPTH_MAX, names.NAME_BYTES_MAX, names.HASH_DIGITS) == (8, 63, 8)
    for page in (text, kind.guide):
        assert f"{tables.COLUMNS_MAX} columns" in page
        assert f"{tables.EVENT_TABLES_MAX} tables" in page
    assert kind.manifest.batch is not None
    assert f"{kind.manifest.batch.size:,} events" in text


def test_wrong_settings_are_refused_where_they_are_written() -> None:
    """A host that is a path or a list, a prefix that needs quotes, TLS that there is not."""
    given = {"host": "/tmp,other", "database": "d", "user": "u", "sslMode": "prefer", "schemaPrefix": "Prod-"}
    destination = {"id": "w", "name": "W", "kind": "postgres", "sources": [], "settings": given}
    problems = {path for _, path, _ in kind_problems(msgspec.convert(destination, Destination))}
    assert problems == {"settings.host", "settings.sslMode", "settings.schemaPrefix"}
