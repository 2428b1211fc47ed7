"""What ``hookline users`` does; an account is named by its name or its id."""

from __future__ import annotations

import json

from hookline.cli.admin_api import AdminApi, Json
from hookline.cli.failure import CommandFailed
from hookline.cli.terminal_text import printable


def print_users(admin: AdminApi, as_json: bool) -> int:
    """Every account on a line."""
    users = admin.every("/users")
    if as_json:
        print(json.dumps(users))
    else:
        print("\n".join(_line(user) for user in users) or "there are none; the admin token opens the page")
    return 0


def invite_user(admin: AdminApi, name: str, role: str, as_json: bool) -> int:
    """Print the link for a new account, or a new one for an account that is there."""
    known = _known(admin, name)
    if known is None:
        answer = admin.request("POST", "/users", {"name": name, "role": role})
    else:
        answer = admin.request("POST", f"/users/{known['id']}/invite")
    if as_json:
        print(json.dumps(answer))
    else:
        print(_line(answer["user"]))
        print(f"Send this link; it is good once, within 72 hours:\n  {answer['link']}")
    return 0


def change_user(admin: AdminApi, name: str, change: Json, as_json: bool) -> int:
    """Change an account and print how it is then."""
    return _print(admin.request("PATCH", f"/users/{_found(admin, name)['id']}", change), as_json)


def remove_user(admin: AdminApi, name: str, as_json: bool) -> int:
    """Remove an account and print what it was."""
    user = _found(admin, name)
    admin.request("DELETE", f"/users/{user['id']}")
    return _print(user, as_json, "removed: ")


def print_me(admin: AdminApi, as_json: bool) -> int:
    """Who the token makes one."""
    me = admin.get("/users/me")
    kind = "" if me["kind"] == "admin_token" else me["kind"] + " "
    print(json.dumps(me) if as_json else f"{kind}{printable(me['name'])}, {me['role']}")
    return 0


def _found(admin: AdminApi, name: str) -> Json:
    user = _known(admin, name)
    if user is None:
        raise CommandFailed(f"there is no account {name!r}; see hookline users list")
    return user


def _known(admin: AdminApi, name: str) -> Json | None:
    wanted = name.strip().casefold()
    return next((user for user in admin.every("/users") if wanted in (user["id"], user["name"].casefold())), None)


def _print(user: Json, as_json: bool, before: str = "") -> int:
    print(json.dumps(user) if as_json else before + _line(user))
    return 0


def _line(user: Json) -> str:
    parts = [f"{user['id']}  {printable(user['name'])}  {user['role']}"]
    if user["disabled"]:
        parts.append("disabled")
    if not user["joined"]:
        parts.append("invited until " + user["invitedUntil"] if user["invitedUntil"] else "has no password")
    parts.append(f"last seen {user['lastSeenAt']}" if user["lastSeenAt"] else "never signed in")
    return ", ".join(parts)
