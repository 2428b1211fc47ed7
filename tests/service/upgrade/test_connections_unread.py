"""Connections, or the list of suppressed people, that cannot be read are not "none": 503, or what was known last."""

from __future__ import annotations

import fcntl
import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.service.client import send
from tests.service.harness import Hookline, Receiver, is_ready, new_id, wait_until, webhook
from tests.service.upgrade.conftest import change, newer

BEFORE = "Before"
"""The event of somebody who is about to be suppressed."""
SLOW_MIGRATION_SECONDS = 12.0
"""Longer than collect waits for control before it goes by the connections of before."""

NEWER = (
    *("issues", "issue_hours", "issue_reader"),
    *("notification_outages", "notification_outage_notices", "notification_messages", "notification_cursor"),
    *("ended_sessions", "views"),
)
"""Tables of control that came after the steps which the slow migration takes again."""


def statuses(hookline: Hookline, until: Callable[[set[int]], bool], user: str = "u1", key: str = "wk_site") -> set[int]:
    """What calls are answered, one after another, until the set of answers will do."""
    seen: set[int] = set()

    def one_more() -> bool:
        try:
            body = {"userId": user, "event": "Test", "messageId": new_id()}
            seen.add(hookline.post("/v1/track", body, key=key).status)
        except OSError:
            pass  # it is not listening yet
        return until(seen)

    wait_until(one_more, what="the answers that are expected")
    return seen


def readiness(hookline: Hookline) -> object:
    """What collect says of itself; None while it does not listen."""
    try:
        return send(hookline.collect_port, "GET", "/readyz").json
    except OSError:
        return None


def suppress(hookline: Hookline, user: str) -> None:
    """Suppress somebody, and wait until that is in force."""
    hookline.api("POST", "deletion-requests", {"userId": user, "action": "suppress"})
    before = hookline.metric("hookline_collect_suppressed_total")

    def is_in_force() -> bool:
        hookline.track(BEFORE, userId=user)
        return hookline.metric("hookline_collect_suppressed_total") > before

    wait_until(is_in_force, what="the person is suppressed")


def users(receiver: Receiver) -> set[str]:
    """Whose events came, but for those sent while somebody was about to be suppressed."""
    return {request.json["userId"] for request in receiver.requests if request.json["event"] != BEFORE}


def kill(hookline: Hookline, role: str) -> None:
    """kill -9 of a role; return when its successor runs."""
    pid = hookline.role(role)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: hookline.role(role, required=False) not in (0, pid), what=f"{role} is started again")


@contextmanager
def folder_held(folder: Path) -> Iterator[None]:
    """Another process's migration of some database goes on."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(descriptor)


def test_connections_of_a_newer_version_leave_the_last_known_in_force(
    service: Callable[..., Hookline], receiver: Receiver
) -> None:
    """A collect that starts beside tables it cannot read takes events by the sources it kept; other keys are 503."""
    with service(webhook("crm", receiver.url())) as hookline:
        receiver.wait_for(hookline.track())  # deliver has the connections
        rename = "ALTER TABLE objects RENAME COLUMN {} TO {}"
        with newer(hookline, "control", rename.format("document", "content"), rename.format("content", "document")):
            kill(hookline, "collect")
            assert statuses(hookline, lambda seen: 200 in seen or 401 in seen) <= {200, 503}
            assert readiness(hookline) == {"status": "ready", "connections": "kept"}
            assert statuses(hookline, bool, key="wk_other") == {503}
            receiver.wait_for(hookline.track())
            assert (hookline.data / "collect-connections").stat().st_mode & 0o777 == 0o600
        wait_until(lambda: readiness(hookline) == {"status": "ready"}, what="the connections are read again")
        assert statuses(hookline, lambda seen: 401 in seen, key="wk_other") <= {401, 503}


def test_a_slow_migration_refuses_no_valid_key(new_hookline: Callable[..., Hookline], receiver: Receiver) -> None:
    """While a migration takes longer than collect waits for control, calls are 503 and then 200, never 401."""
    hookline = new_hookline(webhook("crm", receiver.url()))
    with hookline:
        hookline.track()
    change(
        hookline,
        "control",
        *(f"ALTER TABLE audit_log DROP COLUMN {column}" for column in ("actor_kind", "count", "last_at")),
        "ALTER TABLE dead_letter_actions RENAME COLUMN dead_letters TO letters",
        "ALTER TABLE dead_letter_actions RENAME TO letter_actions",
        *(f"DROP TABLE {table}" for table in NEWER),
        "ALTER TABLE notices DROP COLUMN since",
        "ALTER TABLE sessions DROP COLUMN address",
        "ALTER TABLE sessions DROP COLUMN agent",
        "UPDATE alembic_version SET version_num = 'control_0004'",
    )
    with folder_held(hookline.data):
        hookline.launch()
        held = time.monotonic()
        seen = statuses(hookline, lambda seen: time.monotonic() - held > SLOW_MIGRATION_SECONDS)
    assert seen <= {200, 503}
    hookline.wait_ready()
    receiver.wait_for(hookline.track())
    assert "ended" not in hookline.log
    hookline.stop()


def test_nobody_suppressed_is_stored_while_their_list_is_migrated(
    new_hookline: Callable[..., Hookline], receiver: Receiver
) -> None:
    """The list counts from the first event that is taken, however long control needs for its database."""
    hookline = new_hookline(webhook("crm", receiver.url()))
    with hookline:
        suppress(hookline, "gone")
    privacy = hookline.data / "privacy.db"
    change(
        hookline,
        "privacy",
        "DROP TABLE privacy_key",
        "ALTER TABLE deletion_receipts DROP COLUMN remark",
        "ALTER TABLE deletion_receipts RENAME COLUMN status TO fate",
        "UPDATE alembic_version SET version_num = 'privacy_0001'",
    )
    # Not by a flock of the folder, which would keep control from its own database as well.
    migrating = sqlite3.connect(privacy, isolation_level=None)
    migrating.execute("BEGIN IMMEDIATE")
    hookline.launch()
    began = time.monotonic()
    statuses(hookline, lambda seen: time.monotonic() - began > 3.0, user="gone")
    migrating.execute("ROLLBACK")
    migrating.close()
    hookline.wait_ready()
    statuses(hookline, lambda seen: 200 in seen, user="gone")
    receiver.wait_for(hookline.track())
    assert users(receiver) == {"u1"}
    hookline.stop()


def test_a_list_that_cannot_be_read_is_not_nobody(service: Callable[..., Hookline], receiver: Receiver) -> None:
    """Who cannot tell who is suppressed takes nothing, whether it runs or starts, until the list is read again."""
    with service(webhook("crm", receiver.url())) as hookline:
        suppress(hookline, "gone")
        rename = "ALTER TABLE {} RENAME TO {}"
        there, back = rename.format("suppressions", "kept_out"), rename.format("kept_out", "suppressions")
        with newer(hookline, "privacy", there, back):
            change(hookline, "privacy", "UPDATE privacy_changes SET next = next + 1")
            wait_until(lambda: not is_ready(hookline.collect_port), what="it stands by")
            kill(hookline, "collect")
            began = time.monotonic()
            assert statuses(hookline, lambda seen: time.monotonic() - began > 2.0, user="gone") == {503}
        statuses(hookline, lambda seen: 200 in seen, user="gone")
        receiver.wait_for(hookline.track())
        assert users(receiver) == {"u1"}
