"""Keep what the running server was started with: a file in its data folder, for its roles and for the tools."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from contextlib import suppress
from pathlib import Path

import msgspec

from hookline.setting_text import URL_KEYS, is_secret, without_secrets
from hookline.settings import SECRET_KEYS, Settings, environment_name, value_of


def command_to_type() -> str:
    """Return how a person on this machine runs ``hookline``: by its name where that finds this installation, else by
    its path, from the current folder where it lies below."""
    own = Path(sys.executable).parent / "hookline"
    found = shutil.which("hookline")
    if not own.exists() or (found is not None and Path(found).resolve() == own.resolve()):
        return "hookline"
    here = Path.cwd()
    return shlex.quote(str(own.relative_to(here) if own.is_relative_to(here) else own))


def command_line(words: str, settings: Settings) -> str:
    """Return a line to type in the folder that the server was started in; it names the data folder where the command
    would look in another one."""
    aside = settings.data_path != Settings().data_path
    return f"{command_to_type()} {words}" + (f" --data-dir {shlex.quote(str(settings.data_path))}" if aside else "")


LAUNCH_FILE = "launch.json"
"""In ``run/`` of the data folder."""


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what a start was asked to do."""

    settings: Settings
    connections: str | None
    quickstart: bool = False
    one_time_link: bool = False
    origins: dict[str, str] = {}
    """Where each setting came from, by key."""
    withheld: tuple[str, ...] = ()
    """Settings that held a secret, which is not written down (``cli.service.up``)."""


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


def last_launch(own: Settings) -> Launch | None:
    """Return what the server last started with ``up`` on the data folder of ``own`` was started with, if any.

    Its secrets are those of ``own``, as far as this shell knows them. What a copy of a folder says is about the
    original, which commands for the copy must not touch.
    """
    try:
        launch = read(own.data_path / "run" / LAUNCH_FILE, own)
        return launch if launch.settings.data_path.samefile(own.data_path) else None
    except (OSError, msgspec.MsgspecError):
        return None


def _with(settings: Settings, key: str, value: str | None) -> Settings:
    section, _, field = key.partition(".")
    changed = msgspec.structs.replace(getattr(settings, section), **{field: value})
    return msgspec.structs.replace(settings, **{section: changed})
