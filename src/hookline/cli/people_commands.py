"""``hookline users``, ``tokens`` and ``audit-log``: who may do what, and who did what."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import App, Parameter

from hookline.cli.app import HERE, PEOPLE, Json, app
from hookline.cli.target import Target

Role = Literal["owner", "editor", "viewer"]
Scope = Literal["read", "write", "admin"]

users_app = App(name="users", group=PEOPLE, help="People who may sign in: list, invite, change a role, remove.")
tokens_app = App(name="tokens", group=PEOPLE, help="Tokens of programs: list, create, revoke.")


@users_app.command(name="list")
def list_users(*, as_json: Json = False, server: Target = HERE) -> int:
    """List the accounts.

    Parameters
    ----------
    as_json
        Print them as JSON.
    """
    from hookline.cli.users import print_users

    return print_users(server.admin(), as_json)


@users_app.command
def invite(name: str, /, *, role: Role = "viewer", as_json: Json = False, server: Target = HERE) -> int:
    """Make an account, or a new link for one: with it its owner chooses a password, once, within 72 hours.

    Parameters
    ----------
    name
        E-mail address, or any other name.
    role
        What they may do; of an account that is there already it is left as it is.
    as_json
        Print the answer as JSON.
    """
    from hookline.cli.users import invite_user

    return invite_user(server.admin(), name, role, as_json)


@users_app.command
def role(name: str, role: Role, /, *, as_json: Json = False, server: Target = HERE) -> int:
    """Give an account another role; its sessions end.

    Parameters
    ----------
    name
        Name or id of the account.
    role
        What they may do from now on.
    as_json
        Print the account as JSON.
    """
    from hookline.cli.users import change_user

    return change_user(server.admin(), name, {"role": role}, as_json)


@users_app.command
def disable(name: str, /, *, as_json: Json = False, server: Target = HERE) -> int:
    """Let an account sign in no more; its sessions end.

    Parameters
    ----------
    name
        Name or id of the account.
    as_json
        Print the account as JSON.
    """
    from hookline.cli.users import change_user

    return change_user(server.admin(), name, {"disabled": True}, as_json)


@users_app.command
def enable(name: str, /, *, as_json: Json = False, server: Target = HERE) -> int:
    """Let a disabled account sign in again.

    Parameters
    ----------
    name
        Name or id of the account.
    as_json
        Print the account as JSON.
    """
    from hookline.cli.users import change_user

    return change_user(server.admin(), name, {"disabled": False}, as_json)


@users_app.command
def remove(name: str, /, *, as_json: Json = False, server: Target = HERE) -> int:
    """Take an account away; what it did stays in the audit log.

    Parameters
    ----------
    name
        Name or id of the account.
    as_json
        Print the account that was removed as JSON.
    """
    from hookline.cli.users import remove_user

    return remove_user(server.admin(), name, as_json)


@tokens_app.command(name="list")
def list_tokens(*, as_json: Json = False, server: Target = HERE) -> int:
    """List the tokens: what each may do, until when, and when it was last used.

    Parameters
    ----------
    as_json
        Print them as JSON.
    """
    from hookline.cli.tokens import print_tokens

    return print_tokens(server.admin(), as_json)


@tokens_app.command
def create(
    name: str, /, *, scope: Scope = "read", expires_in: str | None = None, as_json: Json = False, server: Target = HERE
) -> int:
    """Make a token and print it, this once.

    Parameters
    ----------
    name
        What it is for; the audit log calls it so.
    scope
        read looks; write changes sources, destinations and replays; admin everything.
    expires_in
        How long it is good, such as 90d (default: until it is revoked).
    as_json
        Print the answer as JSON.
    """
    from hookline.cli.tokens import create_token

    return create_token(server.admin(), name, scope, expires_in, as_json)


@tokens_app.command
def revoke(name: str, /, *, as_json: Json = False, server: Target = HERE) -> int:
    """Revoke a token: it opens nothing from now on.

    Parameters
    ----------
    name
        Name or id of the token.
    as_json
        Print the token that was revoked as JSON.
    """
    from hookline.cli.tokens import revoke_token

    return revoke_token(server.admin(), name, as_json)


@app.command(group=PEOPLE)
def whoami(*, as_json: Json = False, server: Target = HERE) -> int:
    """Show whom the server takes this command for, and what that may do.

    Parameters
    ----------
    as_json
        Print it as JSON.
    """
    from hookline.cli.users import print_me

    return print_me(server.admin(), as_json)


@app.command(group=PEOPLE)
def audit_log(
    *,
    actor: str | None = None,
    action: str | None = None,
    target: str | None = None,
    since: Annotated[str | None, Parameter(name="--from")] = None,
    until: Annotated[str | None, Parameter(name="--to")] = None,
    limit: int = 50,
    as_json: Json = False,
    server: Target = HERE,
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
    as_json
        Print the entries as JSON.
    """
    from hookline.cli.audit_log import print_audit_log
    from hookline.cli.replaying import moment

    wanted = {"actor": actor, "action": action, "target": target}
    times = {"from": moment("--from", since), "to": moment("--to", until)}
    return print_audit_log(server.admin(), {**wanted, **times}, limit, as_json)
