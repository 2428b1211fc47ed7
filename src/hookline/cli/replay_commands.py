"""``hookline replay``: send stored events again, and look after the replays there are; ``replaying`` does it."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import App, Parameter

from hookline.cli.target import Target

HERE = Target()
Json = Annotated[bool, Parameter(name="--json", negative="")]
Flag = Annotated[bool, Parameter(negative="")]
Many = Annotated[list[str] | None, Parameter(negative="")]
MessageType = Literal["identify", "track", "page", "screen", "group", "alias", "delete"]

replay_app = App(name="replay", group="Delivery", help="Send stored events again, to the same or another destination.")


@replay_app.default
def replay(
    *,
    destination: str,
    since: Annotated[str | None, Parameter(name="--from")] = None,
    until: Annotated[str | None, Parameter(name="--to")] = None,
    source: str | None = None,
    type: MessageType | None = None,
    event: str | None = None,
    user_id: str | None = None,
    message_id: Many = None,
    dead_lettered_since: str | None = None,
    dead_letters: Flag = False,
    rate: float | None = None,
    ignore_filters: Flag = False,
    dry_run: Flag = False,
    yes: Flag = False,
    detach: Flag = False,
    as_json: Json = False,
    server: Target = HERE,
) -> int:
    """Send stored events again: counts them first, then shows the progress until the end.

    Parameters
    ----------
    destination
        Id of the destination to send to.
    since
        Only events accepted at or after this time: ISO 8601, or how long ago, such as 24h.
    until
        Only events accepted before this time (default: now).
    source
        Only events of this source, connected to the destination or not.
    type
        Only this type of message.
    event
        Only track calls of this event, pages and screens of this name.
    user_id
        Only this user.
    message_id
        Only this message; may be given again.
    dead_lettered_since
        Only what was given up for this destination since this time.
    dead_letters
        Only what was given up for this destination, whenever that was.
    rate
        Events per second at most.
    ignore_filters
        Send also what the destination's filters would drop.
    dry_run
        Only count, show a few and estimate the time.
    yes
        Do not ask before it begins.
    detach
        Do not wait for the end.
    as_json
        Print the replay as JSON at the end.
    """
    from hookline.cli.replaying import request_of, start

    request = request_of(
        destination=destination,
        since=since,
        until=until,
        source=source,
        type=type,
        event=event,
        userId=user_id,
        messageIds=message_id,
        deadLetteredSince="1970-01-01T00:00:00Z" if dead_letters else dead_lettered_since,
        rate=rate,
        ignoreFilters=ignore_filters or None,
    )
    return start(server.admin(), request, dry_run=dry_run, ask=not yes, detach=detach, as_json=as_json)


@replay_app.command(name="list")
def list_(*, as_json: Json = False, server: Target = HERE) -> int:
    """List the replays, newest first.

    Parameters
    ----------
    as_json
        Print them as JSON.
    """
    from hookline.cli.replaying import print_list

    return print_list(server.admin(), as_json)


@replay_app.command
def show(id: str, /, *, as_json: Json = False, server: Target = HERE) -> int:
    """Show one replay as it stands.

    Parameters
    ----------
    id
        Id of the replay, such as r7.
    as_json
        Print it as JSON.
    """
    from hookline.cli.replaying import print_one

    return print_one(server.admin(), "GET", id, "", as_json)


@replay_app.command
def watch(id: str, /, *, as_json: Json = False, server: Target = HERE) -> int:
    """Show the progress of a replay until its end.

    Parameters
    ----------
    id
        Id of the replay.
    as_json
        Print it as JSON at the end.
    """
    from hookline.cli.replaying import follow

    return follow(server.admin(), id, as_json)


@replay_app.command
def pause(id: str, /, *, as_json: Json = False, server: Target = HERE) -> int:
    """Hold a replay until it is resumed.

    Parameters
    ----------
    id
        Id of the replay.
    as_json
        Print it as JSON.
    """
    from hookline.cli.replaying import print_one

    return print_one(server.admin(), "POST", id, "/pause", as_json)


@replay_app.command
def resume(id: str, /, *, rate: float | None = None, as_json: Json = False, server: Target = HERE) -> int:
    """Go on with a paused replay.

    Parameters
    ----------
    id
        Id of the replay.
    rate
        Events per second at most from now on (default: as before).
    as_json
        Print it as JSON.
    """
    from hookline.cli.replaying import print_one

    admin = server.admin()
    if rate is not None:
        admin.request("PATCH", f"/replays/{id}", {"rate": rate})
    return print_one(admin, "POST", id, "/resume", as_json)


@replay_app.command
def cancel(id: str, /, *, as_json: Json = False, server: Target = HERE) -> int:
    """End a replay: what it has not sent is not sent.

    Parameters
    ----------
    id
        Id of the replay.
    as_json
        Print it as JSON.
    """
    from hookline.cli.replaying import print_one

    return print_one(server.admin(), "POST", id, "/cancel", as_json)
