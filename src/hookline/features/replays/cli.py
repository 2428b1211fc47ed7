"""``hookline replay``: send stored events again, and look after the replays there are."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from urllib.parse import quote

from cyclopts import App, Parameter

from hookline.cli.admin_api import AdminApi, CommandFailed, NoAnswer
from hookline.cli.app import HERE, USAGE, Flag
from hookline.cli.confirm import confirm
from hookline.cli.tables import print_items
from hookline.cli.target import Options, printable
from hookline.settings import parse_duration

Many = Annotated[list[str] | None, Parameter(negative="")]
MessageType = Literal["identify", "track", "page", "screen", "group", "alias", "delete"]
replay_app = App(name="replay", group="Delivery", help="Send stored events again, to the same or another destination.")
View = dict[str, Any]
POLL_SECONDS = 0.5
ENDED = ("done", "cancelled", "counted", "failed")
MARKS = {"done": "●", "running": "◔", "queued": "◔", "preparing": "◔", "paused": "▲", "cancelled": "○"}


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
    options: Options = HERE,
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
        Only this message type.
    event
        Only track calls of this event, pages and screens of this name.
    user_id
        Only this user.
    message_id
        Only this message. Can be given several times.
    dead_lettered_since
        Only events that became dead letters of this destination since this time.
    dead_letters
        Only dead letters of this destination, from any time.
    rate
        Events per second at most.
    ignore_filters
        Also send events that the destination's filters would drop.
    dry_run
        Only count, show a few and estimate the time.
    yes
        Do not ask for confirmation.
    detach
        Do not wait for the end.
    """
    request = request_of(
        destination=destination,
        since=since,
        until=until,
        source=source,
        type=type,
        event=event,
        userId=user_id,
        messageIds=message_id,
        deadLetteredSince=dead_lettered_since or ("1970-01-01T00:00:00Z" if dead_letters else None),
        rate=rate,
        ignoreFilters=ignore_filters or None,
    )
    return start(options.admin(), request, dry_run=dry_run, yes=yes, detach=detach, as_json=options.as_json)


@replay_app.command(name="list")
def list_(*, limit: int = 200, options: Options = HERE) -> int:
    """List the newest replays, newest first.

    Parameters
    ----------
    limit
        How many to list.
    """
    items = options.admin().newest("/replays", limit)
    if options.as_json:
        print(json.dumps(items))
    else:
        columns = ("Id", "State", "Destination", "Done#", "Of#", "Failed#", "Retrying#")
        print_items(items, line, "there are no replays", columns, _cells, options.utc)
    return 0


@replay_app.command
def show(id: str, /, *, options: Options = HERE) -> int:
    """Show one replay and its progress.

    Parameters
    ----------
    id
        Id of the replay, such as r7.
    """
    return print_one(options.admin(), "GET", id, "", options.as_json)


@replay_app.command
def watch(id: str, /, *, options: Options = HERE) -> int:
    """Show the progress of a replay until its end.

    Parameters
    ----------
    id
        Id of the replay.
    """
    return follow(options.admin(), id, options.as_json)


@replay_app.command
def pause(id: str, /, *, options: Options = HERE) -> int:
    """Pause a replay.

    Parameters
    ----------
    id
        Id of the replay.
    """
    return print_one(options.admin(), "POST", id, "/pause", options.as_json)


@replay_app.command
def resume(id: str, /, *, rate: float | None = None, options: Options = HERE) -> int:
    """Resume a paused replay.

    Parameters
    ----------
    id
        Id of the replay.
    rate
        Events per second at most from now on (default: as before).
    """
    admin = options.admin()
    if rate is not None:
        admin.request("PATCH", f"/replays/{quote(id, safe='')}", {"rate": rate})
    return print_one(admin, "POST", id, "/resume", options.as_json)


@replay_app.command
def cancel(id: str, /, *, options: Options = HERE) -> int:
    """Cancel a replay. Events it has not sent yet are not sent.

    Parameters
    ----------
    id
        Id of the replay.
    """
    return print_one(options.admin(), "POST", id, "/cancel", options.as_json)


def request_of(*, since: str | None, until: str | None, **fields: Any) -> View:
    """Return the body of a request from options that were given."""
    fields = {"from": moment("--from", since), "to": moment("--to", until), **fields}
    fields["deadLetteredSince"] = moment("--dead-lettered-since", fields["deadLetteredSince"])
    return {name: value for name, value in fields.items() if value is not None}


def start(admin: AdminApi, request: View, *, dry_run: bool, yes: bool, detach: bool, as_json: bool) -> int:
    """Count, show, ask, send, and follow to the end."""
    counted = _until_ended(admin, admin.request("POST", "/replays", {**request, "dryRun": True}), as_json)
    if counted["state"] == "failed":
        raise CommandFailed("the events could not be counted; the server's log says why")
    if dry_run and as_json:
        print(json.dumps(counted))
    if not as_json:
        print("\n".join(_dry_lines(counted)))
    if dry_run or (counted["total"] == 0 and not as_json):
        return 0
    confirm(f"Send {_events(counted['total'])} to {counted['destination']}?", yes, "nothing was sent")
    # No more than was counted: what has come since is not among it.
    made = admin.request("POST", "/replays", {"to": counted["createdAt"], **request})
    if detach:
        print(json.dumps(made) if as_json else f"{made['id']} has begun; follow it: hookline replay watch {made['id']}")
        return 0
    return follow(admin, made["id"], as_json)


def follow(admin: AdminApi, id: str, as_json: bool) -> int:
    """Show the progress until the end; 0 when all was delivered."""
    try:
        view = _until_ended(admin, _get(admin, id), as_json)
    except NoAnswer as lost:
        step = f"{id} continues without this command; follow it: hookline replay watch {id}"
        raise CommandFailed(f"{lost} {step}") from None
    except KeyboardInterrupt:
        step = f"follow it: hookline replay watch {id}, cancel it: hookline replay cancel {id}"
        print(f"\n{id} continues; {step}", file=sys.stderr)
        return 0
    print(json.dumps(view) if as_json else line(view))
    if view["failed"] and not as_json:
        print(f"events not delivered: hookline dead-letters list --destination {view['destination']}")
    return 0 if view["state"] == "done" and not view["failed"] else 1


def print_one(admin: AdminApi, method: str, id: str, action: str, as_json: bool) -> int:
    """Do something to a replay and show how it stands."""
    view = admin.request(method, f"/replays/{quote(id, safe='')}{action}")
    print(json.dumps(view) if as_json else line(view))
    return 0


def line(view: View) -> str:
    """Return one replay in one line."""
    parts = [f"{MARKS.get(view['state'], '◔')} {view['id']}  {view['state']}  to {view['destination']}"]
    if view["state"] in ("counting", "preparing") and view["toCount"]:
        parts.append(f"counted {view['counted']:,} of {view['toCount']:,}")
    else:
        total = "?" if view["total"] is None else f"{view['total']:,}"
        parts.append(f"{view['done']:,} of {total}")
    for name in ("failed", "retrying"):
        if view[name]:
            parts.append(f"{view[name]:,} {name}")
    if view["rate"] is not None:
        parts.append(f"at most {view['rate']:g}/s")
    if view["etaSeconds"] is not None and view["state"] not in ENDED:
        parts.append(f"{_duration(view['etaSeconds'])} to go")
    if view["reason"]:
        parts.append(view["reason"])
    return ", ".join(parts)


def _cells(view: View, _: Callable[[str | None], str]) -> list[object]:
    total = "?" if view["total"] is None else view["total"]
    state = f"{MARKS.get(view['state'], '◔')} {view['state']}"
    return [view["id"], state, view["destination"], view["done"], total, view["failed"], view["retrying"]]


def _dry_lines(view: View) -> Iterator[str]:
    if view["total"] == 0:
        yield f"no stored event matches; nothing to send to {view['destination']}"
        return
    yield f"{_events(view['total'])} to {view['destination']}, about {_duration(view['etaSeconds'])}; the first:"
    for event in view["sample"]:
        name = f" “{event['event']}”" if event["event"] else ""
        yield printable(f"  {event['receivedAt']}  {event['type']}{name}  {event['messageId']}  {event['userId']}")


def _until_ended(admin: AdminApi, view: View, quiet: bool) -> View:
    """Look again until it has ended; on a terminal the last line shows how far it is."""
    live = sys.stdout.isatty() and not quiet
    width = 0
    while view["state"] not in ENDED:
        if live:
            text = line(view)
            print(f"\r{text.ljust(width)}", end="", flush=True)
            width = len(text)
        time.sleep(POLL_SECONDS)
        view = _get(admin, view["id"])
    if width:
        print(f"\r{' ' * width}\r", end="")
    return view


def _get(admin: AdminApi, id: str) -> View:
    view: View = admin.get(f"/replays/{quote(id, safe='')}")
    return view


def _events(count: int) -> str:
    return f"{count:,} event{'' if count == 1 else 's'}"


def moment(option: str, text: str | None) -> str | None:
    """ISO 8601 with an offset; a time without one is local, a duration is so long ago."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).astimezone().isoformat()
    except (ValueError, OverflowError):
        pass
    try:
        return datetime.fromtimestamp(time.time() - parse_duration(text), UTC).isoformat()
    except (ValueError, OverflowError):
        raise CommandFailed(
            f"{option}: write a time such as 2026-11-20T07:00:00Z, or how long ago such as 24h, not {text!r}",
            exit_code=USAGE,
        ) from None


def _duration(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(1, round(seconds))} s"
