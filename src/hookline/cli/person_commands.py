"""``hookline people``: what is known of one person, and what they did. Accounts are ``hookline users``."""

from __future__ import annotations

from cyclopts import App

from hookline.cli.app import EVENTS, HERE, Json
from hookline.cli.target import Target

people_app = App(name="people", group=EVENTS, help="The people whose events come in: show, events.")


@people_app.command
def show(
    *,
    user_id: str | None = None,
    anonymous_id: str | None = None,
    as_json: Json = False,
    server: Target = HERE,
) -> int:
    """Show everything that is known of one person, each with where it comes from.

    Parameters
    ----------
    user_id
        The person with this user id.
    anonymous_id
        The person this anonymous id belongs to.
    as_json
        Print it as JSON.
    """
    from hookline.cli.person import print_person

    return print_person(server.admin(), user_id, anonymous_id, as_json)


@people_app.command
def events(
    *,
    user_id: str | None = None,
    anonymous_id: str | None = None,
    limit: int = 50,
    as_json: Json = False,
    server: Target = HERE,
) -> int:
    """List what one person did, under all ids, newest first.

    Parameters
    ----------
    user_id
        The person with this user id.
    anonymous_id
        The person this anonymous id belongs to.
    limit
        How many to list.
    as_json
        Print them as JSON.
    """
    from hookline.cli.person import print_events

    return print_events(server.admin(), user_id, anonymous_id, limit, as_json)
