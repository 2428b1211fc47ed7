"""``hookline people``: what is known of one person, and what they did. Accounts are ``hookline users``."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from typing import Annotated

from cyclopts import App, Parameter, validators

from hookline.cli.admin_api import CommandFailed, Json
from hookline.cli.app import EVENTS, HERE, USAGE
from hookline.cli.tables import print_items
from hookline.cli.target import Options, printable

people_app = App(name="people", group=EVENTS, help="People that events are about: search, show one, list their events.")
INDENT = "  "


@people_app.command
def show(
    *,
    user_id: str | None = None,
    anonymous_id: str | None = None,
    options: Options = HERE,
) -> int:
    """Show all data of one person, and the event each part comes from.

    Parameters
    ----------
    user_id
        The person with this user id.
    anonymous_id
        The person this anonymous id belongs to.
    """
    require_one(user_id, anonymous_id)
    found = options.admin().get("/people", userId=user_id, anonymousId=anonymous_id)
    print(json.dumps(found) if options.as_json else "\n".join(_person(found)))
    return 0


@people_app.command
def search(
    text: str,
    /,
    *,
    limit: Annotated[int, Parameter(validator=validators.Number(gte=1, lte=200))] = 50,
    options: Options = HERE,
) -> int:
    """Find people by the beginning of an id, e-mail, name or other indexed trait.

    Parameters
    ----------
    text
        The beginning of an id, or of a word of a trait.
    limit
        How many to list, at most 200.
    """
    found = options.admin().get("/people/search", search=text, limit=limit)
    if options.as_json:
        print(json.dumps(found))
    else:
        nobody = (
            "nobody is found. Hookline keeps people once there is an audience or a computed trait; "
            f"to search events: hookline events --text {shlex.quote(printable(text))}"
        )
        print_items(found["items"], _line, nobody, ("Id", "Name", "E-mail"), _cells, options.utc)
    return 0


@people_app.command
def events(
    *,
    user_id: str | None = None,
    anonymous_id: str | None = None,
    limit: int = 50,
    options: Options = HERE,
) -> int:
    """List the events of one person under all ids, newest first.

    Parameters
    ----------
    user_id
        The person with this user id.
    anonymous_id
        The person this anonymous id belongs to.
    limit
        How many to list.
    """
    require_one(user_id, anonymous_id)
    found = options.admin().newest("/people/events", limit, userId=user_id, anonymousId=anonymous_id)
    if options.as_json:
        print(json.dumps(found))
    else:
        columns = ("Accepted", "Event", "Source", "messageId", "Sent by", "Rejected")
        print_items(found, _event, "nothing is stored", columns, _cells_of_event, options.utc)
    return 0


def require_one(user: str | None, anonymous: str | None) -> None:
    """Raise CommandFailed unless the person is named in one way."""
    if (user is None) == (anonymous is None):
        raise CommandFailed("name the person by --user-id or by --anonymous-id", USAGE)


def _person(found: Json) -> Iterator[str]:
    for identity in found["identities"]:
        yield f"{identity['kind']} {printable(identity['id'])}"
    if (more := found["identitiesTotal"] - len(found["identities"])) > 0:
        yield f"{more} more ids"
    yield f"first seen {found['firstSeenAt']}"
    yield from _block("traits", _traits(found))
    for group in found["groups"]:
        title = f"group {printable(group['groupId'])} since {group['since']}{_from(group)}"
        yield from _block(title, _traits(group), always=True)
    if (more := found["groupsTotal"] - len(found["groups"])) > 0:
        yield f"{more} more groups"
    yield from _block("audiences", [_audience(each) for each in found["audiences"]])
    yield from _block("computed traits", [_computed(each) for each in found["computedTraits"]])


def _block(title: str, lines: list[str], always: bool = False) -> Iterator[str]:
    if lines or always:
        yield title
        yield from (INDENT + line for line in lines)


def _traits(found: Json) -> list[str]:
    return [_trait(each) for each in found["traits"]] + ([] if found["traitsComplete"] else ["more are left out"])


def _trait(trait: Json) -> str:
    return f"{printable(trait['name'])} is {_value(trait['value'])}, {trait['at']}{_from(trait)}"


def _audience(audience: Json) -> str:
    mark = "✓" if audience["member"] else "✗"
    until = "" if audience["until"] is None else f", until {audience['until']} if nothing new happens"
    since = "" if audience["since"] is None else f" since {audience['since']}"
    return f"{mark} {audience['id']}{since}{', synced' if audience['synced'] else ''}{until}"


def _computed(trait: Json) -> str:
    since = "" if trait["since"] is None else f" since {trait['since']}"
    return f"{trait['id']} is {_value(trait['value'])}{since}{', synced' if trait['synced'] else ''}"


def _value(value: Json) -> str:
    return printable(json.dumps(value, ensure_ascii=False))


def _from(found: Json) -> str:
    if found["messageId"] is None:
        return "" if found["source"] is None else f", from {found['source']}"
    return f", from {found['source']} {printable(found['messageId'])}"


def _line(each: Json) -> str:
    id = each["userId"] or f"{each['anonymousId']} (anonymous)"
    return "  ".join(printable(text) for text in (id, each["name"], each["email"]) if text)


def _cells(each: Json, at: Callable[[str | None], str]) -> list[object]:
    return [each["userId"] or f"{each['anonymousId']} (anonymous)", each["name"], each["email"]]


def _cells_of_event(event: Json, at: Callable[[str | None], str]) -> list[object]:
    what = " ".join(filter(None, (event["type"], event["name"] or event["summary"])))
    origin = "" if event["origin"] == "sdk" else f"sync ({event['origin']})"
    return [at(event["receivedAt"]), what, event["source"], event["messageId"], origin, event["rejected"]]


def _event(event: Json) -> str:
    about = event["name"] or event["summary"]
    name = f" {printable(about)}" if about else ""
    by = "" if event["origin"] == "sdk" else f"  sent by a sync ({event['origin']})"
    rejected = "" if event["rejected"] is None else f"  rejected: {event['rejected']}"
    what = f"{event['type']}{name}  {event['source']} {printable(event['messageId'])}"
    return f"{event['receivedAt']}  {what}{by}{rejected}"
