"""``hookline dead-letters``: what destinations did not get; look at it, retry or discard it, by id or by filter."""

from __future__ import annotations

import json
from typing import Annotated, Any
from urllib.parse import quote

from cyclopts import App, Parameter

from hookline.cli.admin_api import AdminApi, CommandFailed, Json
from hookline.cli.app import HERE, USAGE
from hookline.cli.target import Options
from hookline.features.events.cli.tail import attempt_line
from hookline.features.replays.cli import line, moment

Since = Annotated[str | None, Parameter(name="--from")]
Until = Annotated[str | None, Parameter(name="--to")]
dead_letters_app = App(
    name="dead-letters", group="Delivery", help="What destinations did not get: list, show, retry or discard it."
)


@dead_letters_app.command(name="list")
def list_(
    *,
    destination: str | None = None,
    source: str | None = None,
    type: str | None = None,
    event: str | None = None,
    outcome: str | None = None,
    status: str | None = None,
    since: Since = None,
    until: Until = None,
    limit: int = 50,
    options: Options = HERE,
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
        Only those whose last attempt ended so, such as refused.
    status
        failed, expired, or discarded.
    since
        Only those that failed at or after this time: ISO 8601, or how long ago, such as 24h.
    until
        Only those that failed before this time.
    limit
        How many to list at most.
    """
    wanted = selection_of(since, until, destination=destination, source=source, type=type, event=event, outcome=outcome)
    return print_list(options.admin(), {**wanted, **({"status": status} if status else {})}, limit, options.as_json)


@dead_letters_app.command
def show(id: str, /, *, options: Options = HERE) -> int:
    """Show one dead letter with its event and every attempt.

    Parameters
    ----------
    id
        Id of the dead letter.
    """
    return print_one(options.admin(), id, options.as_json)


@dead_letters_app.command
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
    options: Options = HERE,
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
        Those that failed at or after this time.
    until
        Those that failed before this time.
    rate
        Events per second at most.
    all
        Every one there is.
    """
    wanted = selection_of(since, until, destination=destination, source=source, type=type, event=event, outcome=outcome)
    body = {**_meant(wanted, ids, all), **({} if rate is None else {"rate": rate})}
    made = options.admin().request("POST", "/dead-letters/retry", body)["items"]
    if options.as_json:
        print(json.dumps(made))
    else:
        print("\n".join(line(view) for view in made) or "there are none")
    return 0


@dead_letters_app.command
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
    options: Options = HERE,
) -> int:
    """Give dead letters up for good; the status of their events says so.

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
        Those that failed at or after this time.
    until
        Those that failed before this time.
    all
        Every one there is.
    """
    wanted = selection_of(since, until, destination=destination, source=source, type=type, event=event, outcome=outcome)
    done = options.admin().request("POST", "/dead-letters/discard", _meant(wanted, ids, all))
    if options.as_json:
        print(json.dumps(done))
    elif done["discarded"] is None:
        print(f"{done['matched']} will be discarded as soon as the deliver role runs")
    else:
        print(f"{done['discarded']} discarded")
    return 0


def selection_of(since: str | None, until: str | None, **fields: str | None) -> Json:
    """Return the filter that the options given make."""
    fields = {"from": moment("--from", since), "to": moment("--to", until), **fields}
    return {name: value for name, value in fields.items() if value is not None}


def print_list(admin: AdminApi, wanted: Json, limit: int, as_json: bool) -> int:
    """Print the newest that match, at most ``limit``."""
    items = admin.newest("/dead-letters", limit, **wanted)
    if as_json:
        print(json.dumps(items))
    else:
        print("\n".join(_line(letter) for letter in items) or "there are none")
    return 0


def print_one(admin: AdminApi, id: str, as_json: bool) -> int:
    """Print one with everything known of it."""
    letter = admin.get(f"/dead-letters/{quote(id, safe='')}")
    if as_json:
        print(json.dumps(letter))
        return 0
    print(_line(letter))
    for attempt in letter["history"]:
        print(f"    {attempt_line(attempt)}")
    print(json.dumps(letter["payload"], indent=2, ensure_ascii=False) if letter["payload"] else "no longer stored")
    return 0


def _meant(wanted: Json, ids: tuple[str, ...], everything: bool) -> dict[str, Any]:
    if not (wanted or ids or everything):
        raise CommandFailed("name ids, a filter such as --destination, or --all", exit_code=USAGE)
    if not all(id.isdecimal() for id in ids):
        raise CommandFailed("the ids of dead letters are numbers; see hookline dead-letters list", exit_code=USAGE)
    return {**wanted, **({"ids": [int(id) for id in ids]} if ids else {})}


def _line(letter: Json) -> str:
    what = f"{letter['type']} “{letter['event']}”" if letter["event"] else letter["type"]
    answer = " ".join(str(letter[name]) for name in ("outcome", "httpStatus") if letter[name])
    parts = [
        f"{letter['id']}  {letter['at']}  {letter['destination']}  {letter['status']}  {what}  {letter['messageId']}"
    ]
    parts.append(f"{letter['attempts']} attempts")
    parts += [text for text in (answer, letter["error"], letter["replay"] and f"replay {letter['replay']}") if text]
    return ", ".join(parts)
