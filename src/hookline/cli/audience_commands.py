"""``hookline audiences members``, ``explain``, ``history``, ``preview``, ``sync`` and ``syncs``, and what of them
computed traits have too."""

from __future__ import annotations

from pathlib import Path

from cyclopts import App

from hookline.cli.app import HERE, Json
from hookline.cli.object_commands import audiences_app, computed_traits_app
from hookline.cli.target import Target


@audiences_app.command
def members(id: str, /, *, limit: int = 50, as_json: Json = False, server: Target = HERE) -> int:
    """List who is in an audience, as its last sync left it.

    Parameters
    ----------
    id
        Id of the audience.
    limit
        How many to list.
    as_json
        Print them as JSON.
    """
    from hookline.cli.audiences import print_members

    return print_members(server.admin(), id, limit, as_json)


@audiences_app.command
def explain(
    id: str,
    /,
    *,
    user_id: str | None = None,
    anonymous_id: str | None = None,
    as_json: Json = False,
    server: Target = HERE,
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
    as_json
        Print it as JSON.
    """
    from hookline.cli.audiences import print_explanation

    return print_explanation(server.admin(), id, user_id, anonymous_id, as_json)


@audiences_app.command
def history(
    id: str,
    /,
    *,
    user_id: str | None = None,
    anonymous_id: str | None = None,
    as_json: Json = False,
    server: Target = HERE,
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
    as_json
        Print them as JSON.
    """
    from hookline.cli.audiences import print_history

    return print_history(server.admin(), id, user_id, anonymous_id, as_json)


def _preview(of: App, noun: str) -> None:
    def preview(file: Path, /, *, as_json: Json = False, server: Target = HERE) -> int:
        from hookline.cli.previewing import print_preview

        return print_preview(server.admin(), noun, file, as_json)

    of.command(preview, help=f"Look how many people {noun} of a file finds, and some of them, without saving it.")


_preview(audiences_app, "an audience")
_preview(computed_traits_app, "a computed trait")


def _syncs(of: App, noun: str) -> None:
    (collection,) = of.name

    def sync(id: str, /, *, as_json: Json = False, server: Target = HERE) -> int:
        from hookline.cli.audiences import ask_sync

        return ask_sync(server.admin(), collection, id, as_json)

    def syncs(id: str, /, *, limit: int = 20, as_json: Json = False, server: Target = HERE) -> int:
        from hookline.cli.audiences import print_syncs

        return print_syncs(server.admin(), collection, id, limit, as_json)

    of.command(sync, help=f"Sync one {noun} now, not only when it is due.")
    of.command(syncs, help=f"List the syncs of one {noun}, newest first, with how many came and went.")


_syncs(audiences_app, "audience")
_syncs(computed_traits_app, "computed trait")
