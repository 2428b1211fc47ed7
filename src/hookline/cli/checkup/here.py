"""Describe the installation that is looked at, with the origin of its settings, and what a look at it found."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from hookline.cli.launch import Launch, last_launch
from hookline.cli.target import Target
from hookline.features.fleet.metrics import RoleMetrics, RoleReport
from hookline.journal.opening import remember_secrets
from hookline.secret_references import MASK
from hookline.settings import Origin, Settings, may_enter_folder, value_of

Status = Literal["ok", "warn", "fail"]


class Finding(msgspec.Struct, frozen=True, rename="camel"):
    """``ok``: as it should be. ``warn``: not wrong now, and worth knowing. ``fail``: wrong."""

    check: str
    status: Status
    message: str
    next_step: str | None = None


class Here(NamedTuple):
    """``settings`` and ``origins`` are the running server's where it was started with ``up``, else those of this shell;
    ``differs`` names settings that this shell has other values for."""

    settings: Settings
    origins: list[Origin]
    differs: list[str]
    launch: Launch | None
    reports: Mapping[str, RoleReport]
    server: Target

    @property
    def runs(self) -> bool:
        """Return whether any role works in the data folder right now."""
        return any(report.fresh for report in self.reports.values())

    def connections_file(self) -> Path | None:
        """Return the connections file that the running server was started with, else the one that a start here would
        apply, if there is one."""
        if self.launch is not None:
            named = self.launch.connections
        else:
            named = "connections.yaml" if may_enter_folder() else None
        return Path(named) if named is not None and Path(named).is_file() else None

    def processes(self) -> list[int]:
        """Return the supervisor, whose roles have its limits and its user, and roles that were started alone."""
        folder = self.settings.data_path
        locks = [folder / "lock", *(folder / "run" / f"{role}.lock" for role in self.reports)] if self.runs else []
        texts = [lock.read_text() for lock in locks if lock.exists()]
        return [int(text) for text in texts if text.isdigit() and Path(f"/proc/{text}").exists()]


def look(server: Target) -> Here:
    """Find the installation; raise SettingsError when the settings of this shell cannot be read."""
    own, origins = server.own_settings()
    remember_secrets(own)
    folder = own.data_path
    supervised = _lives(folder / "lock")
    reports = {
        role: report._replace(fresh=report.fresh and (supervised or _lives(folder / "run" / f"{role}.lock")))
        for role, report in RoleMetrics(folder).reports().items()
    }
    launch = last_launch(own) if supervised else None
    if launch is None:
        return Here(own, origins, [], None, reports, server)
    started = [
        Origin(origin.key, _started_with(launch, origin.key), launch.origins.get(origin.key, "unknown"))
        for origin in origins
    ]
    differs = [
        was.key
        for was, now in zip(started, origins, strict=True)
        # Only what this shell sets counts: it may stand elsewhere than where the server was started, and without flags.
        # Its data folder is the server's, however it is named here: the launch was found in it.
        if was.key != "data_dir"
        and was.value not in (now.value, MASK)
        and now.source.startswith(("file", "env"))
        and not was.source.startswith("flag")
    ]
    return Here(launch.settings, started, differs, launch, reports, server)


def limits_of(process: int, name: str) -> tuple[float, float] | None:
    """Return the soft and the hard limit of a process, by its name in ``/proc``; None where that cannot be read."""
    try:
        text = Path(f"/proc/{process}/limits").read_text()
    except OSError:
        return None
    found = re.search(rf"^Max {name} +(\S+) +(\S+)", text, re.MULTILINE)
    if found is None:
        return None
    soft, hard = (math.inf if each == "unlimited" else float(each) for each in found.groups())
    return soft, hard


def _started_with(launch: Launch, key: str) -> object:
    """The value that the server was started with, a mask where it is a secret that this shell does not know."""
    value: object = value_of(launch.settings, key)
    return MASK if value is None and key in launch.withheld else value


def _lives(lock: Path) -> bool:
    """Return whether the process that wrote itself into a lock is alive; a number given to another program is not ours.

    The lock itself is not touched: whoever holds it for a moment would keep a server from starting.
    """
    try:
        pid = int(lock.read_text() or 0)
        os.kill(pid, 0)
    except (OSError, ValueError):
        return False
    try:
        return pid > 0 and b"hookline" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return pid > 0  # no /proc here
