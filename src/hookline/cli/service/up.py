"""``hookline up``: reads the settings, writes them down for the roles and becomes the supervisor.

The settings are read here once. The supervisor replaces this process, so that what reading them needed (YAML, type
information) is not kept in memory for the life of the service. Secrets among them go to the roles in the environment,
however they were given; the file that the roles and the tools read has none.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn, get_args

import msgspec

from hookline.cli.launch import write
from hookline.cli.service import lock
from hookline.cli.service.options import USAGE, parse
from hookline.database.location import Which
from hookline.database.open import refuse_newer
from hookline.database.sqlite import DatabaseTooNew, engine
from hookline.listening import bound_soon
from hookline.setting_text import URL_KEYS, is_secret
from hookline.settings import SECRET_KEYS, Settings, SettingsError, environment_name, parse_listen, value_of


def up(arguments: Sequence[str]) -> int:
    """Start the service; returns only when it cannot be started."""
    try:
        launch = parse("up", arguments)
        folder = launch.settings.data_path
        lock.prepare(str(folder))
        held = lock.hold_for_supervisor(str(folder), launch.settings.collect.drain_delay)
        refuse_newer_files(folder)
        # A link that somebody asked for is printed, also where nobody looks at a terminal.
        is_watched = sys.stdout.isatty() and sys.stderr.isatty()
        welcome = launch.quickstart or launch.one_time_link or is_watched
        if launch.quickstart:
            print("Starting Hookline…", flush=True)
        write(msgspec.structs.replace(launch, one_time_link=True) if welcome else launch)
    except SettingsError as error:
        print(f"hookline: {error}", file=sys.stderr)
        return USAGE
    except DatabaseTooNew as error:
        print(f"hookline: {error}", file=sys.stderr)
        return USAGE
    except (lock.FolderInUse, OSError) as error:
        print(f"hookline: {error}", file=sys.stderr)
        return 1
    os.environ.update(secrets_of(launch.settings))
    return _become_supervisor(launch.settings, held, welcome)


def refuse_newer_files(folder: Path) -> None:
    """Raise DatabaseTooNew when a newer Hookline wrote a database of the folder: then its roles could only stand by."""
    for which in get_args(Which):
        with suppress(engine.Error):  # the role that writes it finds out, and says so
            refuse_newer(folder / f"{which}.db", which)


def _become_supervisor(settings: Settings, held: int, welcome: bool) -> NoReturn:
    os.set_inheritable(held, True)
    command = [sys.executable, "-P", "-m", "hookline.cli.service.supervisor", str(settings.data_path), str(held)]
    command += ["welcome" if welcome else "", str(settings.collect.drain_delay)]
    command += [f"{role}={_listening(value_of(settings, f'{role}.listen'))}" for role in ("collect", "control")]
    os.execv(sys.executable, command)


def _listening(address: str) -> str:
    """Return the numbers of sockets that the supervisor keeps; none where a role has to say that they cannot be had."""
    try:
        sockets = bound_soon(*parse_listen(address))
    except OSError:
        return ""
    for each in sockets:
        each.set_inheritable(True)
    return ",".join(str(each.detach()) for each in sockets)


def secrets_of(settings: Settings) -> dict[str, str]:
    """Return the secrets of the settings by the environment variables that say them to the roles."""
    found = ((key, value_of(settings, key)) for key in (*SECRET_KEYS, *URL_KEYS))
    return {environment_name(key): str(value) for key, value in found if is_secret(key, value)}
