"""Look at where data lies: the data folder, its room and who can read it, and the databases, in files or in
PostgreSQL."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from shlex import quote

from hookline.cli.checkup.here import Finding, Here
from hookline.database import home
from hookline.database.file_damage import damage_of, how_to_mend
from hookline.database.installation import LOCAL, bytes_taken, check_usable, verify_installation
from hookline.database.location import NOTE_FILE, Schema, location_of
from hookline.database.open import refuse_newer
from hookline.database.sqlite import (
    DatabaseAway,
    DatabaseBroken,
    DatabaseForbidden,
    DatabaseReadOnly,
    DatabaseTooNew,
    DatabaseUnusable,
)
from hookline.features.fleet.storage import DATABASES
from hookline.privacy import id_digest
from hookline.setting_text import is_secret

PRIVATE_FILES = (
    "admin-token",
    "parts",
    "journal/damaged",
    "collect-connections",
    "journal",
    "index",
    "run",
    "profiles.db",
    "database",
    "control.db",
    "deliver.db",
    "insights.db",
    "journal/kafka",
    "privacy.db",
    "privacy-key",
    "run/launch.json",
)
SECRETS_LOOKED_AT_MAX = 100
CHECK_SECONDS = 10.0
"""For the look at the pages of one database; a large one is looked at as far as that goes."""
OTHERS = stat.S_IRWXG | stat.S_IRWXO


def check_folder(here: Here) -> Iterator[Finding]:
    """Look whether Hookline can work in it."""
    path = here.settings.data_path
    if not path.exists():
        parent = next(each for each in path.parents if each.exists())
        if os.access(parent, os.W_OK | os.X_OK):
            yield Finding("data_folder", "warn", f"{path} does not exist yet", "hookline up creates it.")
        else:
            message = f"{path} does not exist and cannot be created: {parent} is not writable"
            yield Finding("data_folder", "fail", message, "Choose another folder with data_dir, or create it by hand.")
    elif not path.is_dir() or not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        message = f"{path} is not a folder that this user can write to"
        yield Finding("data_folder", "fail", message, "Run this as the user that runs Hookline, or change its owner.")
    else:
        yield Finding("data_folder", "ok", str(path))


def check_parts(here: Here) -> Iterator[Finding]:
    """Databases and keys in files: whether all that were there still are, and can be read."""
    path, is_here = here.settings.data_path, here.settings.database.url == LOCAL
    for name in home.missing(path) if is_here else ():
        message = f"{path / name} is missing, and was there"
        next_step = (
            f"Put it back from a snapshot: Hookline does not start without it. hookline renew {name} replaces it with"
            " an empty one."
        )
        yield Finding("parts", "fail", message, next_step)
    if is_here:
        try:
            id_digest.read(path)
        except FileNotFoundError:
            pass  # not made yet, or missing, as said
        except id_digest.PrivacyKeyError as error:
            yield Finding("parts", "fail", *str(error).split(": ", 1))
    for file in sorted(path.glob("*.db")) if is_here else ():
        reason = damage_of(file, CHECK_SECONDS)
        if reason is not None:
            yield Finding("parts", "fail", f"{file} is damaged: {reason}", how_to_mend(file))


def check_disk(here: Here) -> Iterator[Finding]:
    """Free space against what retention and the duplicate index may still grow to."""
    path, settings = here.settings.data_path, here.settings
    if not path.is_dir():
        return
    status = os.statvfs(path)
    free = status.f_bavail * status.f_frsize
    journal, index = folder_bytes(path / "journal"), folder_bytes(path / "index")
    index_max = settings.dedup.bytes * settings.journal.partitions  # each partition has an index of its own
    growth = max(0, settings.retention.bytes - journal) + max(0, index_max - index)
    used = f"events take {in_words(journal)} of {in_words(settings.retention.bytes)}"
    with suppress(FileNotFoundError):
        delivered = (path / "deliver.db").stat().st_size
        used += f"; deliver.db, which grows with what receivers refuse, takes {in_words(delivered)}"
    if free < max(settings.notices.disk_free, 1) or (status.f_files and not status.f_favail):
        message = f"{in_words(free)} free: nearly full; {used}"
        yield Finding(
            "disk", "fail", message, "Make room, or lower retention.bytes; while the disk is full, calls get 503."
        )
    elif free < growth:
        message = f"{in_words(free)} free, {in_words(growth)} may still be needed; {used}"
        least = in_words(max(0, settings.retention.bytes - (growth - free)))
        yield Finding("disk", "warn", message, f"Make room, or set retention.bytes to at most {least}.")
    else:
        yield Finding("disk", "ok", f"{in_words(free)} free, at most {in_words(growth)} more needed; {used}")


def check_permissions(here: Here) -> Iterator[Finding]:
    """Files that hold secrets: ours, those of ``secrets.dir``, and the settings file when it does."""
    path = here.settings.data_path
    open_to_others = [each for each in (path, *(path / name for name in PRIVATE_FILES)) if _mode(each) & OTHERS]
    for each in open_to_others:
        wanted = "700" if each.is_dir() else "600"
        message = f"{each} can be read or written by others (mode {_mode(each):o})"
        yield Finding("permissions", "fail", message, f"chmod {wanted} {quote(str(each))}")
    open_secrets = list(_open_secrets(here.settings.secrets.dir))
    for each in open_secrets:
        message = f"{each} can be read by every user of this machine (mode {_mode(each):o})"
        yield Finding("permissions", "warn", message, f"chmod 600 {quote(str(each))}, if nobody else needs it.")
    config = settings_file(here)
    if config is not None and _mode(config) & OTHERS:
        message = f"{config} holds a secret and can be read by others (mode {_mode(config):o})"
        yield Finding(
            "permissions", "fail", message, f"chmod 600 {quote(str(config))}, or give the secret in the environment."
        )
        return
    if not (open_to_others or open_secrets) and path.is_dir():
        yield Finding("permissions", "ok", "only this user can read the data folder and the secrets")


def settings_file(here: Here) -> Path | None:
    """The settings file, if a secret stands in it."""
    for origin in here.origins:
        if is_secret(origin.key, origin.value) and origin.source.startswith("file "):
            return Path(origin.source.removeprefix("file "))
    return None


def folder_bytes(folder: Path) -> int:
    """The size of all files below a folder; those that go meanwhile are left out."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(parent, name)).st_size
            except FileNotFoundError:
                continue
    return total


def in_words(count: int) -> str:
    """Bytes as the settings write them."""
    for unit, size in (("TB", 1024**4), ("GB", 1024**3), ("MB", 1024**2)):
        if count >= 10 * size or (unit == "MB"):
            return f"{count / size:,.0f} {unit}"
    return str(count)


def _open_secrets(folder: str | None) -> Iterator[Path]:
    """Files of ``secrets.dir`` that anybody can read, in a folder that anybody can enter."""
    path = Path(folder).expanduser() if folder is not None else None
    if path is None or not _mode(path) & stat.S_IXOTH:
        return
    for each in sorted(path.iterdir())[:SECRETS_LOOKED_AT_MAX]:
        if each.is_file() and _mode(each) & stat.S_IRWXO:
            yield each


def _mode(path: Path) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return 0


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
        next_step = f"{away.next_step} Hookline then continues by itself."
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
    from hookline.database.postgres.requirements import troubles

    found = list(troubles(schema))
    for trouble in found[:SHOWN_MAX]:
        if isinstance(trouble, DatabaseForbidden):
            yield Finding("database", "fail", f"a right on {schema.name} is missing", f"As its owner: {trouble}")
        else:
            yield Finding("database", "fail", f"{_sentence(trouble)} ({schema.name}): {trouble}", trouble.next_step)
    if len(found) > SHOWN_MAX:
        more = f"{len(found) - SHOWN_MAX} more of this kind in {schema.name}"
        yield Finding("database", "fail", more, "Repair those named here, and run this again.")


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
