"""``hookline audiences`` and ``computed-traits`` beside the objects: previews, syncs, who is in or has what, why."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from cyclopts import App

from hookline.cli.admin_api import AdminApi, CommandFailed, Json
from hookline.cli.app import HERE
from hookline.cli.target import Options, printable
from hookline.features.connections.cli.objects import audiences_app, computed_traits_app, read_object
from hookline.features.people.cli import require_one

INDENT = "  "
POLL_SECONDS = 0.3
ENDED = ("done", "failed")


@audiences_app.command
def members(id: str, /, *, limit: int = 50, options: Options = HERE) -> int:
    """List who is in an audience, as its last sync left it.

    Parameters
    ----------
    id
        Id of the audience.
    limit
        How many to list.
    """
    found = options.admin().newest(f"/audiences/{_part(id)}/members", limit)
    print(json.dumps(found) if options.as_json else "\n".join(map(_member, found)) or "nobody")
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
    """Say why a person is in an audience right now, or why not: each clause with the events and values behind it.

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
    """List when a person came to an audience and went from it, newest first.

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
    lines = [
        f"{each['at']}  {'in' if each['member'] else 'out'}"
        + ("" if each["sync"] is None else f", sync {each['sync']}")
        for each in found
    ]
    print(json.dumps(found) if options.as_json else "\n".join(lines) or "never in it, as far as is known")
    return 0


def _preview(of: App, noun: str) -> None:
    def preview(file: Path, /, *, options: Options = HERE) -> int:
        return print_preview(options.admin(), noun, file, options.as_json)

    of.command(preview, help=f"Look how many people {noun} of a file finds, and some of them, without saving it.")


_preview(audiences_app, "an audience")


_preview(computed_traits_app, "a computed trait")


def _syncs(of: App, noun: str) -> None:
    (collection,) = of.name

    def sync(id: str, /, *, options: Options = HERE) -> int:
        return ask_sync(options.admin(), collection, id, options.as_json)

    def syncs(id: str, /, *, limit: int = 20, options: Options = HERE) -> int:
        return print_syncs(options.admin(), collection, id, limit, options.as_json)

    of.command(sync, help=f"Sync one {noun} now, not only when it is due.")
    of.command(syncs, help=f"List the syncs of one {noun}, newest first, with how many came and went.")


_syncs(audiences_app, "audience")


_syncs(computed_traits_app, "computed trait")


@computed_traits_app.command
def values(id: str, /, *, limit: int = 50, options: Options = HERE) -> int:
    """List who has which value, as the computed trait's last sync left them.

    Parameters
    ----------
    id
        Id of the computed trait.
    limit
        How many to list.
    """
    found = options.admin().newest(f"/computed-traits/{quote(id, safe='')}/values", limit)
    print(json.dumps(found) if options.as_json else "\n".join(map(_line, found)) or "nobody has a value")
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
    """Say which value a person has right now, and which events it is made of.

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
    print(json.dumps(asked) if as_json else f"asked at {asked['askedAt']}; {end}")
    return 0


def print_syncs(admin: AdminApi, collection: str, id: str, limit: int, as_json: bool) -> int:
    """Print a line for each sync."""
    found = admin.newest(f"/{collection}/{_part(id)}/syncs", limit)
    lines = [
        f"{each['number']:>6}  {each['at']}  {each['came']:,} came, {each['went']:,} went, done {each['finishedAt']}"
        for each in found
    ]
    print(json.dumps(found) if as_json else "\n".join(lines) or "there are none yet")
    return 0


def _explanation(found: Json, asked: str) -> Iterator[str]:
    state = "in" if found["member"] else "not in"
    yield f"{printable(found['userId'] or asked)} is {state} {found['audience']}{_until(found)}"
    synced = found["synced"]
    if synced is None:
        yield "after the last sync: not in"
    else:
        yield f"after the last sync: in, since {synced['since']}, {'synced' if synced['sent'] else 'not synced'}"
    if not found["historyComplete"]:
        yield "the history is not complete: it is still read up, or the audience is disabled"
    yield from _clause(found["reason"], "")


def _clause(clause: Json, indent: str) -> Iterator[str]:
    found = "" if clause["found"] is None else f": {clause['found']}"
    yield f"{indent}{'✓' if clause['held'] else '✗'} {printable(clause['text'])}{found}{_until(clause)}"
    for path, value in clause["values"].items():
        yield f"{indent}{INDENT}{printable(path)} is {printable(json.dumps(value, ensure_ascii=False))}"
    for event in clause["events"]:
        name = "no longer kept" if event["messageId"] is None else printable(event["messageId"])
        yield f"{indent}{INDENT}{event['at']}  {name}"
    for term in clause["terms"]:
        yield from _clause(term, indent + INDENT)


def _until(found: Json) -> str:
    return "" if found["until"] is None else f", until {found['until']} if nothing new happens"


def _member(member: Json) -> str:
    who = member["userId"] if member["userId"] is not None else f"{member['anonymousId']} (anonymous)"
    return (
        f"{printable(who)}  since {member['since']}  {'synced' if member['synced'] else 'not synced'}{_until(member)}"
    )


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
        raise CommandFailed(f"{file} must hold one audience, with a condition")
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
        who = each["userId"] if each["userId"] is not None else f"{each['anonymousId']} (anonymous)"
        value = "" if each["value"] is True else f": {json.dumps(each['value'], ensure_ascii=False)}"
        yield printable(f"  {who}{value}")


def _explanation_of_trait_value(found: Json, asked: str) -> Iterator[str]:
    who = printable(found["userId"] or asked)
    yield f"{found['computedTrait']} of {who} is {_text(found['value'])}{_until_of_trait_value(found)}"
    yield printable(found["text"])
    counts = "1 event counts" if found["found"] == 1 else f"{found['found']} events count"
    yield f"{counts}, {found['used']} of them with a value"
    if not found["historyComplete"]:
        yield "the history is not complete: it is still read up, or the computed trait is disabled"
    for event in found["events"]:
        name = "no longer kept" if event["messageId"] is None else printable(event["messageId"])
        yield f"{INDENT}{event['at']}  {name}"


def _line(each: Json) -> str:
    who = each["userId"] if each["userId"] is not None else f"{each['anonymousId']} (anonymous)"
    synced = "synced" if each["synced"] else "not synced"
    return f"{printable(who)}  {_text(each['value'])}  since {each['since']}  {synced}{_until_of_trait_value(each)}"


def _text(value: object) -> str:
    return printable(json.dumps(value, ensure_ascii=False))


def _until_of_trait_value(found: Json) -> str:
    return "" if found["until"] is None else f", until {found['until']} if nothing new happens"
