"""A collect that starts while PostgreSQL is away goes by the connections it knew last."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from tests.postgres import PostgresServer
from tests.service.client import send
from tests.service.harness import Hookline, Receiver, wait_until, webhook

SECRET = "s3cret-of-the-receiver"
KEPT = {"status": "ready", "connections": "kept"}


def readiness(hookline: Hookline) -> object:
    """What collect says of itself; None while it does not listen."""
    try:
        return send(hookline.collect_port, "GET", "/readyz").json
    except OSError:
        return None


def test_collect_starts_without_its_database(
    on_postgres: Callable[..., Hookline], server: PostgresServer, receiver: Receiver
) -> None:
    """Killed while the server is away, it takes events again by the keys and suppressions of before, and says so."""
    with on_postgres(webhook("crm", receiver.url(), secret=SECRET)) as hookline:
        hookline.api("POST", "deletion-requests", {"userId": "gone", "action": "suppress"})
        wait_until(lambda: _is_suppressed(hookline, "gone"), what="the person is suppressed")
        seen = hookline.metric("hookline_collect_suppressed_total")
        server.stop(signal.SIGQUIT)
        os.kill(hookline.role("collect"), signal.SIGKILL)
        wait_until(lambda: readiness(hookline) == KEPT, what="it goes by what it kept")
        sent = hookline.track()
        receiver.wait_for(sent)
        of_gone = hookline.track(userId="gone")
        # It may have been made since: 401 is for keys that are not among connections that were read.
        assert hookline.post("/v1/track", {"userId": "u", "event": "Test"}, key="wk_other").status == 503
        wait_until(lambda: hookline.metric("hookline_collect_connections_kept") == 1, what="a gauge says so")
        assert seen > 0
        server.start()
        wait_until(lambda: readiness(hookline) == {"status": "ready"}, what="it goes by the database again")
        hookline.wait_ready()
        later = hookline.track()
        for message in (sent, later):
            hookline.wait_status(message, "crm", "delivered")
        assert receiver.of(of_gone) == []
        assert "connections_kept_in_force" in hookline.log
        kept = hookline.data / "collect-connections"
        assert kept.stat().st_mode & 0o777 == 0o600
        assert SECRET.encode() not in kept.read_bytes()


def _is_suppressed(hookline: Hookline, user: str) -> bool:
    hookline.track(userId=user)
    return hookline.metric("hookline_collect_suppressed_total") > 0
