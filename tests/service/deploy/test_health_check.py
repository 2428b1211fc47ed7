"""The health check of the container image, asked beside a service."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.deploy.files import DEPLOY
from tests.service.client import send
from tests.service.harness import Answer, Hookline, free_port, wait_until


def healthy(collect_port: int, control_port: int, *more: str) -> int:
    """The exit code of the health check, run as the container runs it."""
    listens = {
        "HOOKLINE_COLLECT_LISTEN": f"0.0.0.0:{collect_port}",
        "HOOKLINE_CONTROL_LISTEN": f"0.0.0.0:{control_port}",
    }
    command = [sys.executable, "-I", str(DEPLOY / "container" / "healthy.py"), *more]
    return subprocess.run(command, env=listens, check=False, timeout=60).returncode


def test_it_asks_both_ports(tmp_path: Path) -> None:
    """0 while both answer; 1 when either has nobody listening."""
    with Hookline(tmp_path) as service:
        assert healthy(service.collect_port, service.control_port) == 0
        assert healthy(service.collect_port, free_port()) == 1
        assert healthy(free_port(), service.control_port) == 1


def test_the_whole_is_asked_of_control(tmp_path: Path) -> None:
    """With `all` it is 0 once every role works, and 1 while one does not, although both ports answer."""
    with Hookline(tmp_path) as service:
        ports = service.collect_port, service.control_port
        wait_until(lambda: healthy(*ports, "all") == 0, what="every role works")
        answer = wait_until(lambda: unready(service, "deliver"), what="control has noticed")
        assert answer.json["roles"]["deliver"] == "not_reporting"
        wait_until(lambda: keep_down(service, "deliver") or healthy(*ports, "all") == 1, what="one role is missed")
        assert healthy(*ports) == 0
        wait_until(lambda: whole(service).status == 200, what="deliver works again")
        assert set(whole(service).json["roles"].values()) == {"working"}


def keep_down(service: Hookline, role: str) -> None:
    """Kill a role wherever its supervisor has brought it back: once alone it may be back between two looks."""
    if pid := service.role(role, required=False):
        os.kill(pid, signal.SIGKILL)


def unready(service: Hookline, role: str) -> Answer | None:
    """What control says of all roles once it misses this one, which is kept down."""
    keep_down(service, role)
    answer = whole(service)
    return answer if answer.status == 503 else None


def whole(service: Hookline) -> Answer:
    """What control says of all roles."""
    return send(service.control_port, "GET", "/readyz?all")
