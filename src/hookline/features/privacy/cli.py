"""``hookline delete-user``, ``deletion-requests`` and ``suppressions``: people's data, and whose events are stored."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import quote

from cyclopts import App, Parameter

from hookline.cli.admin_api import CommandFailed, Json, NoAnswer
from hookline.cli.app import HERE, PRIVACY, USAGE, Flag, app
from hookline.cli.confirm import confirm
from hookline.cli.tables import print_items
from hookline.cli.target import Options, printable

Action = Literal["delete", "suppress", "both"]
deletions_app = App(name="deletion-requests", group=PRIVACY, help="Deletion requests: list, show, evidence.")
suppressions_app = App(
    name="suppressions",
    group=PRIVACY,
    help="People whose events are not stored: list them, or store their events again.",
)
PEOPLE_PER_REQUEST = 1_000
HEADINGS = frozenset(("userid", "id"))
"""Without case, spaces, dashes and underscores."""
DELIMITERS = (",", ";", "\t")
"""Spreadsheets write the second where fractions have a comma; only a heading says that it was meant."""
IDS_SHOWN = 3


@app.command(group=PRIVACY)
def delete_user(
    ids: Annotated[list[str] | None, Parameter(negative="")] = None,
    /,
    *,
    action: Action,
    csv: str | None = None,
    yes: Flag = False,
    options: Options = HERE,
) -> int:
    """Delete the data of people here and at receivers, stop storing their events, or both.

    Parameters
    ----------
    ids
        User ids.
    action
        delete erases stored data and notifies receivers; suppress stores no further events; both does both.
    csv
        Also take user ids from the first column of this file. Columns are separated by commas; below a heading
        userId, user_id or id also by semicolons or tabs.
    yes
        Do not ask for confirmation.
    """
    wanted = list(dict.fromkeys([*(ids or ()), *(_read(csv) if csv is not None else ())]))
    if not wanted:
        raise CommandFailed("name at least one user id, or give a file with --csv", 2)
    if action != "suppress":
        shown = ", ".join(map(printable, wanted[:IDS_SHOWN])) + (", …" if len(wanted) > IDS_SHOWN else "")
        people = f"the person {shown}" if len(wanted) == 1 else f"{len(wanted)} people ({shown})"
        confirm(f"Erase the data of {people}? It cannot be undone.", yes, "nothing was requested")
    admin = options.admin()
    made: list[Json] = []
    refused: CommandFailed | None = None
    for at in range(0, len(wanted), PEOPLE_PER_REQUEST):
        body = {"userIds": wanted[at : at + PEOPLE_PER_REQUEST], "action": action}
        try:
            made.append(admin.request("POST", "/deletion-requests", body))
        except CommandFailed as failure:
            if not made:
                raise
            seen = "may not have been requested (see hookline deletion-requests list)"  # the answer alone may be lost
            said = seen if isinstance(failure, NoAnswer) else "were not requested"
            left = f"{len(wanted) - at} of {len(wanted)} people {said}: {printable(wanted[at])} and on"
            refused = CommandFailed(f"{failure} The last {left}", failure.exit_code)
            break
    print(json.dumps(made) if options.as_json else "\n".join(map(_line, made)))
    if refused is not None:  # what was made cannot be taken back, so it is said first
        raise refused
    return 0


@deletions_app.command(name="list")
def list_requests(*, user_id: str | None = None, limit: int = 50, options: Options = HERE) -> int:
    """List the deletion requests, newest first.

    Parameters
    ----------
    user_id
        Only those made for this user.
    limit
        How many to show at most.
    """
    found = options.admin().newest("/deletion-requests", limit, userId=user_id)
    if options.as_json:
        print(json.dumps(found))
    else:
        columns = ("Request", "Action", "State", "People#", "Messages done", "Since", "By")
        print_items(found, _line, "there are none", columns, _cells, options.utc)
    return 0


@deletions_app.command(name="show")
def show_request(id: str, /, *, options: Options = HERE) -> int:
    """Show one deletion request and its progress.

    Parameters
    ----------
    id
        Id of the request.
    """
    found = options.admin().get(f"/deletion-requests/{quote(id, safe='')}")
    print(json.dumps(found) if options.as_json else _line(found))
    return 0


@deletions_app.command
def evidence(id: str, /, *, options: Options = HERE) -> int:
    """Show what a request affected, when each delete message was delivered, and what was erased.

    Parameters
    ----------
    id
        Id of the request.
    """
    found = options.admin().get(f"/deletion-requests/{quote(id, safe='')}/evidence")
    print(json.dumps(found) if options.as_json else "\n".join(_evidence(found)))
    return 0 if found["complete"] else 1


@suppressions_app.command(name="list")
def list_suppressed(*, limit: int = 50, options: Options = HERE) -> int:
    """List suppressed ids by keyed hash, newest first.

    Parameters
    ----------
    limit
        How many to show at most.
    """
    found = options.admin().newest("/suppressions", limit)
    if options.as_json:
        print(json.dumps(found))
    else:
        print_items(
            found,
            lambda each: f"{each['digest']}  since {each['since']}  by {printable(each['author'])}",
            "nobody is suppressed",
            ("Hash of the id", "Since", "By"),
            lambda each, at: [each["digest"], at(each["since"]), each["author"]],
            options.utc,
        )
    return 0


@suppressions_app.command
def lift(ids: list[str], /, *, options: Options = HERE) -> int:
    """Stop suppressing these people: store their events again.

    Parameters
    ----------
    ids
        User ids or anonymous ids.
    """
    answer = options.admin().request("POST", "/suppressions/lift", {"userIds": list(ids)})
    print(json.dumps(answer) if options.as_json else f"{answer['lifted']} of {len(ids)} lifted")
    return 0 if answer["lifted"] else 1


def _evidence(report: Json) -> Iterator[str]:
    end = f"done {report['doneAt']}" if report["complete"] else f"not complete: {report['state']}"
    asked = f"requested {report['requestedAt']} by {printable(report['author'])}"
    yield f"{report['request']}  {report['action']}  {asked}, {end}"
    erased = report["erased"]
    yield (
        f"erased: {erased['events']} events, {erased['retries']} retries, {erased['deadLetters']} dead letters,"
        f" {erased['attempts']} attempts, {erased['profiles']} profiles"
    )
    for each in report["unreadable"]:
        last = each["first"] + each["events"] - 1
        offsets = f"offset {last}" if each["events"] == 1 else f"offsets {each['first']} to {last}"
        yield f"▲ {offsets} of partition {each['partition']}: damaged, so perhaps theirs; gone with retention"
    if report.get("damageUnknown"):
        yield f"▲ {report['damageUnknown']}"
    messages = [each for person in report["people"] for source in person["sources"] for each in source["destinations"]]
    if by_hand := sorted({each["destination"] for each in messages if each["status"] == "filtered"}):
        yield f"▲ delete by hand in the services of: {', '.join(by_hand)} (nothing was sent there)"
    for person in report["people"]:
        yield f"{person['digest']}: {person['identities']} ids, {person['events']} events"
        for source in person["sources"]:
            tries = "once" if source["tries"] == 1 else f"{source['tries']} times"
            yield f"  {_source(source)}: {source['events']} events, delete message sent {tries}"
            for each in source["destinations"]:
                said = " ".join(each[name] for name in ("at", "reason", "remark") if each[name])
                yield f"    {each['destination']}: {each['status']} {said}".rstrip()


def _source(affected: Json) -> str:
    from hookline.journal.record import SYNC_SOURCE
    from hookline.web.lists import SYNCS

    return f"syncs of {SYNCS}" if affected["source"] == SYNC_SOURCE else f"source {affected['source']}"


def _line(request: Json) -> str:
    people = f"{request['people']} {'person' if request['people'] == 1 else 'people'}"
    when = f"done {request['doneAt']}" if request["doneAt"] else f"{request['state']} since {request['updatedAt']}"
    total = request["messages"]["total"]
    messages = f"{total - request['messages']['open']} of {total} messages done"
    parts = [request["id"], request["action"], people, *([] if request["action"] == "suppress" else [messages]), when]
    held_up = f"\n▲ held up, and tried again: {printable(request['delay'])}" if request["delay"] else ""
    return f"{'  '.join(parts)}  by {printable(request['author'])}{held_up}"


def _cells(request: Json, at: Callable[[str | None], str]) -> list[object]:
    messages = request["messages"]
    return [
        request["id"],
        request["action"],
        f"{'●' if request['doneAt'] else '◔'} {request['state']}",
        request["people"],
        "" if request["action"] == "suppress" else f"{messages['total'] - messages['open']} of {messages['total']}",
        at(request["doneAt"] or request["updatedAt"]),
        request["author"],
    ]


def _read(path: str) -> list[str]:
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        heading = text.lstrip().partition("\n")[0]
        delimiter = next((each for each in DELIMITERS if _is_heading(heading.partition(each)[0])), None)
        rows = csv.reader(io.StringIO(text), delimiter=delimiter or DELIMITERS[0])
        ids = [row[0].strip() for row in rows if row and row[0].strip()]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CommandFailed(f"{path} cannot be read: {error}") from None
    if delimiter is None and any(each in id for each in DELIMITERS[1:] for id in ids):
        what = "columns are separated by semicolons or tabs"
        raise CommandFailed(f"{path}: {what}; put a line with the heading userId first", exit_code=USAGE)
    return ids if delimiter is None else ids[1:]


def _is_heading(cell: str) -> bool:
    return re.sub(r"[\s_-]", "", cell.strip().strip('"')).lower() in HEADINGS
