"""``hookline up``: reads the settings, writes them down for the roles and becomes the supervisor.

The settings are read here once. The supervisor replaces this process, so that what reading them needed (YAML, type
information) is not kept in memory for the life of the service.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import msgspec

from hookline.cli import lock
from hookline.cli.options import USAGE, Launch, parse
from hookline.settings import Settings, SettingsError

LAUNCH_FILE = "launch.json"
"""In ``run/`` of the data folder: what the running server was started with, for its roles and for the tools."""


def up(arguments: Sequence[str]) -> int:
    """Start the service; returns only when it cannot be started."""
    try:
        launch = parse("up", arguments)
        folder = launch.settings.data_path
        lock.prepare(str(folder))
        held = lock.hold_for_supervisor(str(folder))
    except SettingsError as error:
        print(f"hookline: {error}", file=sys.stderr)
        return USAGE
    except (lock.FolderInUse, OSError) as error:
        print(f"hookline: {error}", file=sys.stderr)
        return 1
    welcome = launch.quickstart or (sys.stdout.isatty() and sys.stderr.isatty())
    write(msgspec.structs.replace(launch, one_time_link=True) if welcome else launch)
    return _become_supervisor(str(folder), held, welcome)


def _become_supervisor(folder: str, held: int, welcome: bool) -> NoReturn:
    os.set_inheritable(held, True)
    module = [sys.executable, "-P", "-m", "hookline.cli.supervisor"]
    os.execv(sys.executable, [*module, folder, str(held), "welcome" if welcome else ""])


def write(launch: Launch) -> None:
    """Write ``run/launch.json`` (0600: it may hold the admin token), replacing it as a whole."""
    settings = msgspec.structs.replace(launch.settings, data_dir=str(launch.settings.data_path))
    path = settings.data_path / "run" / LAUNCH_FILE
    temporary = path.with_suffix(".tmp")
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(file, "wb") as stream:
        stream.write(msgspec.json.encode(msgspec.structs.replace(launch, settings=settings)))
    temporary.replace(path)


def read(path: Path) -> Launch:
    """What the server was started with."""
    return msgspec.json.decode(path.read_bytes(), type=Launch)


def running_settings(data_path: Path) -> Settings | None:
    """The settings of the server last started with ``up`` on the data folder, if any."""
    try:
        return read(data_path / "run" / LAUNCH_FILE).settings
    except (OSError, msgspec.MsgspecError):
        return None
