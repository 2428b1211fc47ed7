"""What is done to a pooler between everything and PostgreSQL."""

from __future__ import annotations

import signal

from tests.faults.stage import Stage
from tests.pgbouncer import PgBouncer

POOL_SIZE = 50
"""Sessions, of the 60 that the tests' servers give."""


def pooler_restarted(stage: Stage, times: int) -> None:
    """PgBouncer is killed, ended and told to pause by turns, and starts or goes on at once."""
    pooler = stage.pooler
    assert pooler is not None
    for how in stage.in_turn([signal.SIGKILL, signal.SIGQUIT, None], times):
        stage.inject(f"PgBouncer, {how.name}" if how is not None else "PgBouncer, RECONNECT and RELOAD")
        if how is None:
            pooler.tell("RECONNECT")
            pooler.tell("RELOAD")
        else:
            pooler.stop(how)
            pooler.start()
        stage.wait_until_level()
        stage.go_on_for(1.0)


def pooler_before(stage_server: object) -> PgBouncer:
    """One that has room for everything on a stage."""
    return PgBouncer(stage_server, default_pool_size=str(POOL_SIZE), max_client_conn="500")  # type: ignore[arg-type]
