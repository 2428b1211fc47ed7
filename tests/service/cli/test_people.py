"""`hookline users`, `tokens` and `audit-log` against a running service."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.service.cli.conftest import Run
from tests.service.client import bearer, send
from tests.service.harness import Hookline


def test_people_and_programs_come_and_go(new_hookline: Callable[..., Hookline], run: Run) -> None:
    """Each verb does what it says, by name; what they did is in the audit log, and survives a restart."""
    with new_hookline() as hookline:
        invited = json.loads(run(hookline, "users", "invite", "vera", "--role", "editor", "--json").stdout)
        assert f":{hookline.control_port}/join/" in invited["link"]
        assert "vera  viewer" in run(hookline, "users", "role", "vera", "viewer").stdout
        assert "disabled" in run(hookline, "users", "disable", "VERA").stdout
        assert "disabled" not in run(hookline, "users", "enable", "u1").stdout
        again = run(hookline, "users", "invite", "vera").stdout
        assert "/join/" in again
        assert invited["link"] not in again

        created = run(hookline, "tokens", "create", "deploy", "--scope", "write", "--expires-in", "1d").stdout
        token = created.splitlines()[-1]
        made = send(hookline.control_port, "POST", "/api/v1/sources", {"id": "by_token", "name": "T"}, bearer(token))
        assert made.status == 201
        assert run(hookline, "whoami", "--token", token).stdout == "token deploy, editor\n"
        hookline.restart()
        assert send(hookline.control_port, "GET", "/api/v1/sources", headers=bearer(token)).status == 200
        assert token[-4:] in run(hookline, "tokens", "list").stdout
        assert run(hookline, "tokens", "revoke", "deploy").returncode == 0
        assert send(hookline.control_port, "GET", "/api/v1/sources", headers=bearer(token)).status == 401
        assert run(hookline, "tokens", "revoke", "deploy").returncode == 1

        assert "removed: u1  vera" in run(hookline, "users", "remove", "vera").stdout
        assert json.loads(run(hookline, "users", "list", "--json").stdout) == []
        log = run(hookline, "audit-log", "--actor", "token deploy", "--from", "1h").stdout
        assert "token deploy  create source  sources/by_token  from 127.0.0.1" in log
        entries = json.loads(run(hookline, "audit-log", "--json").stdout)
        assert [entry["action"] for entry in entries[:2]] == ["remove_user", "revoke_token"]
