"""``hookline sources``, ``destinations``, ``audiences``, ``computed-traits``, ``notices``, ``events``, ``catalog``,
``settings`` and ``api``: what the admin API has beside connections as a file, from the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

from cyclopts import App, Parameter

from hookline.cli.admin_api import AdminApi, CommandFailed, Json
from hookline.cli.app import EVENTS, HERE, OBJECTS, Status, StoredType, app
from hookline.cli.tables import SEVERITY_SHAPES, STATE_SHAPES, print_items, print_table
from hookline.cli.target import Options, Target, printable
from hookline.features.events.cli.send import parse_values
from hookline.features.replays.cli import moment
from hookline.setting_text import written

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
sources_app = App(name="sources", group=OBJECTS, help="Sources: list, show, put, change, delete.")
destinations_app = App(name="destinations", group=OBJECTS, help="Destinations: list, show, put, change, delete.")
audiences_app = App(
    name="audiences", group=OBJECTS, help="Audiences: list, show, put, change, delete, and who is in them."
)
computed_traits_app = App(
    name="computed-traits", group=OBJECTS, help="Computed traits: list, show, put, change, delete, and their values."
)
notifications_app = App(
    name="notifications", group=OBJECTS, help="Notifications: list, show, put, change, delete, test, messages."
)
notices_app = App(name="notices", group=OBJECTS, help="Notices about Hookline itself: list, acknowledge.")
STDIN = "-"
URL_CHARACTERS = "!#$%&'()*+,/:;=?@[]~"
"""What may mean something in an address, and is left as it was typed."""


def _verbs(of: App, noun: str, example: str, on_delete: str = "") -> None:
    """The five verbs of one kind of object; ``example`` is a change of one, ``on_delete`` what its deletion loses."""
    (collection,) = of.name
    one = f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"

    def list_them(*, options: Options = HERE) -> int:
        return print_objects(options.admin(), collection, options.as_json)

    def show(id: str, /, *, options: Options = HERE) -> int:
        return print_answer(options.admin(), "GET", [collection, id], None, options.as_json)

    def put(file: Path, /, *, options: Options = HERE) -> int:
        return put_object(options.admin(), collection, file, options.as_json)

    def change(id: str, /, *changes: str, options: Options = HERE) -> int:
        return change_object(options.admin(), collection, id, changes, options.as_json)

    def delete(id: str, /, *, options: Options = HERE) -> int:
        return delete_object(options.admin(), collection, id, options.as_json)

    of.command(list_them, name="list", help=f"List the {noun}s.")
    of.command(show, help=f"Show one {noun} as JSON, with secrets masked.")
    of.command(put, help=f"Create or replace {one} from a file of JSON or YAML; - reads standard input.")
    of.command(change, help=f"Change fields of {one}, such as name=New or {example}.")
    of.command(delete, help=f"Delete {one}.{on_delete}")


_verbs(sources_app, "source", "enabled=false")


_verbs(
    destinations_app,
    "destination",
    "settings.webhooks='[…]'",
    " Events queued for it are not sent; to send them first, use hookline disable ID --waiting drain.",
)


_verbs(audiences_app, "audience", "syncEvery=30m")


_verbs(computed_traits_app, "computed trait", "within=90d")


_verbs(notifications_app, "notification", "enabled=false")


@notices_app.command(name="list")
def list_notices(*, state: Literal["open", "resolved"] | None = None, limit: int = 50, options: Options = HERE) -> int:
    """List the newest notices.

    Parameters
    ----------
    state
        Only those that are open, or only resolved ones.
    limit
        How many to list.
    """
    notices = options.admin().newest("/notices", limit, state=state)
    if options.as_json:
        print(json.dumps(notices))
        return 0
    columns = ("Notice", "Severity", "Message", "Since", "Resolved", "Next step")
    print_items(notices, _line_of_notice, "there are none", columns, _cells_of_notice, options.utc)
    return 0


def _line_of_notice(notice: Json) -> str:
    line = f"{notice['id']:>5}  {notice['openedAt']}  {notice['severity']:<7}  {notice['message']}"
    if notice["resolvedAt"]:
        return printable(f"{line}  resolved {notice['resolvedAt']}")
    return printable(line) + "\n" + printable(f"       → {notice['nextStep']}")


def _cells_of_notice(notice: Json, at: Callable[[str | None], str]) -> list[object]:
    severity = f"{SEVERITY_SHAPES[notice['severity']]} {notice['severity']}"
    step = "" if notice["resolvedAt"] else notice["nextStep"]
    return [notice["id"], severity, notice["message"], at(notice["openedAt"]), at(notice["resolvedAt"]), step]


@notices_app.command
def acknowledge(id: str, /, *, options: Options = HERE) -> int:
    """Mark a notice as seen.

    Parameters
    ----------
    id
        Number of the notice.
    """
    return print_answer(options.admin(), "POST", ["notices", id, "acknowledge"], None, options.as_json)


@app.command(group=EVENTS)
def events(
    *,
    source: str | None = None,
    type_: Annotated[StoredType | None, Parameter(name="--type")] = None,
    event: str | None = None,
    user_id: str | None = None,
    text: str | None = None,
    destination: str | None = None,
    status: Status = None,
    since: Annotated[str | None, Parameter(name="--from")] = None,
    until: Annotated[str | None, Parameter(name="--to")] = None,
    limit: int = 20,
    options: Options = HERE,
) -> int:
    """List the newest events with their statuses; tail follows them.

    Parameters
    ----------
    source
        Only this source.
    type_
        Only this message type.
    event
        Only track calls of this event, or pages and screens of this name.
    user_id
        Only this user.
    text
        Only events that contain this text anywhere.
    destination
        Only events for this destination (its id).
    status
        Only events with this status at some destination, or at the one given.
    since
        Only events accepted at or after this time: ISO 8601, or how long ago, such as 24h.
    until
        Only events accepted before this time.
    limit
        How many to list.
    """
    wanted = {
        "source": source,
        "type": type_,
        "event": event,
        "userId": user_id,
        "text": text,
        "destination": destination,
        "status": status,
        "from": moment("--from", since),
        "to": moment("--to", until),
    }
    return print_events(options.admin(), wanted, limit, options.as_json, options.utc)


@app.command(group=OBJECTS)
def catalog(kind: str | None = None, /, *, options: Options = HERE) -> int:
    """List the kinds of destination, or show one.

    Parameters
    ----------
    kind
        The kind to show.
    """
    if kind is not None:
        return print_answer(options.admin(), "GET", ["catalog", kind], None, options.as_json)
    return print_objects(options.admin(), "catalog", options.as_json)


@app.command(group=OBJECTS)
def settings(*, options: Options = HERE) -> int:
    """List the settings of the running server, and where each comes from."""
    settings = options.admin().every("/settings")
    if options.as_json:
        print(json.dumps(settings))
        return 0
    width = max(len(each["key"]) for each in settings)
    for each in settings:
        print(printable(f"{each['key']:<{width}}  {written(each['key'], each['value'])}  ({each['source']})"))
    return 0


@app.command(group=OBJECTS)
def api(
    method: Method,
    path: str,
    /,
    *,
    data: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    server: Target = HERE,
) -> int:
    """Call the admin API and print the answer. /docs/api of the pages lists the calls.

    Parameters
    ----------
    method
        GET, POST, PUT, PATCH or DELETE.
    path
        Path below /api/v1, such as /destinations/crm?limit=5.
    data
        JSON body of the request; - reads standard input.
    """
    text = sys.stdin.read() if data == STDIN else data
    try:
        body = None if text is None else json.loads(text)
    except ValueError as error:
        raise CommandFailed(f"--data is not JSON: {error}", exit_code=2) from None
    address = quote(path.removeprefix("/api/v1").lstrip("/"), safe=URL_CHARACTERS)
    answer = server.admin().request(method, f"/{address}", body)
    if answer is not None and answer != "":
        print(printable(answer, keep="\n") if isinstance(answer, str) else _pretty(answer))
    return 0


def print_objects(admin: AdminApi, collection: str, as_json: bool) -> int:
    """Print every object of a collection: id, name, and what is special about it."""
    objects = admin.every(f"/{collection}")
    if as_json:
        print(json.dumps(objects))
        return 0
    if not objects:
        print("there are none", file=sys.stderr)
        return 0
    states = _states(admin) if collection == "destinations" else {}
    rows: list[list[str]] = []
    for each in objects:
        words = [each.get("id") or each.get("kind"), each.get("name"), each.get("type") or each.get("summary")]
        words.append(", ".join(each.get("sources") or each.get("destinations") or ()))
        off = "disabled" if each.get("enabled") is False else ""
        words.append(
            states.get(str(each.get("id")), f"○ {off}" if off else "● healthy") if collection == "destinations" else off
        )
        rows.append([str(word or "") for word in words])
    if sys.stdout.isatty():
        print_table(["Id", "Name", "About", "With", "State"], rows)
    else:
        print("\n".join(printable("  ".join(word for word in row if word)) for row in rows))
    return 0


def _states(admin: AdminApi) -> dict[str, str]:
    """Return what the receivers do that are not simply healthy, and how much waits for them."""
    return {
        each[
            "id"
        ]: f"{STATE_SHAPES[each['state']]} {each['state'].replace('_', ' ')}, {each['figures']['queued']:,} queued, "
        f"{each['figures']['failed'] + each['figures']['expired']:,} not delivered"
        for each in admin.get("/status")["destinations"]
    }


def print_answer(admin: AdminApi, method: str, path: Sequence[str], body: Any, as_json: bool) -> int:
    """Make one call and print its answer as JSON: indented for people, one line for programs."""
    answer = admin.request(method, _path(*path), body)
    print(json.dumps(answer) if as_json else _pretty(answer))
    return 0


def put_object(admin: AdminApi, collection: str, file: Path, as_json: bool) -> int:
    """Create or replace what a file describes; its id is in it."""
    wanted = read_object(file)
    if not isinstance(wanted, dict) or not isinstance(wanted.get("id"), str):
        raise CommandFailed(f"{file} must hold one object with an id")
    return print_answer(admin, "PUT", [collection, wanted["id"]], wanted, as_json)


def change_object(admin: AdminApi, collection: str, id: str, changes: Sequence[str], as_json: bool) -> int:
    """Change fields, named by dotted paths."""
    if not changes:
        raise CommandFailed("say what to change, such as name=New", exit_code=2)
    patch: dict[str, Any] = {}
    for path, value in parse_values("change", list(changes)).items():
        *outer, last = path.split(".")
        inner = patch
        for name in outer:
            if not isinstance(inner.get(name), dict):
                inner[name] = {}
            inner = inner[name]
        inner[last] = value
    return print_answer(admin, "PATCH", [collection, id], patch, as_json)


def delete_object(admin: AdminApi, collection: str, id: str, as_json: bool) -> int:
    """Delete an object."""
    admin.request("DELETE", _path(collection, id))
    print(json.dumps({"deleted": id}) if as_json else f"deleted {printable(id)}")
    return 0


def print_events(admin: AdminApi, wanted: dict[str, str | None], limit: int, as_json: bool, utc: bool) -> int:
    """Print the newest events that match: when, what, whose, and the status at each destination."""
    events = admin.newest("/events", limit, **wanted)
    if as_json:
        print(json.dumps(events))
        return 0
    columns = ("Accepted", "Type", "Name", "User", "messageId", "Status")
    print_items(events, _line_of_event, "no event matches", columns, _cells_of_event, utc)
    return 0


def _line_of_event(event: Json) -> str:
    at, type, name, user, message_id, statuses = _cells_of_event(event, lambda text: text or "")
    return printable(f"{at}  {type:<8}  {name}  {user}  {message_id}  {statuses}")


def _cells_of_event(event: Json, at: Callable[[str | None], str]) -> list[str]:
    statuses = ", ".join(f"{each['id']} {each['status']}" for each in event["destinations"]) or event["status"] or ""
    body = event["event"] if isinstance(event["event"], dict) else {}  # it was erased, or rejected and is no object
    name = body.get("event") or body.get("name") or ""
    return [at(event["receivedAt"]), event["type"], str(name), event["userId"] or "", event["messageId"], statuses]


def _path(*parts: str) -> str:
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def _pretty(answer: Any) -> str:
    text = json.dumps(answer, indent=2, ensure_ascii=not sys.stdout.encoding.lower().startswith("utf"))
    return printable(text, keep="\n")


def read_object(file: Path) -> Any:
    """Return what a file of JSON or YAML holds, or standard input; YAML as in a connections file."""
    from hookline.connections.file_shape import YamlTree  # here: YAML is wanted rarely

    try:
        text = sys.stdin.read() if str(file) == STDIN else file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(f"cannot read {file}: {error}") from None
    with suppress(ValueError):
        return json.loads(text)  # YAML has no pairs of escapes for one character, as JSON does
    tree = YamlTree(text)
    for problem in tree.problems:
        raise CommandFailed(f"cannot read {file}: {problem}")
    return tree.value
