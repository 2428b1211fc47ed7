"""``hookline metrics``, ``attempts``, ``retry-now``, ``test``, ``schema``, ``usage``: what happened, would, comes."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

from cyclopts import Parameter, validators

from hookline.cli.admin_api import AdminApi, CommandFailed, Json
from hookline.cli.app import DELIVERY, EVENTS, HERE, USAGE, Flag, MessageType, app
from hookline.cli.confirm import confirm
from hookline.cli.tables import print_items
from hookline.cli.target import Options, printable
from hookline.features.dead_letters.cli import selection_of
from hookline.features.events.cli.tail import attempt_line
from hookline.outcomes.outcome import because

Since = Annotated[str | None, Parameter(name="--from")]
Until = Annotated[str | None, Parameter(name="--to")]
SampleType = Literal[MessageType, "delete"]
SUMS = ("accepted", "rejected", "delivered", "failures", "retries", "notDelivered")
SERIES = {"notDelivered": "not delivered", "waiting": "queued", "lag": "not yet routed"}
"""Words for series that the API calls otherwise."""
EXAMPLE_CHARACTERS = 80
PAGE = 200
BODY_CHARACTERS_SHOWN = 2_000
PATHS = {
    "sources": "/usage",
    "destinations": "/usage/destinations",
    "users": "/usage/users",
    "storage": "/usage/storage",
}
COLUMNS = {
    "sources": ("period", "source", "events", "filtered", "counted"),
    "destinations": ("period", "destination", "delivered", "filtered", "failures", "notDelivered"),
    "users": ("month", "source", "users"),
    "storage": ("name", "title", "bytes"),
}


@app.command(group=DELIVERY)
def metrics(
    destination: str | None = None,
    *,
    over: Annotated[Literal["1h", "24h", "7d", "30d"], Parameter(name="--range")] = "1h",
    options: Options = HERE,
) -> int:
    """Show how many events were accepted, delivered and failed, and which destinations fail most.

    Parameters
    ----------
    destination
        Show this destination only: its events, response times, and failures by cause.
    over
        How far back.
    """
    if destination is None:
        return print_all(options.admin(), over, options.as_json)
    return print_destination(options.admin(), destination, over, options.as_json)


@app.command(name="test", group=DELIVERY)
def try_destination(
    destination: str,
    *,
    sample: SampleType | None = None,
    event: str | None = None,
    message_id: str | None = None,
    source: str | None = None,
    dry_run: Flag = False,
    reveal: Flag = False,
    yes: Flag = False,
    options: Options = HERE,
) -> int:
    """Send one test event, or a delete message, to a destination's URLs now, and show requests, answers and timings.

    For a destination that writes files or rows, check only the connection; no event is written.

    Parameters
    ----------
    destination
        Id of the destination. It can be disabled.
    sample
        Send a sample of this type (default: track). delete asks receivers to delete the user test-user.
    event
        Send this event: its JSON, or @FILE. With the type delete it is a delete message.
    message_id
        Send this stored event.
    source
        Source of the given event (default: the first source of the destination), or of the stored one, if several
        sources sent the same messageId.
    dry_run
        Only show the requests.
    reveal
        Also show credentials in headers.
    yes
        Do not ask before a delete message for a user of yours is sent.
    """
    body = body_of(event, message_id, sample, source=source, dryRun=dry_run, reveal=reveal)
    given = body.get("event")
    if isinstance(given, dict) and given.get("type") == "delete" and not dry_run:
        person = printable(str(given.get("userId", "")))
        confirm(f"Ask the receivers of {printable(destination)} to delete {person}?", yes, "nothing was sent")
    admin, path = options.admin(), f"/destinations/{quote(destination, safe='')}/test"
    if message_id is not None and not dry_run:
        shown = admin.request("POST", path, {**body, "reveal": False, "dryRun": True})
        if shown["type"] == "delete":
            question = f"Ask the receivers of {printable(destination)} to delete whom {printable(message_id)} names?"
            confirm(question, yes, "nothing was sent")
    report = admin.request("POST", path, body)
    print(json.dumps(report) if options.as_json else "\n".join(lines(report)))
    is_connected = report["connection"] is None or report["connection"]["ok"]
    if report["type"] == "delete" and report["connection"] is None and not report["requests"]:
        return 1
    return 0 if is_connected and all(answer["outcome"] == "success" for answer in report["answers"] or ()) else 1


@app.command(group=DELIVERY)
def attempts(
    destination: str,
    attempt: str | None = None,
    *,
    outcome: str | None = None,
    http_status: int | None = None,
    url: str | None = None,
    since: Since = None,
    until: Until = None,
    limit: int = 50,
    options: Options = HERE,
) -> int:
    """List the requests to a destination, newest first, or show one as it was sent.

    Parameters
    ----------
    destination
        Id of the destination.
    attempt
        Id of one attempt: show its request and answer.
    outcome
        Only attempts with this outcome, such as timed_out.
    http_status
        Only attempts with this HTTP status.
    url
        Only attempts to this URL.
    since
        Only attempts that began at or after this time: ISO 8601, or how long ago, such as 24h.
    until
        Only attempts that began before this time.
    limit
        How many to list at most.
    """
    if attempt is not None:
        return print_attempt(options.admin(), destination, attempt, options.as_json)
    wanted = selection_of(since, until, outcome=outcome, url=url)
    if http_status is not None:
        wanted["httpStatus"] = http_status
    return print_attempts(options.admin(), destination, wanted, limit, options.as_json, options.utc)


@app.command(group=DELIVERY)
def retry_now(destination: str, message_id: str, *, source: str | None = None, options: Options = HERE) -> int:
    """Retry one event now instead of when it is due.

    Parameters
    ----------
    destination
        Id of the destination.
    message_id
        The event's messageId.
    source
        Source of the event, if several sources sent the same messageId.
    """
    return try_now(options.admin(), destination, message_id, source, options.as_json)


@app.command(group=EVENTS)
def schema(
    source: str,
    /,
    *,
    type: MessageType | None = None,
    name: str | None = None,
    limit: Annotated[int, Parameter(validator=validators.Number(gte=1))] = 50,
    options: Options = HERE,
) -> int:
    """Show which events a source sends: how often, since when, and their properties.

    Parameters
    ----------
    source
        Id of the source.
    type
        Only this message type.
    name
        Only events of this name, with their properties.
    limit
        How many names to show at most.
    """
    return print_schema(options.admin(), source, type, name, limit, options.as_json)


@app.command(group=EVENTS)
def usage(
    of: Literal["sources", "destinations", "users", "storage"] = "sources",
    /,
    *,
    by: Literal["day", "month"] = "month",
    since: Annotated[str | None, Parameter(name="--from")] = None,
    until: Annotated[str | None, Parameter(name="--to")] = None,
    as_csv: Annotated[bool, Parameter(name="--csv", negative="", show_default=False)] = False,
    options: Options = HERE,
) -> int:
    """Show events per source, deliveries per destination, users per month, or disk use.

    Parameters
    ----------
    of
        sources (default), destinations, users (about how many different ones per month), or storage.
    by
        Sum by day or by month (UTC).
    since
        First day, such as 2026-11-01 (default: the first of the last day's month).
    until
        Last day (default: today).
    as_csv
        Print comma-separated values.
    """
    if of in ("users", "storage") and (by == "day" or since or until):
        raise CommandFailed(f"usage {of} takes none of --by, --from and --to", exit_code=USAGE)
    query = {} if of in ("users", "storage") else {"by": by, "from": since, "to": until}
    return print_usage(options.admin(), of, query, "csv" if as_csv else "json" if options.as_json else "text")


def print_all(admin: AdminApi, over: str, as_json: bool) -> int:
    """Print everything together, and the destinations that fail most."""
    report = admin.get("/metrics/series", range=over)
    failing = admin.get("/metrics/failing", range=over)["items"]
    if as_json:
        print(json.dumps({**report, "failing": failing}))
        return 0
    print("\n".join(_sums(report["series"], over)))
    for each in failing:
        print(
            f"  ▲ {each['id']}  {_number(each['failures'])} requests failed, "
            f"{_number(each['notDelivered'])} not delivered"
        )
    return 0


def print_destination(admin: AdminApi, id: str, over: str, as_json: bool) -> int:
    """Print one destination."""
    found = admin.get(f"/destinations/{quote(id, safe='')}/metrics", range=over)
    if as_json:
        series = admin.get("/metrics/series", range=over, destination=id)
        print(json.dumps({**found, "series": series["series"], "times": series["times"]}))
        return 0
    since = f" since {found['since']}" if found["since"] else ""
    print(f"{id}  {found['state']}{since}{_next_try(found['nextTry'])}")
    print("  " + _figures(found["figures"]))
    print(f"last {over}:")
    print("  " + ", ".join(f"{_number(count)} {name}" for name, count in found["funnel"].items()))
    times = [f"{name} {ms:g} ms" for name, ms in found["responseMilliseconds"].items() if ms is not None]
    print("  response " + (", ".join(times) or "none yet"))
    for cause in found["errors"]:
        print(f"  ▲ {_cause(cause)}")
    return 0


def _sums(series: dict[str, Sequence[float | None]], over: str) -> Iterator[str]:
    known = {name: [value for value in series[name] if value is not None] for name in series}
    if not any(known.values()):
        yield f"nothing was recorded in the last {over}"
        return
    yield f"last {over}: " + ", ".join(f"{_number(sum(known[name]))} {SERIES.get(name, name)}" for name in SUMS)
    latest = {name: known[name][-1] for name in ("waiting", "lag") if known[name]}
    yield "now: " + ", ".join(f"{_number(value)} {SERIES.get(name, name)}" for name, value in latest.items())


def _next_try(next_try: Json | None) -> str:
    if next_try is None:
        return ""
    what = "the next probe is sent" if next_try["what"] == "probe" else "the first retry is due"
    return f"; {what} at {next_try['at']}" if next_try["at"] else f"; {what} soon"


def _figures(figures: Json) -> str:
    at_most = "" if figures["queuedExact"] else "at most "
    names = ("retrying", "failed", "expired", "delivered")
    counts = [f"{at_most}{_number(figures['queued'])} queued", *(f"{_number(figures[name])} {name}" for name in names)]
    return f"{', '.join(counts)} (as of {figures['asOf']})"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{_number(count)} times"


def _cause(cause: Json) -> str:
    what = f"{cause['outcome']} {cause['httpStatus']}" if cause["httpStatus"] else cause["outcome"]
    text = f"{what}  {_times(cause['count'])}, {cause['firstAt']} to {cause['lastAt']}"
    example = printable((cause["example"] or "")[:EXAMPLE_CHARACTERS])
    return f"{text}: {example}" if example else text


def _number(value: float) -> str:
    return f"{value:,.0f}"


def print_attempts(admin: AdminApi, destination: str, wanted: Json, limit: int, as_json: bool, utc: bool) -> int:
    """Print the newest that match, at most ``limit``."""
    items = admin.newest(_path(destination), limit, **wanted)
    if as_json:
        print(json.dumps(items))
    else:
        columns = ("Attempt", "Outcome", "Event", "Number#", "Took", "Began", "Error")
        print_items(items, _line, "there are none", columns, _cells, utc)
    return 0


def print_attempt(admin: AdminApi, destination: str, id: str, as_json: bool) -> int:
    """Print one attempt as it was sent, and its answer."""
    found = admin.get(f"{_path(destination)}/{quote(id, safe='')}")
    print(json.dumps(found) if as_json else "\n".join(_detail(found)))
    return 0


def try_now(admin: AdminApi, destination: str, message_id: str, source: str | None, as_json: bool) -> int:
    """Ask for another attempt at once."""
    body = {"messageId": message_id, **({} if source is None else {"source": source})}
    asked = admin.request("POST", f"/destinations/{quote(destination, safe='')}/retry-now", body)
    tried = printable(message_id)
    print(json.dumps(asked) if as_json else f"{tried} is tried now; see hookline why {tried}")
    return 0


def _path(destination: str) -> str:
    return f"/destinations/{quote(destination, safe='')}/attempts"


def _line(attempt: Json) -> str:
    event = printable(" ".join(attempt[name] for name in ("type", "event", "messageId") if attempt[name]))
    replay = f", replay {attempt['replay']}" if attempt["replay"] else ""
    return f"{attempt['id']}  {event or 'no longer stored'}  {attempt_line(attempt)}{replay}"


def _cells(attempt: Json, at: Callable[[str | None], str]) -> list[object]:
    outcome = " ".join(str(attempt[name]) for name in ("outcome", "httpStatus") if attempt[name])
    error = " ".join((attempt["error"] or "").split())
    return [
        attempt["id"],
        f"{'●' if attempt['outcome'] == 'success' else '■'} {outcome}",
        " ".join(attempt[name] for name in ("type", "event") if attempt[name]) or "no longer stored",
        attempt["number"],
        "" if attempt["milliseconds"] is None else f"{attempt['milliseconds']} ms",
        at(attempt["at"]),
        error if len(error) <= EXAMPLE_CHARACTERS else error[: EXAMPLE_CHARACTERS - 1] + "…",
    ]


def _detail(found: Json) -> Iterator[str]:
    yield _line(found["attempt"])
    request, answer = found["request"], found["answer"]
    if request is None:
        yield f"  {found['note']}"
    else:
        yield f"  {request['method']} {request['url']}"
        yield from (f"  {each['name']}: {printable(each['value'])}" for each in request["headers"])
        yield f"  {printable(request['body'])}"
    if answer is not None:
        yield f"  answered {answer['httpStatus']}"
        yield from (f"  {each['name']}: {printable(each['value'])}" for each in answer["headers"])
        yield f"  {printable(answer['body'], keep=chr(10))}"


def body_of(event: str | None, message_id: str | None, sample: str | None, **options: Any) -> Json:
    """Return the request's body; an event is JSON, or @FILE that holds it."""
    given = {"messageId": message_id, "sample": sample, **options}
    if event is not None:
        try:
            given["event"] = json.loads(Path(event[1:]).read_text() if event.startswith("@") else event)
        except (OSError, ValueError) as error:
            raise CommandFailed(f"--event: write one JSON object, or @FILE that holds it ({error})", USAGE) from None
    return {name: value for name, value in given.items() if value not in (None, False)}


def lines(report: Json) -> Iterator[str]:
    """Return the report as text."""
    routing, connection = report["routing"], report["connection"]
    if connection is not None:
        yield f"{'●' if connection['ok'] else '■'} {printable(connection['place'])}: {printable(connection['message'])}"
        return
    if routing["sent"]:
        yield f"{report['type']} {printable(report['messageId'])}"
    elif report["type"] == "delete" and routing["stoppedBy"]:
        yield f"■ {report['type']} {printable(report['messageId'])}: {printable(routing['reason'])}"
    else:
        why = routing["stoppedBy"] or because(routing["reason"])
        yield f"{report['type']} {printable(report['messageId'])}: would not be sent by itself ({printable(why)})"
    for rule in routing["editedBy"]:
        yield f"  {printable(rule)}"
    answers = report["answers"] or [None] * len(report["requests"])
    for request, answer in zip(report["requests"], answers, strict=True):
        yield ""
        yield f"{request['method']} {request['url']}"
        yield from (f"  {each['name']}: {printable(each['value'])}" for each in request["headers"])
        yield f"  {printable(request['body'][:BODY_CHARACTERS_SHOWN])}"
        if answer is not None:
            yield from _answer(answer)


REFUSED = "The event would become a dead letter."


def _answer(answer: Json) -> Iterator[str]:
    mark = "●" if answer["outcome"] == "success" else "■"
    status = f" {answer['httpStatus']}" if answer["httpStatus"] else ""
    error = f": {printable(answer['error'])}" if answer["error"] else ""
    yield f"{mark} {answer['outcome'].replace('_', ' ')}{status}{error}"
    if answer.get("nextStep"):
        yield f"  {'Hookline would retry it.' if answer['means'] == 'retried' else REFUSED} {answer['nextStep']}"
    parts = [f"{name} {ms:g} ms" for name, ms in answer["milliseconds"].items() if ms is not None]
    yield f"  {', '.join(parts)}"
    yield from (f"  {each['name']}: {printable(each['value'])}" for each in answer["headers"])
    if answer["body"]:
        yield f"  {printable(answer['body'][:BODY_CHARACTERS_SHOWN], keep=chr(10))}"


def print_schema(admin: AdminApi, source: str, type: str | None, name: str | None, limit: int, as_json: bool) -> int:
    """Print the names, at most ``limit``; properties where one name is asked for."""
    path = f"/sources/{quote(source, safe='')}/schema"
    items: list[Json] = []
    after: str | None = None
    while True:
        page = admin.get(path, limit=min(PAGE, limit - len(items)), after=after, type=type, name=name)
        items += page["items"]
        after = page["after"]
        if after is None or len(items) >= limit:
            break
    if as_json:
        print(json.dumps({**page, "items": items}))
        return 0
    for item in items:
        print("\n".join(_lines(item, with_properties=name is not None)))
    print("\n".join(_rest(page, len(items))))
    return 0


def _lines(item: Json, with_properties: bool) -> Iterator[str]:
    name = printable(f"{item['type']} {item['name']}".rstrip())
    yield f"{name}  {_times(item['count'])}, {item['firstSeen']} to {item['lastSeen']}"
    for each in item["properties"] if with_properties else ():
        types = ", ".join(f"{kind} {count:,}" for kind, count in each["types"].items())
        yield f"  {printable(each['path'])}  {types}"
    if with_properties:
        more = "" if item["propertiesComplete"] else "; there are more properties than are kept"
        yield f"  looked for in {item['examined']:,} events{more}"


def _rest(page: Json, shown: int) -> Iterator[str]:
    if not shown:
        yield "no events of this kind yet"
    if page["names"] > shown:
        yield f"{page['names'] - shown:,} more names"
    if page["otherEvents"]:
        yield f"{page['otherEvents']:,} events have further names"
    if page["unread"]:
        yield f"{page['unread']:,} events left to read"


def print_usage(admin: AdminApi, of: str, query: Mapping[str, str | None], form: Literal["text", "json", "csv"]) -> int:
    """All items, newest period first."""
    items = _items(admin, PATHS[of], query)
    if form == "json":
        print(json.dumps(items))
        return 0
    rows = [[item[column] for column in COLUMNS[of]] for item in items]
    if form == "csv":
        csv.writer(sys.stdout).writerows([COLUMNS[of], *rows])
        return 0
    shown = [[f"{value:,}" if isinstance(value, int) else str(value or "all") for value in row] for row in rows]
    print("\n".join(_table([COLUMNS[of], *shown])) if rows else "nothing was counted in this time")
    return 0


def _items(admin: AdminApi, path: str, query: Mapping[str, str | None]) -> list[Json]:
    items: list[Json] = []
    after: str | None = None
    while True:
        paging: dict[str, str | int | None] = {"limit": PAGE, "after": after} if query else {}
        page = admin.get(path, **query, **paging)
        items += page["items"] if "items" in page else page["parts"]
        after = page.get("after")
        if after is None:
            return items


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
