"""deploy/systemd against the service: a unit file is read by hand, there is no systemd to start it."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

from hookline.cli.checkup.machine import OPEN_FILES_BESIDE
from hookline.cli.service.options import SUMMARIES
from hookline.cli.service.supervisor import STOP_SECONDS, USAGE
from hookline.collect.decode import CONNECTIONS_MAX
from hookline.settings import load
from tests.deploy.files import DEPLOY


def unit() -> dict[str, list[str]]:
    """The values of every key, in the order in which they stand; no key stands in two sections."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in (DEPLOY / "systemd" / "hookline.service").read_text().splitlines():
        if line and line[0] not in "#[":
            key, equals, value = line.partition("=")
            assert equals, line
            found[key].append(value)
    return found


def one(key: str) -> str:
    """The value of a key that stands once."""
    (value,) = unit()[key]
    return value


def test_it_starts_the_service_on_its_state_folder() -> None:
    """The command is one there is, and the data folder is the only one that the unit makes writable."""
    program, verb = one("ExecStart").split()
    assert program == "/opt/hookline/bin/hookline"
    assert verb in SUMMARIES
    environment = dict(line.split("=", 1) for line in unit()["Environment"])
    settings, _origins = load(Path(os.devnull), environment=environment)
    assert settings.data_dir == f"/var/lib/{one('StateDirectory')}"
    assert one("ProtectSystem") == "strict"
    assert "ReadWritePaths" not in unit()


def test_it_waits_for_the_drain() -> None:
    """systemd kills later than the supervisor does."""
    assert float(one("TimeoutStopSec")) > STOP_SECONDS


def test_it_does_not_start_again_what_cannot_start() -> None:
    """The exit code of unusable settings is the one that ends the restarts."""
    assert one("Restart") == "always"
    assert one("RestartPreventExitStatus") == str(USAGE)


def test_it_may_open_as_many_files_as_connections_need() -> None:
    """`hookline doctor` has nothing to say about the limit."""
    assert int(one("LimitNOFILE")) >= CONNECTIONS_MAX + OPEN_FILES_BESIDE


def test_it_is_not_root_and_has_no_capability() -> None:
    """No privileges, none to be gained."""
    assert one("User") not in ("root", "0")
    assert one("CapabilityBoundingSet") == ""
    assert one("NoNewPrivileges") == "yes"
