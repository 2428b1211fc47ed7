"""``hookline delete-user``, ``deletion-requests`` and ``suppressions``: people's data, and whose events are stored."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import App, Parameter

from hookline.cli.app import HERE, PRIVACY, Flag, Json, app
from hookline.cli.target import Target

Action = Literal["delete", "suppress", "both"]

deletions_app = App(name="deletion-requests", group=PRIVACY, help="Deletion requests: list, show, evidence.")
suppressions_app = App(name="suppressions", group=PRIVACY, help="People whose events are not stored: list, lift.")


@app.command(group=PRIVACY)
def delete_user(
    ids: Annotated[list[str] | None, Parameter(negative="")] = None,
    /,
    *,
    action: Action,
    csv: str | None = None,
    yes: Flag = False,
    as_json: Json = False,
    server: Target = HERE,
) -> int:
    """Have people's data erased and their receivers told, their events no longer stored, or both.

    Parameters
    ----------
    ids
        User ids.
    action
        delete: erase what is stored and tell the receivers; suppress: answer further events and store none, from
        within a second on; both.
    csv
        Take the user ids from the first column of this file too; a first line that says userId is passed over.
    yes
        Do not ask before anything is erased.
    as_json
        Print the requests as JSON.
    """
    from hookline.cli.privacy import request_deletion

    return request_deletion(server.admin(), ids or [], csv, action, ask=not yes, as_json=as_json)


@deletions_app.command(name="list")
def list_requests(*, user_id: str | None = None, limit: int = 50, as_json: Json = False, server: Target = HERE) -> int:
    """List the deletion requests, newest first.

    Parameters
    ----------
    user_id
        Only those made for this user.
    limit
        How many to show at most.
    as_json
        Print them as JSON.
    """
    from hookline.cli.privacy import print_requests

    return print_requests(server.admin(), user_id, limit, as_json)


@deletions_app.command(name="show")
def show_request(id: str, /, *, as_json: Json = False, server: Target = HERE) -> int:
    """Show one deletion request and how far it has come.

    Parameters
    ----------
    id
        Id of the request.
    as_json
        Print it as JSON.
    """
    from hookline.cli.privacy import print_request

    return print_request(server.admin(), id, as_json)


@deletions_app.command
def evidence(id: str, /, *, as_json: Json = False, server: Target = HERE) -> int:
    """Show what a request affected, who acknowledged it when, and what was erased.

    Parameters
    ----------
    id
        Id of the request.
    as_json
        Print it as JSON.
    """
    from hookline.cli.privacy import print_evidence

    return print_evidence(server.admin(), id, as_json)


@suppressions_app.command(name="list")
def list_suppressed(*, limit: int = 50, as_json: Json = False, server: Target = HERE) -> int:
    """List whose events are not stored, by keyed hash of the id, newest first.

    Parameters
    ----------
    limit
        How many to show at most.
    as_json
        Print them as JSON.
    """
    from hookline.cli.privacy import print_suppressions

    return print_suppressions(server.admin(), limit, as_json)


@suppressions_app.command
def lift(ids: list[str], /, *, as_json: Json = False, server: Target = HERE) -> int:
    """Store the events of these people again.

    Parameters
    ----------
    ids
        User ids or anonymous ids.
    as_json
        Print the answer as JSON.
    """
    from hookline.cli.privacy import lift_suppressions

    return lift_suppressions(server.admin(), ids, as_json)
