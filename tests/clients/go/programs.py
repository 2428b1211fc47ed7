"""Programs that use the Go library: its driver, told what to do."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.clients.go.toolchain import environment
from tests.service.waiting import WAIT_SECONDS

PROGRAMS = 4


class Program:
    """A program that uses the library: its driver, told what to do line by line."""

    def __init__(self, driver: Path, user: str) -> None:
        self.user = user
        self._process = subprocess.Popen([driver], env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def begin(self, **command: Any) -> None:
        """Give a command without waiting for its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Wait for the next answer."""
        assert self._process.stdout is not None
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def do(self, **command: Any) -> dict[str, Any]:
        """Give a command and wait for its answer."""
        self.begin(**command)
        return self.answer()

    def wait(self) -> None:
        """Wait until it is gone."""
        self._process.wait(WAIT_SECONDS)

    def end(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()
