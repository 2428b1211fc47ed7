"""Roles of this version beside tables of a newer one, as in a rolling upgrade: they go on, or stand by and say so.

Not every pair of a database and a role has its own run here; with ``HOOKLINE_UPGRADE_TABLE=whole`` every one has.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import get_args

import pytest

from hookline.database.location import WRITTEN_BY, Which
from tests.service.harness import Hookline, Receiver, is_ready, wait_until, webhook
from tests.service.upgrade.conftest import change, newer
from tests.service.upgrade.test_connections_unread import kill

ROLES = ("collect", "deliver", "profiles", "control")
PAIRS = [([which], [role]) for which in get_args(Which) for role in ROLES]
AT_ONCE = [(list(get_args(Which)), list(ROLES))]
SPEND = {"id": "spend", "name": "Spend", "event": "Test", "aggregate": "count"}


def standing_by(hookline: Hookline, role: str) -> int:
    """How often a role has said that it stands by."""
    lines = [json.loads(line) for line in hookline.log.splitlines() if line.startswith("{")]
    return sum(line["event"] == "standing_by" and line["role"] == role for line in lines)


@pytest.mark.parametrize(
    ("databases", "roles"), PAIRS if os.environ.get("HOOKLINE_UPGRADE_TABLE") == "whole" else AT_ONCE
)
def test_roles_go_on_or_stand_by(
    service: Callable[..., Hookline], receiver: Receiver, databases: Sequence[Which], roles: Sequence[str]
) -> None:
    """All calls are answered 200, all events arrive, and nothing ends but what is killed; who would write stands by."""
    with service(webhook("crm", receiver.url()), definitions={"computedTraits": [SPEND]}) as hookline:
        receiver.wait_for(hookline.track())
        wait_until(lambda: hookline.role("profiles", required=False), what="profiles run")
        with ExitStack() as upgraded:
            for which in databases:
                table = "ALTER TABLE alembic_version"
                upgraded.enter_context(
                    newer(hookline, which, f"{table} ADD COLUMN more TEXT", f"{table} DROP COLUMN more")
                )
            receiver.wait_for(hookline.track())
            sent = []
            for role in roles:
                kill(hookline, role)
                wait_until(lambda: is_ready(hookline.collect_port), what="events are taken")
                sent.append(hookline.track())
                if set(WRITTEN_BY.get(role, ())) & set(databases):
                    wait_until(lambda role=role: standing_by(hookline, role) == 1, what=f"{role} stands by")  # type: ignore[misc]
            sent.append(hookline.track())
        hookline.wait_ready()
        for message in sent:
            receiver.wait_for(message)
        assert "ended with code" not in hookline.log


def test_a_downgraded_binary_is_refused(new_hookline: Callable[..., Hookline]) -> None:
    """One machine whose databases are of a newer version does not start, and says which version to start."""
    with new_hookline() as hookline:
        pass
    change(hookline, "deliver", "UPDATE alembic_version SET version_num = 'deliver_0099'")
    assert hookline.launch().wait(30) == 2
    assert "deliver.db was written by a newer Hookline (schema 99" in hookline.log
