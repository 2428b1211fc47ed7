"""The health check of the container image, asked beside a service."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.deploy.files import DEPLOY
from tests.service.harness import Hookline, free_port


def healthy(collect_port: int, control_port: int) -> int:
    """The exit code of the health check, run as the container runs it."""
    listens = {
        "HOOKLINE_COLLECT_LISTEN": f"0.0.0.0:{collect_port}",
        "HOOKLINE_CONTROL_LISTEN": f"0.0.0.0:{control_port}",
    }
    command = [sys.executable, "-I", str(DEPLOY / "container" / "healthy.py")]
    return subprocess.run(command, env=listens, check=False, timeout=60).returncode


def test_it_asks_both_ports(tmp_path: Path) -> None:
    """0 while both answer; 1 when either has nobody listening."""
    with Hookline(tmp_path) as service:
        assert healthy(service.collect_port, service.control_port) == 0
        assert healthy(service.collect_port, free_port()) == 1
        assert healthy(free_port(), service.control_port) == 1
