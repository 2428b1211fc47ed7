"""What ``hookline tokens`` does; a token is named by its name or its id."""

from __future__ import annotations

import json

from hookline.cli.admin_api import AdminApi, Json
from hookline.cli.failure import CommandFailed
from hookline.cli.terminal_text import printable


def print_tokens(admin: AdminApi, as_json: bool) -> int:
    """Every token on a line."""
    tokens = admin.every("/tokens")
    print(json.dumps(tokens) if as_json else "\n".join(_line(token) for token in tokens) or "there are none")
    return 0


def create_token(admin: AdminApi, name: str, scope: str, expires_in: str | None, as_json: bool) -> int:
    """Make a token and print its text on a line of its own, for programs to take."""
    made = admin.request("POST", "/tokens", {"name": name, "scope": scope, "expiresIn": expires_in})
    print(json.dumps(made) if as_json else f"{_line(made['token'])}\n{made['text']}")
    return 0


def revoke_token(admin: AdminApi, name: str, as_json: bool) -> int:
    """Revoke a token and print what it was."""
    token = next((each for each in admin.every("/tokens") if name in (each["id"], each["name"])), None)
    if token is None:
        raise CommandFailed(f"there is no token {name!r}; see hookline tokens list")
    admin.request("DELETE", f"/tokens/{token['id']}")
    print(json.dumps(token) if as_json else f"revoked: {_line(token)}")
    return 0


def _line(token: Json) -> str:
    parts = [f"{token['id']}  {printable(token['name'])}  {token['scope']}, ends with {token['hint']}"]
    if token["expiresAt"]:
        parts.append(f"{'expired' if token['expired'] else 'good until'} {token['expiresAt']}")
    parts.append(f"last used {token['lastUsedAt']}" if token["lastUsedAt"] else "never used")
    return ", ".join(parts)
