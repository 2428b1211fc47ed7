"""``hookline sources``, ``destinations``, ``audiences``, ``computed-traits``, ``notices``, ``events``, ``catalog``,
``settings`` and ``api``: what the admin API has beside connections as a file, from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from hookline.cli.app import EVENTS, HERE, OBJECTS, Json, app
from hookline.cli.target import Target

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

sources_app = App(name="sources", group=OBJECTS, help="Sources one by one: list, show, put, change, delete.")
destinations_app = App(name="destinations", group=OBJECTS, help="Destinations one by one, as sources.")
audiences_app = App(name="audiences", group=OBJECTS, help="Audiences one by one, as sources.")
computed_traits_app = App(name="computed-traits", group=OBJECTS, help="Computed traits one by one, as sources.")
notices_app = App(name="notices", group=OBJECTS, help="What Hookline says about itself: list, acknowledge.")


def _verbs(of: App, noun: str, example: str) -> None:
    """The five verbs of one kind of object; ``example`` is a change of one."""
    (collection,) = of.name
    one = f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"

    def list_them(*, as_json: Json = False, server: Target = HERE) -> int:
        from hookline.cli.objects import print_objects

        return print_objects(server.admin(), collection, as_json)

    def show(id: str, /, *, as_json: Json = False, server: Target = HERE) -> int:
        from hookline.cli.objects import print_answer

        return print_answer(server.admin(), "GET", [collection, id], None, as_json)

    def put(file: Path, /, *, as_json: Json = False, server: Target = HERE) -> int:
        from hookline.cli.objects import put_object

        return put_object(server.admin(), collection, file, as_json)

    def change(id: str, /, *changes: str, as_json: Json = False, server: Target = HERE) -> int:
        from hookline.cli.objects import change_object

        return change_object(server.admin(), collection, id, changes, as_json)

    def delete(id: str, /, *, as_json: Json = False, server: Target = HERE) -> int:
        from hookline.cli.objects import delete_object

        return delete_object(server.admin(), collection, id, as_json)

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
def list_notices(
    *, state: Literal["open", "resolved"] | None = None, limit: int = 50, as_json: Json = False, server: Target = HERE
) -> int:
    """List the newest notices.

    Parameters
    ----------
    state
        Only those that are open, or only resolved ones.
    limit
        How many to list.
    as_json
        Print them as JSON.
    """
    from hookline.cli.objects import print_notices

    return print_notices(server.admin(), state, limit, as_json)


@notices_app.command
def acknowledge(id: str, /, *, as_json: Json = False, server: Target = HERE) -> int:
    """Say that a notice was seen.

    Parameters
    ----------
    id
        Number of the notice.
    as_json
        Print the notice as JSON.
    """
    from hookline.cli.objects import print_answer

    return print_answer(server.admin(), "POST", ["notices", id, "acknowledge"], None, as_json)


@app.command(group=EVENTS)
def events(
    *,
    source: str | None = None,
    type_: Annotated[str | None, Parameter(name="--type")] = None,
    event: str | None = None,
    user_id: str | None = None,
    text: str | None = None,
    fate: str | None = None,
    limit: int = 20,
    as_json: Json = False,
    server: Target = HERE,
) -> int:
    """List the newest events with their fates; tail follows them.

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
    fate
        Only events with this fate at some destination.
    limit
        How many to list.
    as_json
        Print them as JSON.
    """
    from hookline.cli.objects import print_events

    wanted = {"source": source, "type": type_, "event": event, "userId": user_id, "text": text, "fate": fate}
    return print_events(server.admin(), wanted, limit, as_json)


@app.command(group=OBJECTS)
def catalog(kind: str | None = None, /, *, as_json: Json = False, server: Target = HERE) -> int:
    """List the kinds of destination, or show one.

    Parameters
    ----------
    kind
        The kind to show.
    as_json
        Print JSON.
    """
    from hookline.cli.objects import print_answer, print_objects

    if kind is not None:
        return print_answer(server.admin(), "GET", ["catalog", kind], None, as_json)
    return print_objects(server.admin(), "catalog", as_json)


@app.command(group=OBJECTS)
def settings(*, as_json: Json = False, server: Target = HERE) -> int:
    """List every setting as the running server has it, and where it came from.

    Parameters
    ----------
    as_json
        Print them as JSON.
    """
    from hookline.cli.objects import print_settings

    return print_settings(server.admin(), as_json)


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
    from hookline.cli.objects import call_api

    return call_api(server.admin(), method, path, data)
