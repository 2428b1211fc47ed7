"""PostgreSQL, where the databases are there: whether it answers and can be used."""

from __future__ import annotations

from collections.abc import Iterator

from hookline.cli.checkup.data_folder import in_words
from hookline.cli.checkup.finding import Finding
from hookline.cli.checkup.here import Here
from hookline.control.storage import DATABASES
from hookline.database.claim import LOCAL, NOTE_FILE, claim
from hookline.database.open import DatabaseTooNew, DatabaseUnusable, refuse_newer
from hookline.database.place import place_of
from hookline.database.size import bytes_taken
from hookline.database.sqlite import DatabaseAway


def check_database(here: Here) -> Iterator[Finding]:
    """Of files only that one is of a newer version: other checks read them."""
    settings = here.settings
    for which in DATABASES:
        try:
            if settings.database.url == LOCAL:
                refuse_newer(place_of(settings, which), which)
        except DatabaseTooNew as newer:
            yield Finding("database", "fail", str(newer), "The role that writes to it does not start like this.")
    if settings.database.url == LOCAL and not (settings.data_path / NOTE_FILE).exists():
        return
    try:
        claim(settings)
        from hookline.database.postgres.installation import describe

        described = describe(settings)
        taken = sum(bytes_taken(place_of(settings, which)) for which in DATABASES)
        yield Finding("database", "ok", f"{described}; {in_words(taken)}")
    except DatabaseAway as away:
        next_step = "Start PostgreSQL, or see what it says; Hookline goes on by itself when it answers."
        yield Finding("database", "fail", f"PostgreSQL cannot be reached: {away}", next_step)
    except DatabaseUnusable as error:
        yield Finding("database", "fail", str(error), "Hookline does not start like this.")
