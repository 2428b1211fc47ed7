"""``hookline check``, ``diff``, ``apply``, ``export``, ``history`` and ``rollback``: connections as a file."""

from __future__ import annotations

from pathlib import Path

from hookline.cli.app import CONNECTIONS, HERE, Flag, app
from hookline.cli.target import Options, Target


@app.command(group=CONNECTIONS)
def check(file: Path, /, *, options: Options = HERE) -> int:
    """Check a connections file without a server, and try its filters on recent events.

    Parameters
    ----------
    file
        Connections file, such as connections.yaml.
    """
    from hookline.features.connections.cli.file import check_file

    return check_file(file, options.settings(), options.as_json)


@app.command(group=CONNECTIONS)
def diff(file: Path, /, *, prune: Flag = False, options: Options = HERE) -> int:
    """Show what apply would change.

    Parameters
    ----------
    file
        Connections file.
    prune
        Also show what apply --prune would delete.
    """
    from hookline.features.connections.cli.file import apply_file

    return apply_file(options.admin(), file, prune=prune, dry_run=True, as_json=options.as_json)


@app.command(group=CONNECTIONS)
def apply(file: Path, /, *, prune: Flag = False, dry_run: Flag = False, options: Options = HERE) -> int:
    """Change the server's connections to match a file. Objects that were not made by a file stay as they are.

    Parameters
    ----------
    file
        Connections file.
    prune
        Delete objects that an earlier version of the file made and this one no longer contains.
    dry_run
        Change nothing; only show what would change.
    """
    from hookline.features.connections.cli.file import apply_file

    return apply_file(options.admin(), file, prune=prune, dry_run=dry_run, as_json=options.as_json)


@app.command(group=CONNECTIONS)
def export(*, server: Target = HERE) -> int:
    """Print the server's connections as a file. Stored secrets are written as keep."""
    print(server.admin().get("/connections/export"), end="")
    return 0


@app.command(group=CONNECTIONS)
def history(version: int | None = None, /, *, limit: int = 20, options: Options = HERE) -> int:
    """List the changes of the connections, newest first, or show one change field by field.

    Parameters
    ----------
    version
        The change to show.
    limit
        How many to list.
    """
    from hookline.features.connections.cli.file import list_versions, show_version

    if version is not None:
        return show_version(options.admin(), version, options.as_json)
    return list_versions(options.admin(), limit, options.as_json, options.utc)


@app.command(group=CONNECTIONS)
def rollback(version: int, /, *, dry_run: Flag = False, options: Options = HERE) -> int:
    """Restore all connections to an earlier version. The result is a new version.

    Parameters
    ----------
    version
        The version to go back to.
    dry_run
        Change nothing; only show what would change.
    """
    from hookline.features.connections.cli.file import roll_back

    return roll_back(options.admin(), version, dry_run=dry_run, as_json=options.as_json)
