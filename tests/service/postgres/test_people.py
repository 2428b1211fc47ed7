"""People with the databases in PostgreSQL: audiences are synced, a server that goes is waited for, who asks is gone."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from tests.postgres import PostgresServer
from tests.service.harness import Hookline, Receiver, wait_until, webhook
from tests.service.privacy.test_deletion import ask, deletes, wait_done
from tests.service.profiles.test_audience import audience, traits_sent

TWICE = {"event": "Order", "count": {"gte": 2}}


def test_an_audience_is_synced_across_a_restart_and_forgets_who_asks(
    on_postgres: Callable[..., Hookline], receiver: Receiver, server: PostgresServer, database_url: str
) -> None:
    """Each member once, whatever ends meanwhile; of a person who is deleted nothing is left in the schemas."""
    hookline = on_postgres(webhook("crm", receiver.url("/crm")))
    hookline.definitions = {"audiences": [audience("buyers", TWICE)]}
    with hookline:
        for user in ("u1", "u1", "u2"):
            hookline.track("Order", userId=user)
        wait_until(lambda: traits_sent(receiver) == {"u1": [{"buyers": True}]}, what="the first member is synced")
        os.kill(hookline.role("profiles"), signal.SIGKILL)
        server.stop(signal.SIGQUIT)
        hookline.track("Order", userId="u2")
        server.start()
        wait_until(lambda: traits_sent(receiver).get("u2") == [{"buyers": True}], what="the second member is synced")
        hookline.wait_ready()
        assert not (hookline.data / "profiles.db").exists()
        wait_done(hookline, ask(hookline, user="u1"))
        assert [message["userId"] for message in deletes(receiver, "/crm")] == ["u1"]
        rows = server.run(database_url, "SELECT user_id FROM hookline_profiles.persons ORDER BY id")
        assert rows == [("u2",)]
        assert hookline.api("GET", "people?userId=u2").status == 200
        assert hookline.api("GET", "people?userId=u1").status == 404
    assert traits_sent(receiver) == {"u1": [{"buyers": True}], "u2": [{"buyers": True}]}
