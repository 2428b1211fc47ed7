"""``hookline audiences`` and ``computed-traits`` beside the objects: previews, syncs, who is in or has what, why."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

from cyclopts import App

from hookline.cli.admin_api import AdminApi, CommandFailed, Json
from hookline.cli.app import HERE
from hookline.cli.tables import print_items
from hookline.cli.target import Options, printable
from hookline.features.connections.cli.objects import audiences_app, computed_traits_app, read_object
from hookline.features.people.cli import require_one

INDENT = "  "
POLL_SECONDS = 0.3
ENDED = ("done", "failed")


@audiences_app.command
def members(id: str, /, *, limit: int = 50, options: Options = HERE) -> int:
    """List the members of an audience as of its last sync.

    Parameters
    ----------
    id
        Id of the audience.
    limit
        How many to list.
    """
    found = options.admin().newest(f"/audiences/{_part(id)}/members", limit)
    if options.as_json:
        print(json.dumps(found))
    else:
        print_items(found, _member, "nobody", ("Person", "Since", "Sync", "Until"), _cells_of_member, options.utc)
    return 0


@audiences_app.command
def explain(
    id: str,
    /,
    *,
    user_id: str | None = None,
    anonymous_id: str | None = None,
    options: Options = HERE,
) -> int:
    """Explain why a person is or is not in an audience now: each clause with its events and values.

    Parameters
    ----------
    id
        Id of the audience.
    user_id
        The person with this user id.
    anonymous_id
        The person this anonymous id belongs to.
    """
    require_one(user_id, anonymous_id)
    found = options.admin().get(f"/audiences/{_part(id)}/explain", userId=user_id, anonymousId=anonymous_id)
    print(json.dumps(found) if options.as_json else "\n".join(_explanation(found, user_id or anonymous_id or "")))
    return 0


@audiences_app.command
def history(
    id: str,
    /,
    *,
    user_id: str | None = None,
    anonymous_id: str | None = None,
    options: Options = HERE,
) -> int:
    """List when a person joined and left an audience, newest first.

    Parameters
    ----------
    id
        Id of the audience.
    user_id
        The person with this user id.
    anonymous_id
        The person this anonymous id belongs to.
    """
    require_one(user_id, anonymous_id)
    found = options.admin().get(f"/audiences/{_part(id)}/history", userId=user_id, anonymousId=anonymous_id)["items"]
    if options.as_json:
        print(json.dumps(found))
    else:
        none = "never a member, as far as is known"
        print_items(found, _line_of_change, none, ("Time", "Change", "Sync#"), _cells_of_change, options.utc)
    return 0


def _preview(of: App, noun: str) -> None:
    def preview(file: Path, /, *, options: Options = HERE) -> int:
        return print_preview(options.admin(), noun, file, options.as_json)

    of.command(preview, help=f"Preview {noun} from a file: how many people match, and some of them. Nothing is saved.")


_preview(audiences_app, "an audience")


_preview(computed_traits_app, "a computed trait")


def _syncs(of: App, noun: str, what_changed: str) -> None:
    (collection,) = of.name

    def sync(id: str, /, *, options: Options = HERE) -> int:
        return ask_sync(options.admin(), collection, id, options.as_json)

    def syncs(id: str, /, *, limit: int = 20, options: Options = HERE) -> int:
        return print_syncs(options.admin(), collection, id, limit, options.as_json, options.utc)

    of.command(sync, help=f"Sync one {noun} now.")
    of.command(syncs, help=f"List the syncs of one {noun}, newest first, with how many people {what_changed}.")


_syncs(audiences_app, "audience", "joined and left")


_syncs(computed_traits_app, "computed trait", "got or lost a value")


@computed_traits_app.command
def values(id: str, /, *, limit: int = 50, options: Options = HERE) -> int:
    """List people and their values as of the last sync.

    Parameters
    ----------
    id
        Id of the computed trait.
    limit
        How many to list.
    """
    found = options.admin().newest(f"/computed-traits/{quote(id, safe='')}/values", limit)
    if options.as_json:
        print(json.dumps(found))
    else:
        columns = ("Person", "Value", "Since", "Sync", "Until")
        print_items(found, _line, "nobody has a value", columns, _cells_of_value, options.utc)
    return 0


@computed_traits_app.command(name="explain")
def explain_value(
    id: str,
    /,
    *,
    user_id: str | None = None,
    anonymous_id: str | None = None,
    options: Options = HERE,
) -> int:
    """Show the value of a person now, and the events it is computed from.

    Parameters
    ----------
    id
        Id of the computed trait.
    user_id
        The person with this user id.
    anonymous_id
        The person this anonymous id belongs to.
    """
    require_one(user_id, anonymous_id)
    path = f"/computed-traits/{quote(id, safe='')}/explain"
    found = options.admin().get(path, userId=user_id, anonymousId=anonymous_id)
    print(
        json.dumps(found)
        if options.as_json
        else "\n".join(_explanation_of_trait_value(found, user_id or anonymous_id or ""))
    )
    return 0


def ask_sync(admin: AdminApi, collection: str, id: str, as_json: bool) -> int:
    """Ask for a sync."""
    asked = admin.request("POST", f"/{collection}/{_part(id)}/sync")
    end = f"its end: hookline {collection} syncs {printable(id)}"
    print(json.dumps(asked) if as_json else f"requested at {asked['askedAt']}; {end}")
    return 0


def print_syncs(admin: AdminApi, collection: str, id: str, limit: int, as_json: bool, utc: bool) -> int:
    """Print a line for each sync."""
    found = admin.newest(f"/{collection}/{_part(id)}/syncs", limit)
    if as_json:
        print(json.dumps(found))
    else:
        columns = ("Sync", "Began", "Joined#", "Left#", "People#", "Ended")
        print_items(found, _line_of_sync, "there are none yet", columns, _cells_of_sync, utc)
    return 0


def _line_of_sync(sync: Json) -> str:
    return (
        f"{sync['number']:>6}  {sync['at']}  {sync['came']:,} joined, {sync['went']:,} left, done {sync['finishedAt']}"
    )


def _cells_of_sync(sync: Json, at: Callable[[str | None], str]) -> list[object]:
    people = "" if sync["people"] is None else f"{sync['people']:,}"
    counts = (f"{sync['came']:,}", f"{sync['went']:,}", people)
    return [sync["number"], at(sync["at"]), *counts, at(sync["finishedAt"])]


def _explanation(found: Json, asked: str) -> Iterator[str]:
    state = "in" if found["member"] else "not in"
    yield f"{printable(found['userId'] or asked)} is {state} {found['audience']}{_until(found)}"
    synced = found["synced"]
    if synced is None:
        yield "after the last sync: not in"
    else:
        yield f"after the last sync: in, since {synced['since']}, {'synced' if synced['sent'] else 'not synced'}"
    if not found["historyComplete"]:
        yield "the history is incomplete: Hookline is still reading stored events"
    yield from _clause(found["reason"], "")


def _clause(clause: Json, indent: str) -> Iterator[str]:
    found = "" if clause["found"] is None else f": {clause['found']}"
    yield f"{indent}{'✓' if clause['held'] else '✗'} {printable(clause['text'])}{found}{_until(clause)}"
    for path, value in clause["values"].items():
        more = f", and {count} more" if (count := clause["valuesMore"].get(path)) else ""
        yield f"{indent}{INDENT}{printable(path)} is {printable(json.dumps(value, ensure_ascii=False))}{more}"
    for event in clause["events"]:
        name = "no longer kept" if event["messageId"] is None else printable(event["messageId"])
        yield f"{indent}{INDENT}{event['at']}  {name}"
    for term in clause["terms"]:
        yield from _clause(term, indent + INDENT)


def _until(found: Json) -> str:
    return "" if found["until"] is None else f", until {found['until']} if nothing new happens"


def _member(member: Json) -> str:
    synced = "synced" if member["synced"] else "not synced"
    return f"{printable(_who(member))}  since {member['since']}  {synced}{_until(member)}"


def _cells_of_member(member: Json, at: Callable[[str | None], str]) -> list[object]:
    synced = "● synced" if member["synced"] else "○ not synced"
    return [_who(member), at(member["since"]), synced, at(member["until"])]


def _cells_of_value(each: Json, at: Callable[[str | None], str]) -> list[object]:
    person, *rest = _cells_of_member(each, at)
    return [person, _text(each["value"]), *rest]


def _who(found: Json) -> str:
    return str(found["userId"]) if found["userId"] is not None else f"{found['anonymousId']} (anonymous)"


def _line_of_change(change: Json) -> str:
    return f"{change['at']}  {'in' if change['member'] else 'out'}" + (
        "" if change["sync"] is None else f", sync {change['sync']}"
    )


def _cells_of_change(change: Json, at: Callable[[str | None], str]) -> list[object]:
    return [at(change["at"]), "● joined" if change["member"] else "○ left", change["sync"]]


def _part(id: str) -> str:
    return quote(id, safe="")


def print_preview(admin: AdminApi, noun: str, file: Path, as_json: bool) -> int:
    """Ask, wait until it is done, and print how many and who."""
    wanted = read_object(file)
    if noun == "a computed trait":
        body: Json = {"computedTrait": wanted}
    elif isinstance(wanted, dict) and "condition" in wanted:
        body = {"condition": wanted["condition"]}
    else:
        raise CommandFailed(f"{file} must contain one audience, with a condition")
    found = _until_ended(admin, admin.request("POST", "/audience-previews", body), as_json)
    if found["state"] == "failed":
        raise CommandFailed(found["detail"])
    print(json.dumps(found) if as_json else "\n".join(_lines(found)))
    return 0


def _until_ended(admin: AdminApi, view: Json, quiet: bool) -> Json:
    """Look again until it has ended; on a terminal the last line shows how far it is."""
    live = sys.stdout.isatty() and not quiet
    while view["state"] not in ENDED:
        if live:
            print(f"\r{view['state']} {view['progress']:.0%}   ", end="", flush=True)
        time.sleep(POLL_SECONDS)
        view = admin.get(f"/audience-previews/{view['id']}")
    if live:
        print("\r", end="")
    return view


def _lines(found: Json) -> Iterator[str]:
    yield f"{found['members']:,} of {found['people']:,} people{', such as' if found['sample'] else ''}"
    for each in found["sample"]:
        value = "" if each["value"] is True else f": {json.dumps(each['value'], ensure_ascii=False)}"
        yield printable(f"  {_who(each)}{value}")


def _explanation_of_trait_value(found: Json, asked: str) -> Iterator[str]:
    who = printable(found["userId"] or asked)
    yield f"{found['computedTrait']} of {who} is {_text(found['value'])}{_until_of_trait_value(found)}"
    yield printable(found["text"])
    counts = "1 event counts" if found["found"] == 1 else f"{found['found']} events count"
    yield f"{counts}, {found['used']} of them with a value"
    if not found["historyComplete"]:
        yield "the history is incomplete: Hookline is still reading stored events"
    for event in found["events"]:
        name = "no longer kept" if event["messageId"] is None else printable(event["messageId"])
        yield f"{INDENT}{event['at']}  {name}"


def _line(each: Json) -> str:
    synced = "synced" if each["synced"] else "not synced"
    return (
        f"{printable(_who(each))}  {_text(each['value'])}  since {each['since']}  {synced}{_until_of_trait_value(each)}"
    )


def _text(value: object) -> str:
    return printable(json.dumps(value, ensure_ascii=False))


def _until_of_trait_value(found: Json) -> str:
    return "" if found["until"] is None else f", until {found['until']} if nothing new happens"
