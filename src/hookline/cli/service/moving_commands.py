"""``hookline migrate-to``: from one data folder to Kafka and PostgreSQL."""

from __future__ import annotations

from pathlib import Path

from hookline.cli.app import HERE, SERVICE, Flag, Json, app
from hookline.cli.target import Target


@app.command(group=SERVICE)
def migrate_to(
    settings: Path,
    /,
    *,
    prepare: Flag = False,
    back: Flag = False,
    leave_events: Flag = False,
    as_json: Json = False,
    server: Target = HERE,
) -> int:
    """Move a data folder to Kafka and PostgreSQL while events come in; the service is stopped for the last seconds.

    Parameters
    ----------
    settings
        The settings file to move to: with journal.url, database.url and a data_dir of its own.
    prepare
        Copy all that can be copied while the service works, and end; run again without it to finish.
    back
        Make the old data folder count again.
    leave_events
        With --back: leave the events behind that were stored since the move.
    as_json
        Print what came of it as JSON; how far it is goes to standard error.
    """
    from hookline.cli.migrate_to import go_back, move

    if back:
        return go_back(server, settings, leave_events, as_json)
    return move(server, settings, prepare, as_json)
