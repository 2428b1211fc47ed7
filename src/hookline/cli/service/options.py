"""Options of the commands that start the service: ``up`` and the single roles.

They are parsed with argparse rather than the library of the other commands, because a role must start quickly and
stay light. Every setting is a flag of the same dotted name.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import msgspec

from hookline.cli.launch import Launch
from hookline.roles import ROLES, ROLES_WITH_A_FILE
from hookline.settings import SettingsError, keys, load, may_enter_folder

LOOPBACK_NETWORKS = ("127.0.0.0/8", "::1/128")

__all__ = ["ROLES", "ROLES_WITH_A_FILE", "SUMMARIES", "USAGE", "Launch", "parse", "parser"]

USAGE = 2
"""Exit code for wrong usage, an unusable setting or connections file: starting again cannot help."""

SUMMARIES = {
    "up": "Start the whole service on this machine and keep it running.",
    "collect": "Start only the collection API.",
    "deliver": "Start only the sender.",
    "profiles": "Start only the role that stores people.",
    "control": "Start only the admin API and the pages.",
}


def parse(command: str, arguments: Sequence[str]) -> Launch:
    """Read the options of ``up`` or a role; raise SettingsError, or SystemExit(2) on wrong usage."""
    options = vars(parser(command).parse_args(arguments))
    config, connections = options.pop("config"), options.pop("connections", None)
    quickstart, one_time_link = options.pop("quickstart", False), options.pop("one_time_link", False)
    settings, loaded = load(Path(config) if config else None, flags=options)
    origins = {origin.key: origin.source for origin in loaded}
    if quickstart:
        networks = tuple(dict.fromkeys((*settings.deliver.allow_networks, *LOOPBACK_NETWORKS)))
        settings = msgspec.structs.replace(
            settings, deliver=msgspec.structs.replace(settings.deliver, allow_networks=networks)
        )
        origins["deliver.allow_networks"] = "flag --quickstart"
        if settings.log.format == "auto":  # for eyes, through whatever pipe
            settings = msgspec.structs.replace(settings, log=msgspec.structs.replace(settings.log, format="text"))
            origins["log.format"] = "flag --quickstart"
    return Launch(
        settings=settings,
        connections=_connections_file(connections) if command in ("up", "control") else None,
        quickstart=quickstart,
        one_time_link=one_time_link,
        origins=origins,
    )


def parser(command: str) -> argparse.ArgumentParser:
    """The options of ``up`` or a role; the reference in ``docs/reference/cli.md`` is checked against this."""
    found = argparse.ArgumentParser(
        prog=f"hookline {command}", description=SUMMARIES[command], allow_abbrev=False, argument_default=None
    )
    found.add_argument("--config", metavar="FILE", help="settings file (default: ./hookline.yaml if it exists)")
    if command in ("up", "control"):
        found.add_argument(
            "--connections", metavar="FILE", help="connections file (default: ./connections.yaml if it exists)"
        )
        found.add_argument(
            "--one-time-link",
            action="store_true",
            help="make a link that opens the pages once, within 15 minutes, without the token, and print it",
        )
    if command == "up":
        found.add_argument(
            "--quickstart",
            action="store_true",
            help="for a first look: allow receivers on this machine and create a source if there is none",
        )
    group = found.add_argument_group("settings", "see /docs/settings; a flag wins over environment and file")
    for key in keys():
        group.add_argument(*_flags(key), dest=key, metavar="VALUE", help=argparse.SUPPRESS)
    return found


def _flags(key: str) -> list[str]:
    return list(dict.fromkeys((f"--{key.replace('_', '-')}", f"--{key}")))


def _connections_file(given: str | None) -> str | None:
    if given is None and not may_enter_folder():
        return None
    path = Path(given or "connections.yaml")
    try:
        is_there = path.is_file()
    except OSError as error:
        raise SettingsError(f"cannot read the connections file {path}: {error.strerror}") from None
    if not is_there:
        if given is None:
            return None
        raise SettingsError(f"there is no connections file {path}; correct --connections")
    return str(path.absolute())
