"""``hookline dead-letters``: what destinations did not get; look at it, retry or discard it, by id or by filter."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, Literal
from urllib.parse import quote

from cyclopts import App, Parameter

from hookline.cli.admin_api import AdminApi, CommandFailed, Json
from hookline.cli.app import HERE, USAGE, Flag
from hookline.cli.confirm import confirm
from hookline.cli.tables import print_items
from hookline.cli.target import Options, printable
from hookline.features.events.cli.tail import attempt_line
from hookline.features.replays.cli import line, moment

COUNTED_MAX = 1_000
NONE = {"lastId": 0}
"""As many as there are where none was found: not those that fail meanwhile."""
ID_DIGITS_MAX = 18
Since = Annotated[str | None, Parameter(name="--from")]
Until = Annotated[str | None, Parameter(name="--to")]
Status = Literal["failed", "expired", "discarded"] | None
dead_letters_app = App(
    name="dead-letters", group="Delivery", help="Events that were not delivered: list, show, retry or discard them."
)


@dead_letters_app.command(name="list")
def list_(
    *,
    destination: str | None = None,
    source: str | None = None,
    type: str | None = None,
    event: str | None = None,
    outcome: str | None = None,
    status: Status = None,
    since: Since = None,
    until: Until = None,
    limit: int = 50,
    options: Options = HERE,
) -> int:
    """List dead letters, newest first.

    Parameters
    ----------
    destination
        Only those of this destination.
    source
        Only those of this source.
    type
        Only this message type.
    event
        Only events with this name.
    outcome
        Only those whose last attempt had this outcome, such as refused.
    status
        failed, expired, or discarded.
    since
        Only those that failed at or after this time: ISO 8601, or how long ago, such as 24h.
    until
        Only those that failed before this time.
    limit
        How many to list at most.
    """
    wanted = selection_of(
        since, until, destination=destination, source=source, type=type, event=event, outcome=outcome, status=status
    )
    return print_list(options.admin(), wanted, limit, options.as_json, options.utc)


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
    status: Status = None,
    since: Since = None,
    until: Until = None,
    rate: float | None = None,
    all: Flag = False,
    yes: Flag = False,
    options: Options = HERE,
) -> int:
    """Send dead letters again, with one replay per destination.

    Parameters
    ----------
    ids
        Ids of dead letters.
    destination
        Only those of this destination.
    source
        Only those of this source.
    type
        Only those of this message type.
    event
        Only those of events with this name.
    outcome
        Only those whose last attempt had this outcome.
    status
        Only those with this status (default: failed and expired).
    since
        Only those that failed at or after this time.
    until
        Only those that failed before this time.
    rate
        Events per second at most.
    all
        All dead letters.
    yes
        Do not ask for confirmation.
    """
    wanted = selection_of(
        since, until, destination=destination, source=source, type=type, event=event, outcome=outcome, status=status
    )
    body = {**_meant(wanted, ids, all), **({} if rate is None else {"rate": rate})}
    admin = options.admin()
    counted, upto = _counted(admin, wanted, ids)
    if upto != NONE:
        confirm(f"Send {counted} again?", yes, "nothing was sent")
    made = admin.request("POST", "/dead-letters/retry", {**body, **upto})["items"]
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
    status: Status = None,
    since: Since = None,
    until: Until = None,
    all: Flag = False,
    yes: Flag = False,
    options: Options = HERE,
) -> int:
    """Discard dead letters: they are not sent again, and their status becomes discarded.

    Parameters
    ----------
    ids
        Ids of dead letters.
    destination
        Only those of this destination.
    source
        Only those of this source.
    type
        Only those of this message type.
    event
        Only those of events with this name.
    outcome
        Only those whose last attempt had this outcome.
    status
        Only those with this status (default: failed and expired).
    since
        Only those that failed at or after this time.
    until
        Only those that failed before this time.
    all
        All dead letters.
    yes
        Do not ask for confirmation.
    """
    wanted = selection_of(
        since, until, destination=destination, source=source, type=type, event=event, outcome=outcome, status=status
    )
    body, admin = _meant(wanted, ids, all), options.admin()
    counted, upto = _counted(admin, wanted, ids)
    if upto != NONE:
        confirm(f"Discard {counted}?", yes, "nothing was discarded")
    done = admin.request("POST", "/dead-letters/discard", {**body, **upto})
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


def print_list(admin: AdminApi, wanted: Json, limit: int, as_json: bool, utc: bool) -> int:
    """Print the newest that match, at most ``limit``."""
    items = admin.newest("/dead-letters", limit, **wanted)
    if as_json:
        print(json.dumps(items))
    else:
        columns = ("Id", "Status", "Event", "Destination", "Why", "Attempts#", "Since")
        print_items(items, _line, "there are none", columns, _cells, utc)
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
    text = json.dumps(letter["payload"], indent=2, ensure_ascii=False) if letter["payload"] else "no longer stored"
    print(printable(text, keep="\n"))
    return 0


def _counted(admin: AdminApi, wanted: Json, ids: tuple[str, ...]) -> tuple[str, Json]:
    """Say how many dead letters are meant, counted up to ``COUNTED_MAX``, and what keeps out those that fail while a
    person thinks about it."""
    found = [] if ids else admin.newest("/dead-letters", COUNTED_MAX, **wanted)
    count = len(ids) or len(found)
    more = "+" if count >= COUNTED_MAX and not ids else ""
    upto = {} if ids else {"lastId": found[0]["id"]} if found else NONE
    return f"{count:,}{more} dead letter{'' if count == 1 else 's'}", upto


def _meant(wanted: Json, ids: tuple[str, ...], everything: bool) -> dict[str, Any]:
    if not (wanted or ids or everything):
        raise CommandFailed("name ids, a filter such as --destination, or --all", exit_code=USAGE)
    if not all(id.isdecimal() and len(id) <= ID_DIGITS_MAX for id in ids):
        raise CommandFailed("the ids of dead letters are numbers; see hookline dead-letters list", exit_code=USAGE)
    return {**wanted, **({"ids": [int(id) for id in ids]} if ids else {})}


def _cells(letter: Json, at: Callable[[str | None], str]) -> list[object]:
    return [
        letter["id"],
        f"{'○' if letter['status'] == 'discarded' else '■'} {letter['status']}",
        f"{letter['type']} {letter['event'] or letter['messageId']}",
        letter["destination"],
        " ".join(str(letter[name]) for name in ("outcome", "httpStatus") if letter[name]),
        letter["attempts"],
        at(letter["at"]),
    ]


def _line(letter: Json) -> str:
    what = f"{letter['type']} “{letter['event']}”" if letter["event"] else letter["type"]
    answer = " ".join(str(letter[name]) for name in ("outcome", "httpStatus") if letter[name])
    parts = [
        f"{letter['id']}  {letter['at']}  {letter['destination']}  {letter['status']}  {what}  {letter['messageId']}"
    ]
    parts.append(f"{letter['attempts']} attempts")
    parts += [text for text in (answer, letter["error"], letter["replay"] and f"replay {letter['replay']}") if text]
    return printable(", ".join(parts))
