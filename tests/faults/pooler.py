"""What is done to a pooler between everything and PostgreSQL."""

from __future__ import annotations

import signal

from tests.faults.stage import Stage
from tests.pgbouncer import PgBouncer
from tests.postgres import PostgresServer

BREATHING_SECONDS = 1.0


def new_pooler(server: PostgresServer) -> PgBouncer:
    """One that has room for everything on a stage: fifty of the server's sixty sessions."""
    return PgBouncer(server, default_pool_size="50", max_client_conn="500")


def pooler_restarted(stage: Stage, times: int) -> None:
    """PgBouncer is killed, or ends its sessions and goes, by turns, and is started again at once."""
    pooler = stage.pooler
    assert pooler is not None
    for how in stage.in_turn([signal.SIGKILL, signal.SIGQUIT], times):
        stage.inject(f"PgBouncer, {how.name}")
        pooler.stop(how)
        pooler.start()
        stage.wait_until_level()
        stage.go_on_for(BREATHING_SECONDS)
