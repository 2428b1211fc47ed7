"""``hookline issues``: what fails, gathered by destination and cause; retry all of one, ignore it, write a note."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Literal
from urllib.parse import quote

from cyclopts import App

from hookline.cli.admin_api import AdminApi, CommandFailed, Json, NotFound
from hookline.cli.app import HERE, Flag
from hookline.cli.confirm import confirm
from hookline.cli.tables import print_items
from hookline.cli.target import Options, printable

issues_app = App(
    name="issues", group="Delivery", help="Failures grouped by destination and cause: list, show, retry, ignore, note."
)
IssueState = Literal["open", "ignored", "resolved"]
MARKS = {"open": "▲", "ignored": "○", "resolved": "●"}
CAUSE_CHARACTERS_MAX = 70
COLUMNS = ("Issue", "State", "Destination", "Events#", "Dead letters#", "Last seen", "Cause")


@issues_app.default
def issues(
    *,
    destination: str | None = None,
    state: IssueState | None = None,
    limit: int = 50,
    options: Options = HERE,
) -> int:
    """List the issues, last seen first. Without --state, only open ones.

    Parameters
    ----------
    destination
        Only those of this destination.
    state
        Only issues in this state.
    limit
        How many to list at most.
    """
    return _list(options, destination, state, limit)


@issues_app.command(name="list")
def list_(
    *,
    destination: str | None = None,
    state: IssueState | None = None,
    limit: int = 50,
    options: Options = HERE,
) -> int:
    """List the issues, last seen first. Without --state, only open ones.

    Parameters
    ----------
    destination
        Only those of this destination.
    state
        Only issues in this state.
    limit
        How many to list at most.
    """
    return _list(options, destination, state, limit)


@issues_app.command
def show(id: str, /, *, options: Options = HERE) -> int:
    """Show one issue with an example and what to do next.

    Parameters
    ----------
    id
        Id of the issue.
    """
    issue = _get(options.admin(), id)
    if options.as_json:
        print(json.dumps(issue))
        return 0
    print(f"{MARKS[issue['state']]} {printable(issue['title'])}")
    for name, value in _facts(issue):
        print(f"  {name:<14}{printable(value)}")
    print(f"\n{issue['nextStep']}")
    if issue["deadLetters"] or issue["retrying"]:
        print(f"Send everything again: hookline issues retry {issue['id']}")
    return 0


@issues_app.command
def retry(id: str, /, *, rate: float | None = None, yes: Flag = False, options: Options = HERE) -> int:
    """Send all dead letters of an issue again, and try its waiting retries now. Counts them first.

    Parameters
    ----------
    id
        Id of the issue.
    rate
        Dead letters per second at most.
    yes
        Do not ask for confirmation.
    """
    admin = options.admin()
    path = f"/issues/{quote(id, safe='')}/retry"
    given = {} if rate is None else {"rate": rate}
    dry = _asked(admin, path, {**given, "dryRun": True}, id)
    if dry["deadLetters"] or dry["retrying"]:
        confirm(f"Send {_what(dry)} again?", yes, "nothing was sent")
    done = _asked(admin, path, given, id)
    if options.as_json:
        print(json.dumps(done))
    elif done["replay"]:
        print(f"sending {_what(done)} again; follow the replay: hookline replay watch {done['replay']['id']}")
    else:
        print(f"{_what(done)} tried now")
    return 0


@issues_app.command
def ignore(id: str, /, *, undo: Flag = False, options: Options = HERE) -> int:
    """Ignore an issue. Hookline keeps counting it, but no longer lists it as open.

    Parameters
    ----------
    id
        Id of the issue.
    undo
        Open it again.
    """
    issue = _asked(options.admin(), f"/issues/{quote(id, safe='')}/ignore", {"ignored": not undo}, id)
    print(json.dumps(issue) if options.as_json else f"{MARKS[issue['state']]} {issue['id']} is {issue['state']}")
    return 0


@issues_app.command
def note(id: str, text: str, /, *, options: Options = HERE) -> int:
    """Write a note for teammates. It replaces the earlier one.

    Parameters
    ----------
    id
        Id of the issue.
    text
        The note. An empty one ("") removes it.
    """
    issue = _asked(options.admin(), f"/issues/{quote(id, safe='')}/note", {"note": text}, id)
    print(json.dumps(issue) if options.as_json else f"{issue['id']}: {'noted' if issue['note'] else 'no note'}")
    return 0


def _list(options: Options, destination: str | None, state: str | None, limit: int) -> int:
    wanted = {"state": state or "open", **({"destination": destination} if destination else {})}
    items = options.admin().newest("/issues", limit, **wanted)
    if options.as_json:
        print(json.dumps(items))
        return 0
    none = f"no {wanted['state']} issues" + (f" of {destination}" if destination else "")
    print_items(items, _line, none, COLUMNS, _cells, options.utc)
    return 0


def _line(issue: Json) -> str:
    cells = [str(cell) for cell in _cells(issue, lambda text: text or "")]
    return printable("  ".join(f"{cell} dead letters" if at == 4 else cell for at, cell in enumerate(cells)))


def _cells(issue: Json, at: Callable[[str | None], str]) -> list[object]:
    title = printable(issue["title"])
    cause = title if len(title) <= CAUSE_CHARACTERS_MAX else title[: CAUSE_CHARACTERS_MAX - 1] + "…"
    events = f"{'at least ' if issue['atLeast'] else ''}{issue['events']}"
    return [
        issue["id"],
        f"{MARKS[issue['state']]} {issue['state']}",
        issue["destination"],
        events,
        issue["deadLetters"],
        at(issue["lastSeenAt"]),
        cause,
    ]


def _facts(issue: Json) -> list[tuple[str, str]]:
    least = "at least " if issue["atLeast"] else ""
    sample = issue["sample"] or {}
    facts = [
        ("issue", issue["id"]),
        ("destination", issue["destination"]),
        ("state", issue["state"]),
        ("first seen", issue["firstSeenAt"]),
        ("last seen", issue["lastSeenAt"]),
        ("events", f"{least}{issue['events']}, in {least}{issue['attempts']} failed attempts"),
        ("dead letters", str(issue["deadLetters"])),
        ("retrying", f"{issue['retrying']} events of the destination wait for a retry" if issue["retrying"] else ""),
        ("opened", f"{issue['timesOpened']} times" if issue["timesOpened"] > 1 else ""),
        ("resolved", f"{issue['resolvedAt']}, {issue['resolvedBecause']}" if issue["resolvedAt"] else ""),
        ("ignored", f"{issue['ignoredAt']} by {issue['ignoredBy']}; {issue['attemptsSince']} failed attempts since")
        if issue["ignoredAt"]
        else ("", ""),
        ("note", f"{issue['note']} ({issue['noteBy']})" if issue["note"] else ""),
        ("replay", f"{issue['replay']} sends its dead letters now" if issue["replay"] else ""),
        ("example", sample.get("messageId") or ""),
        ("answer", " ".join((sample.get("answer") or "").split())),
    ]
    return [fact for fact in facts if fact[1]]


def _get(admin: AdminApi, id: str) -> Json:
    try:
        return admin.get(f"/issues/{quote(id, safe='')}")
    except NotFound:
        raise _unknown(id) from None


def _asked(admin: AdminApi, path: str, body: Json, id: str) -> Json:
    try:
        return admin.request("POST", path, body)
    except NotFound:
        raise _unknown(id) from None


def _unknown(id: str) -> CommandFailed:
    return CommandFailed(f"there is no issue {printable(id)!r}; see hookline issues --state open, ignored or resolved")


def _what(asked: Json) -> str:
    letters, retrying = asked["deadLetters"], asked["retrying"]
    parts = [f"{letters} dead letter{'' if letters == 1 else 's'}"] if letters else []
    parts += [f"{retrying} event{'' if retrying == 1 else 's'} waiting for a retry"] if retrying else []
    return " and ".join(parts)
