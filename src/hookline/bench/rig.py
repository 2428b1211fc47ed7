"""One measurement's parts together: service, receiver, ledgers and load generator, each in its own process."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from hookline.bench import machine, receiver
from hookline.bench.event import SECRET, Connections, Ledger, one_receiver
from hookline.bench.load import Result, Spec, percentiles
from hookline.bench.service import Service, free_port

EVENTS_MAX = 6_000_000
"""Numbers in one ledger; a measurement that could pass more ends early."""

BATCH = 100
BATCH_CONNECTIONS = 8
WINDOW = 20_000
"""Events under way end to end when saturated: enough never to run dry, few enough not to become a backlog."""

DRAIN_SECONDS = 60.0

Figures = dict[str, float]
"""Figure name (unit last) to value."""


class Delivered(msgspec.Struct, frozen=True):
    """Hold what the receiver saw of the accepted events."""

    accepted: int
    received: int
    lost: int
    duplicates: int
    wrong_signatures: int
    latency_seconds: tuple[float, float, float, float]
    """From the answer to the batch until the event arrived: p50, p99, p99.9, maximum."""


class Rig:
    """A started service with the benchmark's receiver as its destination (unless another port is given)."""

    def __init__(
        self,
        folder: Path,
        receiver_port: int | None = None,
        events_max: int = EVENTS_MAX,
        connections: Callable[[int], Connections] = one_receiver,
        settings: Mapping[str, str] | None = None,
        within: Sequence[str] = (),
    ) -> None:
        """``within``: a command that runs the service in surroundings of its own."""
        self.folder = folder
        self.port = receiver_port or free_port()
        self.service = Service(folder / "service", connections(self.port), settings=settings, within=within)
        self.events_max = events_max
        self.accepted = Ledger(folder / "accepted", events_max)
        self.arrivals = Ledger(folder / "arrivals", events_max)
        self._receiver: subprocess.Popen[bytes] | None = None
        self._next = 1

    def start_receiver(self, core: int | None = None, host: str = "127.0.0.1") -> None:
        """Start the receiver's process; it listens on ``host``."""
        self._receiver = subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "hookline.bench.receiver",
                str(self.port),
                str(self.folder / "arrivals"),
                SECRET,
                host,
            ]
        )
        machine.pin(self._receiver.pid, core)

    def pin_service(self, core: int | None) -> dict[str, int]:
        """Keep every role on one core (None: on all) and return the process ids."""
        processes = self.service.processes()
        for pid in processes.values():
            machine.pin(pid, core)
        return processes

    def load(self, *, core: int | None = None, **options: object) -> Result:
        """Run the load generator to its end; numbers go on where the last run stopped."""
        process = self.start_load(core=core, **options)
        output, _ = process.communicate()
        return self.loaded(output)

    def start_load(self, *, core: int | None = None, **options: object) -> subprocess.Popen[bytes]:
        """Start the load generator; hand its output to ``loaded``."""
        spec = msgspec.convert(
            {
                "port": self.service.collect_port,
                "first": self._next,
                "events_max": self.events_max - self._next,
                "accepted": str(self.folder / "accepted"),
                "arrivals": str(self.folder / "arrivals"),
                **options,
            },
            Spec,
        )
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "hookline.bench.load", msgspec.json.encode(spec).decode()],
            stdout=subprocess.PIPE,
        )
        machine.pin(process.pid, core)
        return process

    def loaded(self, output: bytes) -> Result:
        """Return the result of a load generator that has ended."""
        result = msgspec.json.decode(output, type=Result)
        self._next += result.sent
        if result.first_refusal is not None:
            print(f"{result.refused} requests were refused, the first with:\n{result.first_refusal}", file=sys.stderr)
        return result

    def saturate(self, seconds: float, events_max: int | None = None, people: int = 1) -> tuple[Result, float]:
        """As many events as it takes, until the last has arrived: the result, and how many arrived a second."""
        before, began = self.received(), time.monotonic()
        options = {"people": people} if events_max is None else {"people": people, "events_max": events_max}
        result = self.load(connections=BATCH_CONNECTIONS, seconds=seconds, batch=BATCH, window=WINDOW, **options)
        self.drain(self.next_number - 1)
        arrivals = [at for at in self.arrivals.times[before + 1 : self.next_number].tolist() if at]
        return result, len(arrivals) / (max(arrivals) - began) if arrivals else 0.0

    def received(self) -> int:
        """Return how many requests have reached the receiver."""
        return int(self.arrivals.counters[receiver.RECEIVED])

    def drain(self, expected: int) -> None:
        """Wait until the receiver has had that many requests, or none has come for a while."""
        seen, since = self.received(), time.monotonic()
        while seen < expected and time.monotonic() - since < DRAIN_SECONDS:
            time.sleep(0.05)
            if self.received() != seen:
                seen, since = self.received(), time.monotonic()
        time.sleep(0.3)  # duplicates would come now

    def delivered(self, batch: int, first: int = 1) -> Delivered:
        """Join the ledgers: what was accepted from number ``first`` on against what arrived."""
        accepted = lost = 0
        latencies: list[float] = []
        for start in range(first, self._next, batch):
            at = self.accepted.times[start]
            if not at:
                continue
            arrivals = self.arrivals.times[start : start + batch].tolist()
            accepted += batch
            lost += sum(not arrival for arrival in arrivals)
            latencies.extend(max(0.0, arrival - at) for arrival in arrivals if arrival)
        return Delivered(
            accepted=accepted,
            received=self.received(),
            lost=lost,
            duplicates=int(self.arrivals.counters[receiver.DUPLICATES]),
            wrong_signatures=int(self.arrivals.counters[receiver.WRONG_SIGNATURE]),
            latency_seconds=percentiles(latencies),
        )

    @property
    def next_number(self) -> int:
        """Return the first event number not yet used."""
        return self._next

    def stop(self) -> None:
        """End everything."""
        self.service.stop()
        if self._receiver is not None:
            self._receiver.kill()
            self._receiver.wait()


@contextmanager
def rig(
    receiver_port: int | None = None,
    events_max: int = EVENTS_MAX,
    connections: Callable[[int], Connections] = one_receiver,
    settings: Mapping[str, str] | None = None,
    within: Sequence[str] = (),
) -> Iterator[Rig]:
    """A rig in a temporary folder, started, and gone afterwards; ``connections`` are those for a receiver's port."""
    with TemporaryDirectory(prefix="hookline-bench-") as folder:
        made = Rig(Path(folder), receiver_port, events_max, connections, settings, within)
        try:
            made.service.start()
            yield made
        finally:
            made.stop()
