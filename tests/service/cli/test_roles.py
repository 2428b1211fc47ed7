"""The roles started one by one, as a service manager may do it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable

from tests.service.cli.conftest import environment
from tests.service.harness import Hookline, Receiver, webhook
from tests.service.waiting import WAIT_SECONDS


def start(hookline: Hookline, role: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Start one role with the service's settings file."""
    line = [sys.executable, "-m", "hookline.cli.main", role, "--config", str(hookline.folder / "hookline.yaml")]
    with (hookline.folder / "log").open("ab") as log:
        return subprocess.Popen([*line, *arguments], cwd=hookline.folder, env=environment(), stdout=log, stderr=log)


def test_roles_started_one_by_one_work_together(receiver: Receiver, new_hookline: Callable[..., Hookline]) -> None:
    """In any order, sharing nothing but the data folder; each ends with 0 on SIGTERM; none may run twice."""
    hookline = new_hookline(webhook("crm", receiver.url()))
    with hookline:
        pass  # writes the files, and shows that the folder is free again afterwards
    connections = ("--connections", str(hookline.folder / "connections.yaml"))
    roles = [start(hookline, "deliver"), start(hookline, "collect"), start(hookline, "control", *connections)]
    try:
        hookline.process = roles[0]
        hookline.wait_ready()
        receiver.wait_for(hookline.track())
        assert start(hookline, "collect").wait(WAIT_SECONDS) == 1
        assert str(hookline.data) in hookline.log
    finally:
        for role in roles:
            role.send_signal(signal.SIGTERM)
    assert [role.wait(WAIT_SECONDS) for role in roles] == [0, 0, 0]
