"""PgBouncer between the service and PostgreSQL is killed and restarted while events flow."""

from __future__ import annotations

import signal
from collections.abc import Callable

from tests.pgbouncer import PgBouncer
from tests.postgres import PostgresServer
from tests.service.harness import Hookline, Receiver, wait_until, webhook
from tests.service.postgres.test_restarts import BATCH, Ledger

RESTARTS = 2
"""``make faults`` has more."""


def test_a_pooler_that_is_restarted_costs_nothing(
    server: PostgresServer, database_url: str, on_postgres: Callable[..., Hookline], receiver: Receiver
) -> None:
    """Every call is answered 200 and every event delivered once, with one line for each outage that a role saw."""
    with PgBouncer(server) as pooler:
        settings = {"database.url": pooler.url(database_url)}
        with on_postgres(webhook("crm", receiver.url()), **settings) as hookline:
            ledger = Ledger(hookline)
            try:
                for number in range(RESTARTS):
                    pooler.stop(signal.SIGKILL if number % 2 else signal.SIGQUIT)
                    enough = len(ledger.acknowledged) + 4 * BATCH
                    wait_until(lambda enough=enough: len(ledger.acknowledged) >= enough, 60, what="events flow")  # type: ignore[misc]
                    pooler.start()
                    hookline.wait_ready()
            finally:
                ledger.end()
            sent = set(ledger.acknowledged)
            wait_until(lambda: sent <= {r.message_id for r in receiver.requests}, 60, what="all is delivered")
            assert (ledger.refused, len(receiver.requests)) == (0, len(sent))
            roles = 4
            assert hookline.log.count('"database_away"') <= RESTARTS * roles
            wait_until(
                lambda: hookline.log.count('"database_back"') == hookline.log.count('"database_away"'),
                what="each role sees that it is back",
            )


def test_a_pooler_that_keeps_no_sessions_ends_the_start(
    server: PostgresServer, database_url: str, on_postgres: Callable[..., Hookline]
) -> None:
    """With the sentence that says what to set, and for good: starting again does not help."""
    with PgBouncer(server, "transaction") as pooler:
        hookline = on_postgres(**{"database.url": pooler.url(database_url)})
        assert hookline.launch().wait(60) == 2
        assert "set pool_mode = session" in hookline.log
