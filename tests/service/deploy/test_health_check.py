"""The health check of the container image, asked beside a service."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tests.deploy.files import DEPLOY
from tests.service.client import send
from tests.service.harness import Answer, Hookline, free_port, wait_until

T = TypeVar("T")


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
        wait_until(lambda: without(service, "deliver", lambda: is_missed(service, "deliver")), what="control notices")
        wait_until(lambda: without(service, "deliver", lambda: healthy(*ports, "all") == 1), what="it is missed")
        assert healthy(*ports) == 0
        wait_until(lambda: whole(service).status == 200, what="deliver works again")
        assert set(whole(service).json["roles"].values()) == {"working"}


def without(service: Hookline, role: str, look: Callable[[], T]) -> T:
    """Look with a role killed wherever its supervisor has brought it back: killed once, it may be there again between
    two looks. One that was killed before may still be seen as it goes, and is gone by then."""
    if pid := service.role(role, required=False):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return look()


def is_missed(service: Hookline, role: str) -> bool:
    """Whether control says that the whole is not ready, for this role does not report."""
    answer = whole(service)
    return answer.status == 503 and answer.json["roles"][role] == "not_reporting"


def whole(service: Hookline) -> Answer:
    """What control says of all roles."""
    return send(service.control_port, "GET", "/readyz?all")
