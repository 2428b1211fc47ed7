"""A PHP process with a client in it, which does what it is told: the library's driver of the book of behaviour."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
LIBRARY = ROOT / "clients" / "php"
ENDED_SECONDS = 60.0


class Driver:
    """One client of one consumer; closed at the end of a ``with``. ``starter`` is a command that starts another."""

    def __init__(self, write_key: str, port: int, consumer: str, starter: Sequence[str] = (), **options: Any) -> None:
        command = [*starter, "php", str(LIBRARY / "tests" / "driver.php")]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        address = {"write_key": write_key, "endpoint": f"http://127.0.0.1:{port}", "consumer": consumer}
        assert self.ask("init", options={**address, **options}) == {"ok": True}

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(ENDED_SECONDS)

    def ask(self, command: str, **fields: Any) -> dict[str, Any]:
        """Give a command and return the answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"do": command, **fields}) + "\n")
        self.process.stdin.flush()
        return dict(json.loads(self.process.stdout.readline()))

    def track(self, prefix: str, count: int) -> int:
        """Make so many calls with messageIds that begin with ``prefix``; return how many were taken."""
        message = {"userId": "u1", "event": "Test", "messageId": f"{prefix}-{{n}}"}
        return int(self.ask("calls", count=count, type="track", message=message)["taken"])

    def end(self) -> int:
        """End its input, as a script ends that never flushed; return the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(ENDED_SECONDS)
