"""The ledger outside the system: what clients had acknowledged, what a receiver got, and the two joined at the end."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from hookline.bench.machine import wait_until
from hookline.bench.service import free_port

SETTLE_SECONDS = 300.0
EXPLAINED_SECONDS = 30.0


@dataclass(frozen=True)
class Balance:
    """The files joined: ``expected`` is each acknowledged event once per receiver, ``duplicates`` what came beyond."""

    expected: int
    delivered: int
    lost: tuple[str, ...]
    duplicates: int

    @property
    def duplicate_share(self) -> float:
        """Duplicates per expected delivery."""
        return self.duplicates / max(1, self.expected)

    def __str__(self) -> str:
        return (
            f"expected {self.expected:,}, delivered {self.delivered:,}, lost {len(self.lost)}, "
            f"duplicates {self.duplicates} ({self.duplicate_share:.4%})"
        )


class Sink:
    """One healthy receiver, a process of its own that writes down what it gets."""

    def __init__(self, log: Path) -> None:
        port = free_port()
        self.port = port
        self.url = f"http://127.0.0.1:{port}/hook"
        self._log = log
        self._last = log.with_name(f"{log.name}-last")
        log.touch()
        self._last.touch()
        self._lines = _Lines(log)
        self._process = _program("sink", str(port), str(log), str(self._last))

    @property
    def received(self) -> int:
        """How many requests it got so far, duplicates included."""
        return self._lines.count()

    def arrivals(self) -> list[tuple[str, float]]:
        """What it got, in order: ids, and when they came (seconds of the monotonic clock)."""
        words = self._log.read_text().split()
        return list(zip(words[::2], map(float, words[1::2]), strict=True))

    def counts(self) -> Counter[str]:
        """How often it got each id."""
        return Counter(self._log.read_text().split()[::2])

    def unexplained(self) -> set[str]:
        """What it got more than once although another request followed on the same connection each time.

        A request follows only when the answer before it was taken note of. So a crash may repeat the last request of
        each connection that it cut, and nothing else.
        """
        last = Counter(self._last.read_text().split())
        return {message_id for message_id, count in self.counts().items() if count - 1 > last[message_id]}

    def hang(self) -> None:
        """Stop the process: connections are taken by the kernel, nothing is answered."""
        self._process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        """Let it go on; idempotent."""
        self._process.send_signal(signal.SIGCONT)

    def fail(self) -> None:
        """Answer 503 from now on."""
        self._process.send_signal(signal.SIGUSR1)

    def recover(self) -> None:
        """Take requests again; idempotent."""
        self._process.send_signal(signal.SIGUSR2)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


class Ledger:
    """A context manager that runs the receivers, and the sender between ``start_load`` and ``stop_load``."""

    def __init__(self, folder: Path, receivers: int = 1) -> None:
        self._folder = folder
        self._acknowledged = folder / "acknowledged"
        self._lines = _Lines(self._acknowledged)
        self._count = receivers
        self._load: subprocess.Popen[bytes] | None = None
        self.sinks: list[Sink] = []

    def __enter__(self) -> Ledger:
        self._acknowledged.touch()
        self.sinks = [Sink(self._folder / f"received-{n}") for n in range(self._count)]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kill_load()
        for sink in self.sinks:
            sink.close()

    @property
    def acknowledged(self) -> int:
        """How many events were acknowledged so far."""
        return self._lines.count()

    def _progress(self) -> int:
        return sum(sink.received for sink in self.sinks)

    @property
    def _fewest_received(self) -> int:
        return min(sink.received for sink in self.sinks)

    def start_load(self, port: int, events_per_second: int = 2_000, padding_bytes: int = 100) -> None:
        """Send to the collection port from now on, in place of a sender that a failed test left behind."""
        self._kill_load()
        self._load = _program("sender", str(port), str(self._acknowledged), str(events_per_second), str(padding_bytes))

    def stop_load(self) -> None:
        """Let the sender finish what it began: afterwards every id it ever sent is acknowledged."""
        assert self._load is not None
        if self._load.poll() is not None:
            raise RuntimeError("the sender died")
        self._load.send_signal(signal.SIGTERM)
        if self._load.wait(90) != 0:
            raise RuntimeError("the sender failed")

    def more(self, count: int, seconds: float = 60.0) -> None:
        """Wait until that many further events were acknowledged."""
        wanted = self.acknowledged + count
        wait_until(lambda: self.acknowledged >= wanted, seconds, f"{count} further acknowledgements")

    def balance(self) -> Balance:
        """Join the files as they are now."""
        acknowledged = self.acknowledged_ids()
        assert len(acknowledged) == len(set(acknowledged)), "the sender repeated an id"
        every = [sink.counts() for sink in self.sinks]
        return Balance(
            expected=len(acknowledged) * len(every),
            delivered=sum(map(len, every)),
            lost=tuple(f"{i} at {n}" for n, counts in enumerate(every) for i in acknowledged if i not in counts),
            duplicates=sum(sum(counts.values()) - len(counts) for counts in every),
        )

    def acknowledged_ids(self) -> list[str]:
        """All that was acknowledged so far, in the order in which the sender learned of it."""
        return self._acknowledged.read_text().split()

    def settled(self, seconds: float = SETTLE_SECONDS, besides: Set[str] = frozenset()) -> Balance:
        """Wait until nothing acknowledged is missing any more, or nothing has come for ``seconds``: the balance then.

        What is missing of the ids ``besides`` is not waited for.
        """
        enough = len(besides) * len(self.sinks)

        def is_there() -> bool:
            lost = self.balance().lost
            return len(lost) <= enough and all(entry.partition(" ")[0] in besides for entry in lost)

        try:
            # Counting is cheaper than balancing: first as many, then each of them.
            wait_until(
                lambda: self._fewest_received >= self.acknowledged - len(besides),
                seconds,
                "as many requests as acknowledgements",
                self._progress,
            )
            wait_until(is_there, seconds, "each of them", self._progress)
        except TimeoutError:
            pass  # the balance tells what is missing
        return self.balance()

    def repeats_were_in_flight(self) -> bool:
        """Every duplicate was the last request of a connection that was cut."""
        return not any(sink.unexplained() for sink in self.sinks)

    def assert_repeats_were_in_flight(self) -> None:
        """Every duplicate was on the wire when a process was killed; the sinks may still be hearing of the cuts."""
        wait_until(self.repeats_were_in_flight, EXPLAINED_SECONDS, "duplicates were in flight")

    def _kill_load(self) -> None:
        if self._load is not None and self._load.poll() is None:
            self._load.kill()
            self._load.wait()


class _Lines:
    """Counts the lines of a file that grows; reads each of them once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._place = self._found = 0

    def count(self) -> int:
        with self._path.open("rb") as file:
            file.seek(self._place)
            for block in iter(lambda: file.read(1 << 20), b""):
                self._found += block.count(b"\n")
                self._place += len(block)
        return self._found


def _program(name: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-P", str(Path(__file__).with_name(f"{name}.py")), *arguments])
