"""``hookline metrics``, ``attempts``, ``retry-now``, ``test``, ``schema``, ``usage``: what happened, would, comes."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from hookline.cli.app import DELIVERY, EVENTS, HERE, Flag, Json, MessageType, app
from hookline.cli.target import Target

Since = Annotated[str | None, Parameter(name="--from")]
Until = Annotated[str | None, Parameter(name="--to")]


@app.command(group=DELIVERY)
def metrics(
    destination: str | None = None,
    /,
    *,
    over: Annotated[Literal["1h", "24h", "7d", "30d"], Parameter(name="--range")] = "1h",
    as_json: Json = False,
    server: Target = HERE,
) -> int:
    """Show what was accepted, delivered and failed over a range, and where it fails most.

    Parameters
    ----------
    destination
        Show this destination: the way of its events, response times, and failures by cause.
    over
        How far back.
    as_json
        Print it as JSON, the whole series included.
    """
    from hookline.cli.metrics import print_all, print_destination

    if destination is None:
        return print_all(server.admin(), over, as_json)
    return print_destination(server.admin(), destination, over, as_json)


@app.command(name="test", group=DELIVERY)
def try_destination(
    destination: str,
    /,
    *,
    sample: MessageType | None = None,
    event: str | None = None,
    message_id: str | None = None,
    source: str | None = None,
    dry_run: Flag = False,
    reveal: Flag = False,
    as_json: Json = False,
    server: Target = HERE,
) -> int:
    """Send one event to a destination's URLs now, and show the requests, the answers and where the time went.

    Parameters
    ----------
    destination
        Id of the destination; it need not be enabled.
    sample
        Send a sample of this type (default: track).
    event
        Send this event: its JSON, or @FILE.
    message_id
        Send this stored event.
    source
        The source that an event given counts as sent by (default: the destination's first).
    dry_run
        Only show the requests.
    reveal
        Show credentials in their headers too.
    as_json
        Print it as JSON.
    """
    from hookline.cli.test import body_of, run_test

    body = body_of(event, message_id, sample, source=source, dryRun=dry_run, reveal=reveal)
    return run_test(server.admin(), destination, body, as_json)


@app.command(group=DELIVERY)
def attempts(
    destination: str,
    attempt: str | None = None,
    /,
    *,
    outcome: str | None = None,
    status: int | None = None,
    url: str | None = None,
    since: Since = None,
    until: Until = None,
    limit: int = 50,
    as_json: Json = False,
    server: Target = HERE,
) -> int:
    """List the requests to a destination, newest first, or show one as it was sent.

    Parameters
    ----------
    destination
        Id of the destination.
    attempt
        Id of one attempt: show its request and the answer.
    outcome
        Only those that ended so, such as timed_out.
    status
        Only those answered so.
    url
        Only those to this URL.
    since
        Only those that began at or after this time: ISO 8601, or how long ago, such as 24h.
    until
        Only those that began before this time.
    limit
        How many to list at most.
    as_json
        Print them as JSON.
    """
    from hookline.cli.attempts import print_attempt, print_attempts
    from hookline.cli.letters import selection_of

    if attempt is not None:
        return print_attempt(server.admin(), destination, attempt, as_json)
    wanted = selection_of(since, until, outcome=outcome, url=url)
    if status is not None:
        wanted["status"] = status
    return print_attempts(server.admin(), destination, wanted, limit, as_json)


@app.command(group=DELIVERY)
def retry_now(
    destination: str, message_id: str, /, *, source: str | None = None, as_json: Json = False, server: Target = HERE
) -> int:
    """Try an event that waits for another attempt at once.

    Parameters
    ----------
    destination
        Id of the destination.
    message_id
        The event's messageId.
    source
        Id of its source, where several sent the same messageId.
    as_json
        Print the answer as JSON.
    """
    from hookline.cli.attempts import try_now

    return try_now(server.admin(), destination, message_id, source, as_json)


@app.command(group=EVENTS)
def schema(
    source: str,
    /,
    *,
    type: MessageType | None = None,
    name: str | None = None,
    limit: int = 50,
    as_json: Json = False,
    server: Target = HERE,
) -> int:
    """Show which events a source sends: how often, since when, and with which properties.

    Parameters
    ----------
    source
        Id of the source.
    type
        Only this type of message.
    name
        Only events of this name, with their properties.
    limit
        How many names to show at most.
    as_json
        Print them as JSON.
    """
    from hookline.cli.schema import print_schema

    return print_schema(server.admin(), source, type, name, limit, as_json)


@app.command(group=EVENTS)
def usage(
    of: Literal["sources", "destinations", "users", "storage"] = "sources",
    /,
    *,
    by: Literal["day", "month"] = "month",
    since: Annotated[str | None, Parameter(name="--from")] = None,
    until: Annotated[str | None, Parameter(name="--to")] = None,
    as_csv: Annotated[bool, Parameter(name="--csv", negative="")] = False,
    as_json: Json = False,
    server: Target = HERE,
) -> int:
    """Show how many events sources sent, what destinations got, how many users there were, or what the disk holds.

    Parameters
    ----------
    of
        sources (default), destinations, users (about how many different ones per month), or storage.
    by
        Sum up by day or by month (UTC).
    since
        First day, such as 2026-11-01 (default: the first of the last day's month).
    until
        Last day (default: today).
    as_csv
        Print comma-separated values.
    as_json
        Print it as JSON.
    """
    from hookline.cli.usage import print_usage

    query = {} if of in ("users", "storage") else {"by": by, "from": since, "to": until}
    return print_usage(server.admin(), of, query, "csv" if as_csv else "json" if as_json else "text")
