"""``hookline sources``, ``destinations``, ``audiences``, ``computed-traits``, ``notices``, ``events``, ``catalog``,
``settings`` and ``api``: what the admin API has beside connections as a file, from the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

from cyclopts import App, Parameter

from hookline.cli.admin_api import AdminApi, CommandFailed
from hookline.cli.app import EVENTS, HERE, OBJECTS, app
from hookline.cli.target import Options, Target, printable
from hookline.features.events.cli.send import parse_values
from hookline.setting_text import written

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
sources_app = App(name="sources", group=OBJECTS, help="Sources one by one: list, show, put, change, delete.")
destinations_app = App(name="destinations", group=OBJECTS, help="Destinations one by one, as sources.")
audiences_app = App(name="audiences", group=OBJECTS, help="Audiences one by one, as sources.")
computed_traits_app = App(name="computed-traits", group=OBJECTS, help="Computed traits one by one, as sources.")
notices_app = App(name="notices", group=OBJECTS, help="What Hookline says about itself: list, acknowledge.")
STDIN = "-"


def _verbs(of: App, noun: str, example: str) -> None:
    """The five verbs of one kind of object; ``example`` is a change of one."""
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

    of.command(list_them, name="list", help=f"List the {noun}s, a line each.")
    of.command(show, help=f"Show one {noun} as JSON; secrets masked.")
    of.command(put, help=f"Create or replace {one} from a file of JSON or YAML; - reads standard input.")
    of.command(change, help=f"Change fields of {one}, such as name=New or {example}.")
    of.command(delete, help=f"Delete {one}.")


_verbs(sources_app, "source", "enabled=false")


_verbs(destinations_app, "destination", "settings.webhooks='[…]'")


_verbs(audiences_app, "audience", "syncEvery=30m")


_verbs(computed_traits_app, "computed trait", "within=90d")


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
    for notice in notices:
        over = f"  resolved {notice['resolvedAt']}" if notice.get("resolvedAt") else ""
        print(printable(f"{notice['id']:>5}  {notice['openedAt']}  {notice['severity']:<7}  {notice['message']}{over}"))
        if not over:
            print(printable(f"       → {notice['nextStep']}"))
    return 0


@notices_app.command
def acknowledge(id: str, /, *, options: Options = HERE) -> int:
    """Say that a notice was seen.

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
    type_: Annotated[str | None, Parameter(name="--type")] = None,
    event: str | None = None,
    user_id: str | None = None,
    text: str | None = None,
    status: str | None = None,
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
        Only events that hold this text anywhere.
    status
        Only events with this status at some destination.
    limit
        How many to list.
    """
    wanted = {"source": source, "type": type_, "event": event, "userId": user_id, "text": text, "status": status}
    return print_events(options.admin(), wanted, limit, options.as_json)


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
    """List every setting as the running server has it, and where it came from."""
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
    data: str | None = None,
    server: Target = HERE,
) -> int:
    """Call the admin API with the server's token and print the answer; docs/api.md has the calls.

    Parameters
    ----------
    method
        GET, POST, PUT, PATCH or DELETE.
    path
        Below /api/v1, such as /destinations/crm?limit=5.
    data
        The JSON of the request; - reads standard input.
    """
    text = sys.stdin.read() if data == STDIN else data
    try:
        body = None if text is None else json.loads(text)
    except ValueError as error:
        raise CommandFailed(f"--data is not JSON: {error}", exit_code=2) from None
    answer = server.admin().request(method, "/" + path.removeprefix("/api/v1").lstrip("/"), body)
    if answer is not None and answer != "":
        print(printable(answer, keep="\n") if isinstance(answer, str) else _pretty(answer))
    return 0


def print_objects(admin: AdminApi, collection: str, as_json: bool) -> int:
    """Print every object of a collection: id, name, and what is special about it."""
    objects = admin.every(f"/{collection}")
    if as_json:
        print(json.dumps(objects))
        return 0
    for each in objects:
        words = [each.get("id") or each.get("kind"), each.get("name"), each.get("type") or each.get("summary")]
        words += [", ".join(each[key]) for key in ("sources", "destinations") if each.get(key)]
        words += ["disabled"] if each.get("enabled") is False else []
        print(printable("  ".join(str(word) for word in words if word)))
    if not objects:
        print("there are none", file=sys.stderr)
    return 0


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
            inner = inner.setdefault(name, {})
        inner[last] = value
    return print_answer(admin, "PATCH", [collection, id], patch, as_json)


def delete_object(admin: AdminApi, collection: str, id: str, as_json: bool) -> int:
    """Delete an object."""
    admin.request("DELETE", _path(collection, id))
    print(json.dumps({"deleted": id}) if as_json else f"deleted {printable(id)}")
    return 0


def print_events(admin: AdminApi, wanted: dict[str, str | None], limit: int, as_json: bool) -> int:
    """Print the newest events that match: when, what, whose, and the status at each destination."""
    events = admin.newest("/events", limit, **wanted)
    if as_json:
        print(json.dumps(events))
        return 0
    for event in events:
        statuses = ", ".join(f"{each['id']} {each['status']}" for each in event["destinations"]) or event["status"]
        name = event["event"].get("event") or event["event"].get("name") or ""
        line = f"{event['receivedAt']}  {event['type']:<8}  {name}  {event['userId'] or ''}  {event['messageId']}"
        print(printable(f"{line}  {statuses}"))
    return 0


def _path(*parts: str) -> str:
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def _pretty(answer: Any) -> str:
    text = json.dumps(answer, indent=2, ensure_ascii=not sys.stdout.encoding.lower().startswith("utf"))
    return printable(text, keep="\n")


def read_object(file: Path) -> Any:
    """Return what a file of JSON or YAML holds, or standard input."""
    import yaml  # JSON is YAML

    try:
        return yaml.safe_load(sys.stdin.read() if str(file) == STDIN else file.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise CommandFailed(f"cannot read {file}: {error}") from None
