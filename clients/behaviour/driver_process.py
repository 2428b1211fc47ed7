"""A driver as a process: one JSON object a line in, one a line out, with a time limit on every answer."""

from __future__ import annotations

import json
import os
import queue
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from typing import Any

STANDARD_ERROR_SHOWN_BYTES = 4000


class DriverFailed(Exception):
    """The driver did not answer, or not as the protocol says."""


class DriverProcess:
    """One run of a driver, in a process group of its own, so that what it started can be ended with it."""

    def __init__(self, command: str, environment: dict[str, str], name: str) -> None:
        self.name = name
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in said
        self._process = subprocess.Popen(
            shlex.split(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**_clean_environment(), **environment},
            start_new_session=True,
        )
        self._lines: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def tell(self, command: dict[str, Any]) -> None:
        """Send a command."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._process.stdin.flush()
        except (OSError, ValueError):
            raise DriverFailed(f"{self.name} does not read {command['do']!r}: it has ended") from None

    def answer(self, deadline: float, what: str) -> dict[str, Any]:
        """Return the next answer."""
        try:
            line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise DriverFailed(f"{self.name} gave no answer to {what!r} in time") from None
        if not line:
            raise DriverFailed(f"{self.name} ended with code {self._ended(deadline)} instead of an answer to {what!r}")
        try:
            document = json.loads(line)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise DriverFailed(f"{self.name} answered {what!r} with no JSON object: {line[:500]!r}")
        return document

    def ask(self, command: dict[str, Any], deadline: float) -> dict[str, Any]:
        """Send a command and return the answer."""
        self.tell(command)
        return self.answer(deadline, command["do"])

    def end(self, deadline: float) -> int | None:
        """End its input and return the code with which it ends; None when it does not in time."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except OSError:
            pass
        return self._ended(deadline)

    def wait_killed(self, deadline: float) -> int | None:
        """Return the code of a driver that kills itself."""
        return self._ended(deadline)

    def kill(self) -> None:
        """End it and all that it started, with SIGKILL. May be called again."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        self._process.wait()

    def said(self) -> str:
        """Return the end of what it printed on standard error, and forget it."""
        size = os.fstat(self._errors.fileno()).st_size
        self._errors.seek(max(0, size - STANDARD_ERROR_SHOWN_BYTES))
        text = self._errors.read().decode(errors="replace").strip()
        self._errors.close()
        return text

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def _ended(self, deadline: float) -> int | None:
        try:
            return self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return None


def _clean_environment() -> dict[str, str]:
    """Return what is around us without anything that sets an option of the library or leads past the stand-in."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("HOOKLINE_CLIENT_") and name != "DEBUG" and not name.lower().endswith("_proxy")
    }
