"""``hookline users``, ``tokens`` and ``audit-log``: who may do what, and who did what."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from getpass import getpass
from itertools import chain
from typing import Annotated, Literal
from urllib.parse import quote

from cyclopts import App, Parameter

from hookline.cli.admin_api import AdminApi, CommandFailed, Json
from hookline.cli.app import HERE, PEOPLE, USAGE, Flag, app
from hookline.cli.tables import print_items
from hookline.cli.target import Options, printable
from hookline.features.replays.cli import moment

Role = Literal["owner", "editor", "viewer"]
Scope = Literal["read", "write", "admin"]
CHANGES_SHOWN_MAX = 3
"""Of an entry of the audit log in a table; --json has all."""
users_app = App(name="users", group=PEOPLE, help="Accounts that can sign in: list, invite, change a role, remove.")
tokens_app = App(name="tokens", group=PEOPLE, help="API tokens for programs: list, create, revoke.")


@users_app.command(name="list")
def list_users(*, options: Options = HERE) -> int:
    """List the accounts."""
    admin = options.admin()
    users = admin.every("/users")
    if options.as_json:
        print(json.dumps(users))
    else:
        none = "there are none; the admin token opens the page"
        print_items(users, _line, none, ("Id", "Account", "Role", "State", "Last seen"), _cells, options.utc)
    return 0


@users_app.command
def invite(name: str, /, *, role: Role = "viewer", options: Options = HERE) -> int:
    """Create an account and a link to choose its password, or a new link for an existing account.

    Parameters
    ----------
    name
        E-mail address, or any other name.
    role
        Role of a new account. An existing account keeps its role.
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
        print(f"Send this link; it works once, within 72 hours:\n  {answer['link']}")
    return 0


@users_app.command
def role(name: str, role: Role, /, *, options: Options = HERE) -> int:
    """Change the role of an account. Its sessions end.

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
    """Disable an account. Its sessions end.

    Parameters
    ----------
    name
        Name or id of the account.
    """
    return change_user(options.admin(), name, {"disabled": True}, options.as_json)


@users_app.command
def enable(name: str, /, *, options: Options = HERE) -> int:
    """Enable a disabled account.

    Parameters
    ----------
    name
        Name or id of the account.
    """
    return change_user(options.admin(), name, {"disabled": False}, options.as_json)


@users_app.command
def remove(name: str, /, *, options: Options = HERE) -> int:
    """Remove an account. Its activity stays in the audit log.

    Parameters
    ----------
    name
        Name or id of the account.
    """
    admin = options.admin()
    user = _found(admin, name)
    admin.request("DELETE", f"/users/{user['id']}")
    return _print(user, options.as_json, "removed: ")


@users_app.command
def sessions(
    name: str | None = None,
    /,
    *,
    end: str | None = None,
    end_all: Flag = False,
    options: Options = HERE,
) -> int:
    """List or end the browser sessions of an account.

    Parameters
    ----------
    name
        Name or id of the account; without one, the browsers that came with the admin token or a one-time link.
    end
        End the session with this id.
    end_all
        End all of them.
    """
    admin = options.admin()
    path = "/users/me" if name is None else f"/users/{_found(admin, name)['id']}"
    if end is not None:
        admin.request("DELETE", f"{path}/sessions/{quote(end, safe='')}")
    elif end_all:
        ended = admin.request("POST", f"{path}/sign-out")["sessions"]
        print(json.dumps({"sessions": ended}) if options.as_json else f"{ended} ended")
        return 0
    items = admin.get(f"{path}/sessions")["items"]
    if options.as_json:
        print(json.dumps(items))
    else:
        columns = ("Id", "Browser", "Address", "Signed in", "Last used")
        print_items(items, _line_of_session, "nobody is signed in", columns, _cells_of_session, options.utc)
    return 0


@users_app.command
def password(name: str, /, *, stdin: Flag = False, options: Options = HERE) -> int:
    """Change the password of your account. Asks for the current one and the new one.

    Parameters
    ----------
    name
        Name of the account.
    stdin
        Read the current password and the new one from standard input, one per line, without asking.
    """
    if stdin:
        current, new = (sys.stdin.readline().rstrip("\n") for _ in range(2))
    else:
        current, new = _asked("Current password: "), _asked("New password: ")
        if new != _asked("New password again: "):
            raise CommandFailed("the two new passwords differ; nothing was changed", exit_code=USAGE)
    body = {"account": name, "current": current, "new": new}
    ended = options.admin().request("POST", "/users/password", body)["sessions"]
    print(json.dumps({"sessions": ended}) if options.as_json else f"changed; {ended} sessions ended")
    return 0


def _asked(prompt: str) -> str:
    if not sys.stdin.isatty():
        raise CommandFailed("nobody can answer here: give both passwords with --stdin", exit_code=USAGE)
    try:
        return getpass(prompt)
    except EOFError:
        raise CommandFailed("no answer; nothing was changed", exit_code=USAGE) from None


@tokens_app.command(name="list")
def list_tokens(*, options: Options = HERE) -> int:
    """List the tokens with scope, expiry and last use."""
    tokens = options.admin().every("/tokens")
    if options.as_json:
        print(json.dumps(tokens))
    else:
        columns = ("Id", "Token", "Scope", "Ends with", "Good until", "Last used")
        print_items(tokens, _line_of_token, "there are none", columns, _cells_of_token, options.utc)
    return 0


@tokens_app.command
def create(name: str, /, *, scope: Scope = "read", expires_in: str | None = None, options: Options = HERE) -> int:
    """Create a token and print it. It is shown only once.

    Parameters
    ----------
    name
        What it is for. The audit log shows this name.
    scope
        read, write or admin: the same as a viewer, an editor or an owner.
    expires_in
        How long it is valid, such as 90d (default: until it is revoked).
    """
    made = options.admin().request("POST", "/tokens", {"name": name, "scope": scope, "expiresIn": expires_in})
    print(json.dumps(made) if options.as_json else f"{_line_of_token(made['token'])}\n{made['text']}")
    return 0


@tokens_app.command
def revoke(name: str, /, *, options: Options = HERE) -> int:
    """Revoke a token. Calls that use it get 401 from now on.

    Parameters
    ----------
    name
        Name or id of the token.
    """
    admin = options.admin()
    token = _one_of(admin.every("/tokens"), name)
    if token is None:
        raise CommandFailed(f"there is no token {name!r}; see hookline tokens list")
    admin.request("DELETE", f"/tokens/{token['id']}")
    print(json.dumps(token) if options.as_json else f"revoked: {_line_of_token(token)}")
    return 0


@app.command(group=PEOPLE)
def whoami(*, options: Options = HERE) -> int:
    """Show which account or token this command uses, and what it may do."""
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
        columns = ("Time", "By", "Action", "Object", "From", "Changes")
        print_items(
            items, lambda each: "\n".join(_lines(each)), "no entry matches", columns, _cells_of_entry, options.utc
        )
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
    return _one_of(admin.every("/users"), name.strip(), str.casefold)


def _one_of(items: Sequence[Json], wanted: str, alike: Callable[[str], str] = str) -> Json | None:
    """Return what has this id, else what has this name: nothing that is called as another's id is taken for that."""
    of_id = (each for each in items if each["id"] == wanted)
    of_name = (each for each in items if alike(each["name"]) == alike(wanted))
    return next(chain(of_id, of_name), None)


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


def _cells(user: Json, at: Callable[[str | None], str]) -> list[object]:
    state = "○ disabled" if user["disabled"] else "● active" if user["joined"] else "◔ invited"
    return [user["id"], user["name"], user["role"], state, at(user["lastSeenAt"]) or "never"]


def _cells_of_token(token: Json, at: Callable[[str | None], str]) -> list[object]:
    until = f"■ expired {at(token['expiresAt'])}" if token["expired"] else at(token["expiresAt"]) or "no end"
    return [token["id"], token["name"], token["scope"], token["hint"], until, at(token["lastUsedAt"]) or "never"]


def _cells_of_session(each: Json, at: Callable[[str | None], str]) -> list[object]:
    return [each["id"], each["browser"], each["address"], at(each["openedAt"]), at(each["usedAt"])]


def _line_of_session(each: Json) -> str:
    return printable("  ".join(map(str, _cells_of_session(each, lambda text: text or ""))))


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


def _cells_of_entry(entry: Json, at: Callable[[str | None], str]) -> list[object]:
    times = f" {entry['count']} times" if entry.get("count") else ""
    changes = [
        f"{each['path']}: {_shown(each['before'])} → {_shown(each['after'])}"
        for each in entry["changes"]
        if each["path"]
    ]
    more = f" and {len(changes) - CHANGES_SHOWN_MAX} more" if len(changes) > CHANGES_SHOWN_MAX else ""
    return [
        at(entry.get("lastAt") or entry["at"]),
        entry["actor"],
        entry["action"].replace("_", " ") + times,
        entry["target"],
        entry["address"],
        ", ".join(changes[:CHANGES_SHOWN_MAX]) + more,
    ]


def _shown(value: Json) -> str:
    return "–" if value is None else json.dumps(value, ensure_ascii=False)
