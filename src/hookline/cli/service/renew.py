"""``hookline renew``: after a part of the data folder was lost for good, the decision to go on without what it held."""

from __future__ import annotations

import sys

from hookline.cli.admin_api import CommandFailed, reason_of
from hookline.cli.checkup.here import look
from hookline.cli.target import Target
from hookline.database import home
from hookline.database.installation import LOCAL
from hookline.database.location import Schema, Which
from hookline.database.sqlite import DatabaseAway
from hookline.settings import Settings, SettingsError

SCHEMAS: dict[str, Which] = {
    "control.db": "control",
    "deliver.db": "deliver",
    "privacy.db": "privacy",
    "profiles.db": "profiles",
}
USAGE = 2


def renew(server: Target, part: str, yes: bool) -> int:
    """Say what it costs to begin a missing part anew; with ``yes``, let the next start do it."""
    if part not in home.COSTS:
        print(f"hookline: there is no part {part}: one of {', '.join(sorted(home.COSTS))}", file=sys.stderr)
        return USAGE
    try:
        return _renew(look(server).settings, part, yes)
    except SettingsError as error:
        raise CommandFailed(str(error), USAGE) from None
    except DatabaseAway as away:
        raise CommandFailed(f"{away.meaning}: {away}. {away.next_step} Then run this again") from None
    except OSError as error:
        raise CommandFailed(reason_of(error)) from None


def _renew(settings: Settings, part: str, yes: bool) -> int:
    if not _is_missing(settings, part):
        print(f"hookline: {part} is not missing; nothing was changed", file=sys.stderr)
        return 1
    print(f"Without {part}: {home.COSTS[part]}.")
    if not yes:
        print("Nothing was changed. Put it back from a snapshot, or give this command again with --yes.")
        return 1
    _forget(settings, part)
    print(f"The next start creates a new {part}.")
    return 0


def _is_missing(settings: Settings, part: str) -> bool:
    if settings.database.url == LOCAL or part not in SCHEMAS:
        return part in home.missing(settings.data_path)
    from hookline.database.postgres.schema import is_lost

    return is_lost(Schema(settings.database.url, SCHEMAS[part]))


def _forget(settings: Settings, part: str) -> None:
    if settings.database.url == LOCAL or part not in SCHEMAS:
        home.forget(settings.data_path, part)
    else:
        from hookline.database.postgres.schema import forget_part

        forget_part(Schema(settings.database.url, SCHEMAS[part]))
