"""The database answers and refuses all the same, while events flow: locked, too slow, read-only, without rights."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from hookline.database.sqlite import BUSY_TIMEOUT_SECONDS
from tests.faults.trouble import setting
from tests.postgres import PLAIN_USER, PostgresServer
from tests.service.client import send
from tests.service.harness import Hookline, Receiver, wait_until, webhook
from tests.service.postgres.test_restarts import Ledger
from tests.service.profiles.test_audience import audience

EVENTS_PER_SECOND = 200
LOCK_SECONDS = BUSY_TIMEOUT_SECONDS + 2.0
"""More than anybody waits for a lock; the faults rig (``locks-table-by-table``) holds each for a minute."""
TROUBLE_SECONDS = 3.0
STATEMENT_MS_MAX = 50
"""Less than anybody waits for a lock."""
LINES_MAX = 20
"""Of one name that a role logs in all of it: one for each kind and schema."""
ROLES = ("collect", "deliver", "control", "profiles")
TABLES = "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname LIKE 'hookline%' ORDER BY 1"
MEMBERS = audience("buyers", {"event": "Order", "count": {"gte": 2}})


@contextmanager
def locked(server: PostgresServer, url: str) -> Iterator[None]:
    """Hold every table of ours as ``ALTER TABLE`` and ``VACUUM FULL`` do."""
    with psycopg.connect(server.url(_name(url)), options="-c statement_timeout=0 -c deadlock_timeout=60s") as holder:
        tables = [table for (table,) in holder.execute(TABLES).fetchall()]
        for table in tables:  # one after the other: who waits for one holds others
            holder.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE".encode())
        yield


@contextmanager
def too_slow(server: PostgresServer, url: str) -> Iterator[None]:
    """End every statement that takes longer than a moment, and have some take longer."""
    with setting(server, "statement_timeout", f"{STATEMENT_MS_MAX}ms"), locked(server, url):
        yield


@contextmanager
def read_only(server: PostgresServer, _: str) -> Iterator[None]:
    """Refuse what writes, as a server does that is a standby by now."""
    with setting(server, "default_transaction_read_only", "on"):
        yield


@contextmanager
def forbidden(server: PostgresServer, url: str) -> Iterator[None]:
    """Take the rights on all tables away from the service's user, and give them back."""
    schemas = [
        schema for (schema,) in server.run(url, "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'hookline%'")
    ]
    all_tables = f"ALL TABLES IN SCHEMA {', '.join(schemas)}"
    server.run(server.url(_name(url)), f"REVOKE ALL ON {all_tables} FROM {PLAIN_USER}")
    try:
        yield
    finally:
        server.run(server.url(_name(url)), f"GRANT ALL ON {all_tables} TO {PLAIN_USER}")


TROUBLES: dict[str, tuple[Callable[[PostgresServer, str], Any], float, int]] = {
    "locked": (locked, LOCK_SECONDS, 200),
    "slow": (too_slow, TROUBLE_SECONDS, 200),
    "read_only": (read_only, TROUBLE_SECONDS, 503),
    "forbidden": (forbidden, TROUBLE_SECONDS, 503),
}
"""What is done, for how long, and the status of ``/readyz`` of control meanwhile."""


def every_line(hookline: Hookline) -> list[dict[str, Any]]:
    """What the roles have logged."""
    return [json.loads(text) for text in hookline.log.splitlines() if text.startswith("{")]


def lines(hookline: Hookline, event: str) -> list[dict[str, Any]]:
    """The log's lines of one name."""
    return [line for line in every_line(hookline) if line["event"] == event]


def test_no_call_is_refused_and_no_role_ends(
    database_url: str, server: PostgresServer, new_hookline: Callable[..., Hookline], receiver: Receiver
) -> None:
    """Every call is answered 200, every event arrives once, each role lives on, and says of each schema once that it
    cannot be used and once that it can: locked, too slow, read-only and without rights, one after the other."""
    plain_url = server.plain_url(_name(database_url))
    hookline = new_hookline(webhook("crm", receiver.url()), settings={"database.url": plain_url, "log.format": "json"})
    hookline.definitions = {"audiences": [MEMBERS]}
    with hookline:
        wait_until((hookline.data / "run" / "metrics-profiles.json").exists, what="profiles reports")
        roles = {name: hookline.role(name) for name in ROLES}
        ledger = Ledger(hookline, EVENTS_PER_SECOND)
        try:
            for trouble, (begin, seconds, code) in TROUBLES.items():
                flow(ledger)
                with begin(server, plain_url):
                    ends = time.monotonic() + seconds
                    wait_until(lambda ends=ends: time.monotonic() >= ends, seconds + 5, what="it lasts")  # type: ignore[misc]
                    wait_until(lambda event=trouble: lines(hookline, f"database_{event}"), what="it is said")  # type: ignore[misc]
                    refused = hookline.api("POST", "tokens", {"name": trouble, "scope": "read"})
                    assert (refused.status, refused.json["code"]) == (503, f"database_{trouble}")
                    assert send(hookline.collect_port, "GET", "/readyz").status == 200
                    ready = send(hookline.control_port, "GET", "/readyz")
                    assert (ready.status, f"database_{trouble}" in ready.body.decode()) == (code, True)
            flow(ledger)
        finally:
            ledger.end()
        sent = set(ledger.acknowledged)
        wait_until(lambda: sent <= receiver.message_ids, 60, what="all is delivered")
        for message in ledger.acknowledged[:: len(sent) // 10]:
            hookline.wait_status(message, "crm", "delivered")
        counts = Counter(request.message_id for request in receiver.requests)
        assert (ledger.refused, counts.total() - len(counts)) == (0, 0)
        assert roles == {name: hookline.role(name) for name in ROLES}
        begun = [
            (each["role"], each["database"], kind) for kind in TROUBLES for each in lines(hookline, f"database_{kind}")
        ]
        wait_until(lambda: len(lines(hookline, "database_back")) == len(begun), 30, what="it is said that it is over")
        assert len(begun) == len(set(begun))
        said = Counter((line["role"], line["event"]) for line in every_line(hookline))
        assert [each for each, times in said.items() if times > LINES_MAX] == []


def _name(url: str) -> str:
    return url.partition("@/")[2].partition("?")[0]


def flow(ledger: Ledger) -> None:
    """Wait until events are taken for a second."""
    enough = len(ledger.acknowledged) + EVENTS_PER_SECOND
    wait_until(lambda: len(ledger.acknowledged) >= enough, what="events flow")
