"""``hookline dead-letters``: what destinations did not get; look at it, retry or discard it."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from hookline.cli.target import Target

HERE = Target()
Json = Annotated[bool, Parameter(name="--json", negative="")]
Since = Annotated[str | None, Parameter(name="--from")]
Until = Annotated[str | None, Parameter(name="--to")]

letters_app = App(
    name="dead-letters", group="Delivery", help="What destinations did not get: list, show, retry or discard it."
)


@letters_app.command(name="list")
def list_(
    *,
    destination: str | None = None,
    source: str | None = None,
    type: str | None = None,
    event: str | None = None,
    outcome: str | None = None,
    fate: str | None = None,
    since: Since = None,
    until: Until = None,
    limit: int = 50,
    as_json: Json = False,
    server: Target = HERE,
) -> int:
    """List dead letters, newest first.

    Parameters
    ----------
    destination
        Only of this destination.
    source
        Only of this source.
    type
        Only this type of message.
    event
        Only events of this name.
    outcome
        Only those whose last attempt ended so, such as rejected.
    fate
        failed, expired, or discarded.
    since
        Only those given up at or after this time: ISO 8601, or how long ago, such as 24h.
    until
        Only those given up before this time.
    limit
        How many to list at most.
    as_json
        Print them as JSON.
    """
    from hookline.cli.letters import print_list, selection_of

    wanted = selection_of(since, until, destination=destination, source=source, type=type, event=event, outcome=outcome)
    return print_list(server.admin(), {**wanted, **({"fate": fate} if fate else {})}, limit, as_json)


@letters_app.command
def show(id: str, /, *, as_json: Json = False, server: Target = HERE) -> int:
    """Show one dead letter with its event and every attempt.

    Parameters
    ----------
    id
        Id of the dead letter.
    as_json
        Print it as JSON.
    """
    from hookline.cli.letters import print_one

    return print_one(server.admin(), id, as_json)


@letters_app.command
def retry(
    *ids: str,
    destination: str | None = None,
    source: str | None = None,
    type: str | None = None,
    event: str | None = None,
    outcome: str | None = None,
    since: Since = None,
    until: Until = None,
    rate: float | None = None,
    all: Annotated[bool, Parameter(negative="")] = False,
    as_json: Json = False,
    server: Target = HERE,
) -> int:
    """Send dead letters again, as a replay for each destination.

    Parameters
    ----------
    ids
        Ids of dead letters.
    destination
        Those of this destination.
    source
        Those of this source.
    type
        Those of this type of message.
    event
        Those of events of this name.
    outcome
        Those whose last attempt ended so.
    since
        Those given up at or after this time.
    until
        Those given up before this time.
    rate
        Events per second at most.
    all
        Every one there is.
    as_json
        Print the replays as JSON.
    """
    from hookline.cli.letters import retry_all, selection_of

    wanted = selection_of(since, until, destination=destination, source=source, type=type, event=event, outcome=outcome)
    return retry_all(server.admin(), wanted, ids, rate, all, as_json)


@letters_app.command
def discard(
    *ids: str,
    destination: str | None = None,
    source: str | None = None,
    type: str | None = None,
    event: str | None = None,
    outcome: str | None = None,
    since: Since = None,
    until: Until = None,
    all: Annotated[bool, Parameter(negative="")] = False,
    as_json: Json = False,
    server: Target = HERE,
) -> int:
    """Give dead letters up for good; the fate of their events says so.

    Parameters
    ----------
    ids
        Ids of dead letters.
    destination
        Those of this destination.
    source
        Those of this source.
    type
        Those of this type of message.
    event
        Those of events of this name.
    outcome
        Those whose last attempt ended so.
    since
        Those given up at or after this time.
    until
        Those given up before this time.
    all
        Every one there is.
    as_json
        Print the result as JSON.
    """
    from hookline.cli.letters import discard_all, selection_of

    wanted = selection_of(since, until, destination=destination, source=source, type=type, event=event, outcome=outcome)
    return discard_all(server.admin(), wanted, ids, all, as_json)
