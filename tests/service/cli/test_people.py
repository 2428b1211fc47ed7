"""`hookline users`, `tokens` and `audit-log` against a running service."""

from __future__ import annotations

import json
from collections.abc import Callable
from urllib.parse import urlencode, urlsplit

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

        join = urlencode({"password": "correct horse battery"}).encode()
        link = urlsplit(json.loads(run(hookline, "users", "invite", "vera", "--json").stdout)["link"]).path
        headers = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/x-www-form-urlencoded"}
        assert (
            send(hookline.control_port, "POST", link, join, {**headers, "User-Agent": "Firefox/145.0 Linux"}).status
            == 303
        )
        listed = run(hookline, "users", "sessions", "vera").stdout
        assert "Firefox on Linux" in listed
        assert run(hookline, "users", "sessions", "vera", "--end", listed.split()[0]).stdout == "nobody is signed in\n"
        both = "correct horse battery\nanother good password\n"
        assert "changed; 0 sessions ended" in run(hookline, "users", "password", "vera", "--stdin", piped=both).stdout
        wrong = run(hookline, "users", "password", "vera", "--stdin", piped=both)
        assert (wrong.returncode, "No account has this name and this password" in wrong.stderr) == (1, True)
        assert run(hookline, "users", "password", "vera").returncode == 2, "nobody can answer"
        assert "removed: u1  vera" in run(hookline, "users", "remove", "vera").stdout
        assert json.loads(run(hookline, "users", "list", "--json").stdout) == []
        log = run(hookline, "audit-log", "--actor", "token deploy", "--from", "1h").stdout
        assert "token deploy  create source  sources/by_token  from 127.0.0.1" in log
        entries = json.loads(run(hookline, "audit-log", "--json").stdout)
        actions = [entry["action"] for entry in entries]
        assert actions[:3] == ["remove_user", "sign_in_failed", "change_password_of"]
        assert "revoke_token" in actions
