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

from hookline.cli.service import lock
from hookline.cli.service.options import USAGE, Launch, parse
from hookline.database.location import Which
from hookline.database.open import refuse_newer
from hookline.database.sqlite import DatabaseTooNew, engine
from hookline.listening import all_bound
from hookline.setting_text import URL_KEYS, is_secret, without_secrets
from hookline.settings import SECRET_KEYS, Settings, SettingsError, environment_name, parse_listen, value_of

LAUNCH_FILE = "launch.json"
"""In ``run/`` of the data folder: what the running server was started with, for its roles and for the tools."""


def up(arguments: Sequence[str]) -> int:
    """Start the service; returns only when it cannot be started."""
    try:
        launch = parse("up", arguments)
        folder = launch.settings.data_path
        lock.prepare(str(folder))
        held = lock.hold_for_supervisor(str(folder))
        refuse_newer_files(folder)
        welcome = launch.quickstart or (sys.stdout.isatty() and sys.stderr.isatty())
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
        sockets = all_bound(*parse_listen(address))
    except OSError:
        return ""
    for each in sockets:
        each.set_inheritable(True)
    return ",".join(str(each.detach()) for each in sockets)


def secrets_of(settings: Settings) -> dict[str, str]:
    """Return the secrets of the settings by the environment variables that say them to the roles."""
    found = ((key, value_of(settings, key)) for key in (*SECRET_KEYS, *URL_KEYS))
    return {environment_name(key): str(value) for key, value in found if is_secret(key, value)}


def write(launch: Launch) -> None:
    """Write ``run/launch.json``, replacing it as a whole, without any secret: the file outlives the server.

    One that says the same already is left as it is, so that the service starts again on a full disk.
    """
    settings = msgspec.structs.replace(launch.settings, data_dir=str(launch.settings.data_path))
    withheld = tuple(key for key in (*SECRET_KEYS, *URL_KEYS) if is_secret(key, value_of(settings, key)))
    for key in withheld:
        settings = _with(settings, key, without_secrets(value_of(settings, key)) if key in URL_KEYS else None)
    path = settings.data_path / "run" / LAUNCH_FILE
    text = msgspec.json.encode(msgspec.structs.replace(launch, settings=settings, withheld=withheld))
    with suppress(OSError):
        if path.read_bytes() == text:
            return
    temporary = path.with_suffix(".tmp")
    try:
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(file, "wb") as stream:
            stream.write(text)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OSError(f"{path} cannot be written ({error.strerror}); make room, or see whose it is") from None


def read(path: Path, own: Settings | None = None) -> Launch:
    """Return what the server was started with, its secrets as the environment has them, or ``own`` settings do."""
    launch = msgspec.json.decode(path.read_bytes(), type=Launch)
    settings = launch.settings
    for key in launch.withheld:
        secret = os.environ.get(environment_name(key)) if own is None else value_of(own, key)
        if is_secret(key, secret):
            settings = _with(settings, key, secret)
    return msgspec.structs.replace(launch, settings=settings)


def running_settings(own: Settings) -> Settings | None:
    """Return the settings of the server last started with ``up`` on the data folder of ``own``, if any.

    Its secrets are those of ``own``, as far as this shell knows them.
    """
    try:
        return read(own.data_path / "run" / LAUNCH_FILE, own).settings
    except (OSError, msgspec.MsgspecError):
        return None


def _with(settings: Settings, key: str, value: str | None) -> Settings:
    section, _, field = key.partition(".")
    changed = msgspec.structs.replace(getattr(settings, section), **{field: value})
    return msgspec.structs.replace(settings, **{section: changed})
