"""What ``hookline delete-user``, ``deletion-requests`` and ``suppressions`` do."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from hookline.cli.admin_api import AdminApi, Json
from hookline.cli.failure import CommandFailed
from hookline.cli.terminal_text import printable

PEOPLE_PER_REQUEST = 1_000
HEADINGS = frozenset(("userid", "user_id", "id"))


def request_deletion(
    admin: AdminApi, ids: Sequence[str], path: str | None, action: str, *, ask: bool, as_json: bool
) -> int:
    """Make as many requests as it takes, and print each; on a terminal only after a yes."""
    wanted = list(dict.fromkeys([*ids, *(_read(path) if path is not None else ())]))
    if not wanted:
        raise CommandFailed("name at least one user id, or give a file with --csv", 2)
    if ask and action != "suppress" and sys.stdin.isatty():
        people = f"the person {printable(wanted[0])}" if len(wanted) == 1 else f"{len(wanted)} people"
        if input(f"Erase the data of {people}? It cannot be undone. [y/N] ").strip().lower() not in ("y", "yes"):
            raise CommandFailed("nothing was asked for")
    made = [
        admin.request("POST", "/deletion-requests", {"userIds": wanted[at : at + PEOPLE_PER_REQUEST], "action": action})
        for at in range(0, len(wanted), PEOPLE_PER_REQUEST)
    ]
    print(json.dumps(made) if as_json else "\n".join(map(_line, made)))
    return 0


def print_requests(admin: AdminApi, user_id: str | None, limit: int, as_json: bool) -> int:
    """A line for each request."""
    found = admin.newest("/deletion-requests", limit, userId=user_id)
    print(json.dumps(found) if as_json else "\n".join(map(_line, found)) or "there are none")
    return 0


def print_request(admin: AdminApi, id: str, as_json: bool) -> int:
    """One request."""
    found = admin.get(f"/deletion-requests/{id}")
    print(json.dumps(found) if as_json else _line(found))
    return 0


def print_evidence(admin: AdminApi, id: str, as_json: bool) -> int:
    """The report of a request; 1 as long as it is not complete."""
    found = admin.get(f"/deletion-requests/{id}/evidence")
    print(json.dumps(found) if as_json else "\n".join(_evidence(found)))
    return 0 if found["complete"] else 1


def print_suppressions(admin: AdminApi, limit: int, as_json: bool) -> int:
    """A line for each suppressed id."""
    found = admin.newest("/suppressions", limit)
    lines = [f"{each['digest']}  since {each['since']}  by {printable(each['author'])}" for each in found]
    print(json.dumps(found) if as_json else "\n".join(lines) or "nobody is suppressed")
    return 0


def lift_suppressions(admin: AdminApi, ids: Sequence[str], as_json: bool) -> int:
    """Print how many were on the list; 1 when none was."""
    answer = admin.request("POST", "/suppressions/lift", {"userIds": list(ids)})
    print(json.dumps(answer) if as_json else f"{answer['lifted']} of {len(ids)} lifted")
    return 0 if answer["lifted"] else 1


def _evidence(report: Json) -> Iterator[str]:
    end = f"done {report['doneAt']}" if report["complete"] else f"not complete: {report['state']}"
    asked = f"asked {report['requestedAt']} by {printable(report['author'])}"
    yield f"{report['request']}  {report['action']}  {asked}, {end}"
    erased = report["erased"]
    yield (
        f"erased: {erased['events']} events, {erased['retries']} retries, {erased['deadLetters']} dead letters,"
        f" {erased['attempts']} attempts, {erased['profiles']} profiles"
    )
    for person in report["people"]:
        yield f"{person['digest']}: {person['identities']} ids, {person['events']} events"
        for source in person["sources"]:
            yield f"  source {source['source']}: {source['events']} events, told {source['tries']} times"
            for each in source["destinations"]:
                yield f"    {each['destination']}: {each['fate']} {each['at'] or ''} {each['reason'] or ''}".rstrip()


def _line(request: Json) -> str:
    people = f"{request['people']} {'person' if request['people'] == 1 else 'people'}"
    when = f"done {request['doneAt']}" if request["doneAt"] else f"{request['state']} since {request['updatedAt']}"
    told = f"{request['messages']['total'] - request['messages']['open']} of {request['messages']['total']} told"
    parts = [request["id"], request["action"], people, *([] if request["action"] == "suppress" else [told]), when]
    return f"{'  '.join(parts)}  by {printable(request['author'])}"


def _read(path: str) -> list[str]:
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            ids = [row[0].strip() for row in csv.reader(file) if row and row[0].strip()]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CommandFailed(f"{path} cannot be read: {error}") from None
    return ids[1:] if ids and ids[0].lower() in HEADINGS else ids
