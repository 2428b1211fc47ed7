"""``hookline check``, ``diff``, ``apply``, ``export``, ``history`` and ``rollback``: connections as a file."""

from __future__ import annotations

from pathlib import Path

from hookline.cli.app import CONNECTIONS, HERE, Flag, Json, app
from hookline.cli.target import Target


@app.command(group=CONNECTIONS)
def check(file: Path, /, *, as_json: Json = False, server: Target = HERE) -> int:
    """Check a connections file without a server, and try its filters on recent events where there are any.

    Parameters
    ----------
    file
        Connections file, such as connections.yaml.
    as_json
        Print the problems as JSON.
    """
    from hookline.cli.connections import check_file

    return check_file(file, server.settings(), as_json)


@app.command(group=CONNECTIONS)
def diff(file: Path, /, *, prune: Flag = False, as_json: Json = False, server: Target = HERE) -> int:
    """Show what apply would change.

    Parameters
    ----------
    file
        Connections file.
    prune
        Show also what apply --prune would delete.
    as_json
        Print the changes as JSON.
    """
    from hookline.cli.connections import apply_file

    return apply_file(server.admin(), file, prune=prune, dry_run=True, as_json=as_json)


@app.command(group=CONNECTIONS)
def apply(
    file: Path, /, *, prune: Flag = False, dry_run: Flag = False, as_json: Json = False, server: Target = HERE
) -> int:
    """Make the server's connections those of a file; objects made elsewhere stay untouched.

    Parameters
    ----------
    file
        Connections file.
    prune
        Delete what an earlier version of the file made and this one no longer has.
    dry_run
        Change nothing, only say what would change.
    as_json
        Print the changes as JSON.
    """
    from hookline.cli.connections import apply_file

    return apply_file(server.admin(), file, prune=prune, dry_run=dry_run, as_json=as_json)


@app.command(group=CONNECTIONS)
def export(*, server: Target = HERE) -> int:
    """Print the server's connections as a file; stored secrets are written as keep."""
    print(server.admin().get("/connections/export"), end="")
    return 0


@app.command(group=CONNECTIONS)
def history(version: int | None = None, /, *, limit: int = 20, as_json: Json = False, server: Target = HERE) -> int:
    """List what changed the connections, newest first, or show one change field by field.

    Parameters
    ----------
    version
        The change to show.
    limit
        How many to list.
    as_json
        Print JSON.
    """
    from hookline.cli.versions import list_versions, show_version

    if version is not None:
        return show_version(server.admin(), version, as_json)
    return list_versions(server.admin(), limit, as_json)


@app.command(group=CONNECTIONS)
def rollback(version: int, /, *, dry_run: Flag = False, as_json: Json = False, server: Target = HERE) -> int:
    """Make the connections be as they were at a version of the history; that is a new version.

    Parameters
    ----------
    version
        The version to go back to.
    dry_run
        Change nothing, only say what would change.
    as_json
        Print the changes as JSON.
    """
    from hookline.cli.versions import roll_back

    return roll_back(server.admin(), version, dry_run=dry_run, as_json=as_json)
