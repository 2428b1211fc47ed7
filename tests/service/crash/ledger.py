"""The ledger outside the system: what clients had acknowledged, what a receiver got, and the two joined at the end."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tests.service.harness import free_port, wait_until

PROGRAMS = Path(__file__).parent / "programs"
SETTLE_SECONDS = 60.0


@dataclass(frozen=True)
class Balance:
    """The two files joined. ``duplicates`` counts deliveries of a message beyond its first."""

    acknowledged: int
    delivered: int
    lost: tuple[str, ...]
    duplicates: int

    @property
    def duplicate_share(self) -> float:
        """Duplicates per acknowledged event."""
        return self.duplicates / max(1, self.acknowledged)

    def __str__(self) -> str:
        return (
            f"acknowledged {self.acknowledged:,}, delivered {self.delivered:,}, lost {len(self.lost)}, "
            f"duplicates {self.duplicates} ({self.duplicate_share:.4%})"
        )


class Ledger:
    """A context manager that runs one receiver, and the sender between ``start_load`` and ``stop_load``."""

    def __init__(self, folder: Path) -> None:
        self._acknowledged = folder / "acknowledged"
        self._received = folder / "received"
        self._port = free_port()
        self._load: subprocess.Popen[bytes] | None = None
        self._sink: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Ledger:
        self._acknowledged.touch()
        self._received.touch()
        self._sink = _program("sink.py", str(self._port), str(self._received))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in (self._load, self._sink):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()

    @property
    def url(self) -> str:
        """The receiver's address."""
        return f"http://127.0.0.1:{self._port}/hook"

    @property
    def acknowledged(self) -> int:
        """How many events were acknowledged so far."""
        return _lines(self._acknowledged)

    @property
    def received(self) -> int:
        """How many requests the receiver got so far, duplicates included."""
        return _lines(self._received)

    def start_load(self, port: int, events_per_second: int = 2_000, padding_bytes: int = 100) -> None:
        """Send to the collection port from now on."""
        self._load = _program("load.py", str(port), str(self._acknowledged), str(events_per_second), str(padding_bytes))

    def stop_load(self) -> None:
        """Let the sender finish what it began: afterwards every id it ever sent is acknowledged."""
        assert self._load is not None
        assert self._load.poll() is None, "the sender died"
        self._load.send_signal(signal.SIGTERM)
        assert self._load.wait(30) == 0

    def hang_receiver(self) -> None:
        """Stop the receiver's process: connections are taken by the kernel, nothing is answered."""
        assert self._sink is not None
        self._sink.send_signal(signal.SIGSTOP)

    def wake_receiver(self) -> None:
        """Let the receiver go on; idempotent."""
        assert self._sink is not None
        self._sink.send_signal(signal.SIGCONT)

    def more(self, count: int, seconds: float = 20.0) -> None:
        """Wait until that many further events were acknowledged."""
        wanted = self.acknowledged + count
        wait_until(lambda: self.acknowledged >= wanted, seconds, f"{count} further acknowledgements")

    def balance(self) -> Balance:
        """Join the two files as they are now."""
        acknowledged = self._acknowledged.read_text().split()
        received = Counter(self._received.read_text().split())
        assert len(acknowledged) == len(set(acknowledged)), "the sender repeated an id"
        lost = tuple(message_id for message_id in acknowledged if message_id not in received)
        return Balance(len(acknowledged), len(received), lost, sum(received.values()) - len(received))

    def settled(self) -> Balance:
        """Wait until nothing acknowledged is missing any more (or time is up) and return the balance."""
        wait_until(lambda: self.received >= self.acknowledged, SETTLE_SECONDS, "as many deliveries as acknowledgements")
        try:
            wait_until(lambda: not self.balance().lost, SETTLE_SECONDS)
        except AssertionError:
            pass  # the balance tells what is missing
        return self.balance()


def _program(name: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, str(PROGRAMS / name), *arguments])


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
