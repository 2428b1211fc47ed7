"""The databases, in files or in PostgreSQL: whether they answer, take writes and grant what is needed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from hookline.cli.checkup.data_folder import in_words
from hookline.cli.checkup.finding import Finding
from hookline.cli.checkup.here import Here
from hookline.database.installation import LOCAL, check_usable, verify_installation
from hookline.database.location import NOTE_FILE, Schema, location_of
from hookline.database.open import refuse_newer
from hookline.database.size import bytes_taken
from hookline.database.sqlite import (
    DatabaseAway,
    DatabaseBroken,
    DatabaseForbidden,
    DatabaseReadOnly,
    DatabaseTooNew,
    DatabaseUnusable,
)
from hookline.features.fleet.storage import DATABASES

SHOWN_MAX = 5
"""Troubles of one database that are named; the others are counted."""


def check_database(here: Here) -> Iterator[Finding]:
    """Of files only what is wrong: other checks read them."""
    yield from _met_by_roles(here)
    settings = here.settings
    for which in DATABASES:
        try:
            if settings.database.url == LOCAL:
                refuse_newer(location_of(settings, which), which)
        except DatabaseTooNew as newer:
            yield Finding("database", "fail", str(newer), "The role that writes to it does not start like this.")
    if settings.database.url == LOCAL and not (settings.data_path / NOTE_FILE).exists():
        for which in DATABASES:
            yield from _of_file(settings.data_path / f"{which}.db", here.runs)
        return
    try:
        verify_installation(settings)
        from hookline.database.postgres.installation import describe

        described = describe(settings)
        wrong = [each for which in DATABASES for each in _of_schema(Schema(settings.database.url, which))]
        yield from wrong
        if not wrong:
            taken = sum(bytes_taken(location_of(settings, which)) for which in DATABASES)
            yield Finding("database", "ok", f"{described}; {in_words(taken)}")
    except DatabaseAway as away:
        next_step = f"{away.next_step} Hookline goes on by itself then."
        yield Finding("database", "fail", f"{_sentence(away)}: {away}", next_step)
    except DatabaseUnusable as error:
        yield Finding("database", "fail", str(error), "Hookline does not start like this.")


def _met_by_roles(here: Here) -> Iterator[Finding]:
    kinds = {kind.kind: kind for kind in DatabaseAway.__subclasses__()}
    for role, report in here.reports.items():
        for name in report.by_label(f"hookline_{role}_database_trouble") if report.fresh else ():
            if name in kinds:
                yield Finding("database", "fail", f"{role} says that {kinds[name].meaning}", kinds[name].next_step)


def _of_schema(schema: Schema) -> Iterator[Finding]:
    from hookline.database.postgres.usable import troubles

    found = list(troubles(schema))
    for trouble in found[:SHOWN_MAX]:
        if isinstance(trouble, DatabaseForbidden):
            yield Finding("database", "fail", f"a right on {schema.name} is missing", f"As its owner: {trouble}")
        else:
            yield Finding("database", "fail", f"{_sentence(trouble)} ({schema.name}): {trouble}", trouble.next_step)
    if len(found) > SHOWN_MAX:
        more = f"{len(found) - SHOWN_MAX} more of this kind in {schema.name}"
        yield Finding("database", "fail", more, "Mend those named here, and run this again.")


def _of_file(path: Path, runs: bool) -> Iterator[Finding]:
    """A folder that is not in use is left as it is: to write, a file would be changed."""
    if not path.exists():
        return
    try:
        if not os.access(path, os.R_OK):
            raise DatabaseForbidden(f"{path.name} cannot be read by this user")
        if not os.access(path, os.W_OK):
            raise DatabaseReadOnly(f"{path.name} cannot be written by this user")
        if runs:
            check_usable(path)
    except DatabaseForbidden as trouble:
        yield Finding(
            "database", "fail", str(trouble), "Give the file back to the user that runs Hookline (mode 0600)."
        )
    except DatabaseAway as trouble:
        yield Finding("database", "fail", f"{_sentence(trouble)}: {trouble}", trouble.next_step)
    except DatabaseBroken as broken:
        yield Finding("database", "fail", str(broken), "Restore the data folder from a backup.")


def _sentence(trouble: DatabaseAway) -> str:
    return trouble.meaning[0].upper() + trouble.meaning[1:]
