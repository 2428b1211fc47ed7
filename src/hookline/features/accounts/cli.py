"""``hookline users``, ``tokens`` and ``audit-log``: who may do what, and who did what."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from cyclopts import App, Parameter

from hookline.cli.admin_api import AdminApi, CommandFailed, Json
from hookline.cli.app import HERE, PEOPLE, app
from hookline.cli.target import Options, printable
from hookline.features.replays.cli import moment

Role = Literal["owner", "editor", "viewer"]
Scope = Literal["read", "write", "admin"]
users_app = App(name="users", group=PEOPLE, help="People who may sign in: list, invite, change a role, remove.")
tokens_app = App(name="tokens", group=PEOPLE, help="Tokens of programs: list, create, revoke.")


@users_app.command(name="list")
def list_users(*, options: Options = HERE) -> int:
    """List the accounts."""
    admin = options.admin()
    users = admin.every("/users")
    if options.as_json:
        print(json.dumps(users))
    else:
        print("\n".join(_line(user) for user in users) or "there are none; the admin token opens the page")
    return 0


@users_app.command
def invite(name: str, /, *, role: Role = "viewer", options: Options = HERE) -> int:
    """Make an account, or a new link for one: with it its owner chooses a password, once, within 72 hours.

    Parameters
    ----------
    name
        E-mail address, or any other name.
    role
        What they may do; of an account that is there already it is left as it is.
    """
    admin = options.admin()
    known = _known(admin, name)
    if known is None:
        answer = admin.request("POST", "/users", {"name": name, "role": role})
    else:
        answer = admin.request("POST", f"/users/{known['id']}/invite")
    if options.as_json:
        print(json.dumps(answer))
    else:
        print(_line(answer["user"]))
        print(f"Send this link; it is good once, within 72 hours:\n  {answer['link']}")
    return 0


@users_app.command
def role(name: str, role: Role, /, *, options: Options = HERE) -> int:
    """Give an account another role; its sessions end.

    Parameters
    ----------
    name
        Name or id of the account.
    role
        What they may do from now on.
    """
    return change_user(options.admin(), name, {"role": role}, options.as_json)


@users_app.command
def disable(name: str, /, *, options: Options = HERE) -> int:
    """Let an account sign in no more; its sessions end.

    Parameters
    ----------
    name
        Name or id of the account.
    """
    return change_user(options.admin(), name, {"disabled": True}, options.as_json)


@users_app.command
def enable(name: str, /, *, options: Options = HERE) -> int:
    """Let a disabled account sign in again.

    Parameters
    ----------
    name
        Name or id of the account.
    """
    return change_user(options.admin(), name, {"disabled": False}, options.as_json)


@users_app.command
def remove(name: str, /, *, options: Options = HERE) -> int:
    """Take an account away; what it did stays in the audit log.

    Parameters
    ----------
    name
        Name or id of the account.
    """
    admin = options.admin()
    user = _found(admin, name)
    admin.request("DELETE", f"/users/{user['id']}")
    return _print(user, options.as_json, "removed: ")


@tokens_app.command(name="list")
def list_tokens(*, options: Options = HERE) -> int:
    """List the tokens: what each may do, until when, and when it was last used."""
    tokens = options.admin().every("/tokens")
    print(
        json.dumps(tokens)
        if options.as_json
        else "\n".join(_line_of_token(token) for token in tokens) or "there are none"
    )
    return 0


@tokens_app.command
def create(name: str, /, *, scope: Scope = "read", expires_in: str | None = None, options: Options = HERE) -> int:
    """Make a token and print it, this once.

    Parameters
    ----------
    name
        What it is for; the audit log calls it so.
    scope
        read looks; write changes sources, destinations and replays; admin everything.
    expires_in
        How long it is good, such as 90d (default: until it is revoked).
    """
    made = options.admin().request("POST", "/tokens", {"name": name, "scope": scope, "expiresIn": expires_in})
    print(json.dumps(made) if options.as_json else f"{_line_of_token(made['token'])}\n{made['text']}")
    return 0


@tokens_app.command
def revoke(name: str, /, *, options: Options = HERE) -> int:
    """Revoke a token: it opens nothing from now on.

    Parameters
    ----------
    name
        Name or id of the token.
    """
    admin = options.admin()
    token = next((each for each in admin.every("/tokens") if name in (each["id"], each["name"])), None)
    if token is None:
        raise CommandFailed(f"there is no token {name!r}; see hookline tokens list")
    admin.request("DELETE", f"/tokens/{token['id']}")
    print(json.dumps(token) if options.as_json else f"revoked: {_line_of_token(token)}")
    return 0


@app.command(group=PEOPLE)
def whoami(*, options: Options = HERE) -> int:
    """Show whom the server takes this command for, and what that may do."""
    me = options.admin().get("/users/me")
    kind = "" if me["kind"] == "admin_token" else me["kind"] + " "
    print(json.dumps(me) if options.as_json else f"{kind}{printable(me['name'])}, {me['role']}")
    return 0


@app.command(group=PEOPLE)
def audit_log(
    *,
    actor: str | None = None,
    action: str | None = None,
    target: str | None = None,
    since: Annotated[str | None, Parameter(name="--from")] = None,
    until: Annotated[str | None, Parameter(name="--to")] = None,
    limit: int = 50,
    options: Options = HERE,
) -> int:
    """Show who did what, newest first.

    Parameters
    ----------
    actor
        Only what this account, "token NAME" or the "admin token" did.
    action
        Only this action, such as create_destination or sign_in_failed.
    target
        Only what was done to this object, such as destinations/crm.
    since
        Only what happened at or after this time: ISO 8601, or how long ago, such as 24h.
    until
        Only what happened before this time.
    limit
        How many to show at most.
    """
    wanted = {"actor": actor, "action": action, "target": target}
    times = {"from": moment("--from", since), "to": moment("--to", until)}
    items = options.admin().newest("/audit-log", limit, **wanted, **times)
    if options.as_json:
        print(json.dumps(items))
    else:
        print("\n".join(line for entry in items for line in _lines(entry)) or "there is nothing of that")
    return 0


def change_user(admin: AdminApi, name: str, change: Json, as_json: bool) -> int:
    """Change an account and print how it is then."""
    return _print(admin.request("PATCH", f"/users/{_found(admin, name)['id']}", change), as_json)


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


def _line_of_token(token: Json) -> str:
    parts = [f"{token['id']}  {printable(token['name'])}  {token['scope']}, ends with {token['hint']}"]
    if token["expiresAt"]:
        parts.append(f"{'expired' if token['expired'] else 'good until'} {token['expiresAt']}")
    parts.append(f"last used {token['lastUsedAt']}" if token["lastUsedAt"] else "never used")
    return ", ".join(parts)


def _lines(entry: Json) -> list[str]:
    action = entry["action"].replace("_", " ")
    kind = " (account)" if entry.get("actorKind") == "account" else ""
    first = f"{entry['at']}  {entry['actor']}{kind}  {action}  {entry['target']}  from {entry['address']}"
    if entry.get("count"):
        first += f"  {entry['count']} times, last at {entry['lastAt']}"
    fields = [
        f"    {change['object']} {change['path']}: {_shown(change['before'])} → {_shown(change['after'])}"
        for change in entry["changes"]
    ]
    return [printable(line) for line in (first, *fields)]


def _shown(value: Json) -> str:
    return "–" if value is None else json.dumps(value, ensure_ascii=False)
