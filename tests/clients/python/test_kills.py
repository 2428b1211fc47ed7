"""kill -9 of clients, of the uploader and of the service: ``file`` with the uploader and the spool lose nothing.

``pytest tests/clients --client-cycles 100`` for the long run: so many clients are killed, and the service a fifth as
often.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline_client import Client
from hookline_client.uploader.exit_code import ExitCode
from tests.clients.spool import segments
from tests.service.harness import WRITE_KEY, Hookline, Receiver, wait_until, webhook

CLIENTS = 3
"""Alive at a time: boxes are adopted under the eyes of others."""
EVENTS_BEFORE_KILL = 100
DELAY_SECONDS_MAX = 0.1
MESSAGE_ID_BYTES = 36
DRAIN_SECONDS = 300.0
"""A bound that only a failure reaches."""
PROGRAM = Path(__file__).with_name("killed_client.py")
SEED = 4


class Fleet:
    """The clients and the uploader of one application, killed and started again."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.log, self.spool = folder / "app.log", folder / "spool"
        self.killed = Counter[str]()
        self._endpoint = f"http://127.0.0.1:{port}"
        self._stop = folder / "stop"
        self._random = random.Random(SEED)
        self._ledgers: list[Path] = []
        self._clients = [self._start_client() for _ in range(CLIENTS)]
        self._uploader = self._start_uploader()

    @property
    def promised(self) -> set[str]:
        """The messageIds that calls returned."""
        return {line for ledger in self._ledgers if ledger.exists() for line in ledger.read_text().splitlines()}

    def kill_client(self) -> None:
        """kill -9 of one client at a random moment of its work, and now and then of the uploader; start others."""
        victim, ledger = self._clients.pop(0)
        wait_until(
            lambda: ledger.exists() and ledger.stat().st_size > EVENTS_BEFORE_KILL * MESSAGE_ID_BYTES,
            what="a client at work",
        )
        time.sleep(self._random.uniform(0, DELAY_SECONDS_MAX))
        self._kill("client", victim)
        self._clients.append(self._start_client())
        if self._uploader.poll() is None and self._random.random() < 0.5:
            self._kill("uploader", self._uploader)
        if self._uploader.poll() is not None:
            assert self._uploader.returncode in (0, ExitCode.SET_ASIDE, ExitCode.LATER, -signal.SIGKILL)
            self._uploader = self._start_uploader()

    def end(self) -> None:
        """Let the clients end, then bring out what is left, as the next process and the next run do."""
        self._stop.touch()
        for client, _ in self._clients:
            assert client.wait(60) == 0
        self._uploader.wait(60)
        wait_until(self._is_uploaded, DRAIN_SECONDS, "the log uploaded")
        with Client(WRITE_KEY, endpoint=self._endpoint, spool=str(self.spool)) as last:
            last.flush(0)  # begins to look for boxes without an event of its own
            wait_until(lambda: not segments(self.spool), DRAIN_SECONDS, "all boxes adopted and empty")

    def kill_all(self) -> None:
        """At the end of a failed test."""
        for process in [*(client for client, _ in self._clients), self._uploader]:
            if process.poll() is None:
                process.kill()
            process.wait()

    def _is_uploaded(self) -> bool:
        return self._start_uploader().wait(60) in (0, ExitCode.SET_ASIDE) and not self.log.exists()

    def _start_client(self) -> tuple[subprocess.Popen[bytes], Path]:
        ledger = self.folder / f"ledger-{len(self._ledgers)}"
        self._ledgers.append(ledger)
        arguments = [self._endpoint, WRITE_KEY, self.log, self.spool, ledger, self._stop]
        return subprocess.Popen([sys.executable, str(PROGRAM), *map(str, arguments)]), ledger

    def _start_uploader(self) -> subprocess.Popen[bytes]:
        command = [str(Path(sys.executable).with_name("hookline-upload")), "--file", str(self.log)]
        environment = {**os.environ, "HOOKLINE_CLIENT_WRITE_KEY": WRITE_KEY}
        return subprocess.Popen(
            [*command, "--endpoint", self._endpoint, "--retry-for", "1"], env=environment, stderr=subprocess.DEVNULL
        )

    def _kill(self, name: str, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()
        self.killed[name] += 1


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    """A healthy receiver."""
    with Receiver() as running:
        yield running


@pytest.fixture(scope="module")
def hookline(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[Hookline]:
    """A service that forwards to the receiver; it lives through all of this."""
    with Hookline(tmp_path_factory.mktemp("hookline"), [webhook("crm", receiver.url())]) as running:
        yield running


@pytest.fixture
def fleet(tmp_path: Path, hookline: Hookline) -> Iterator[Fleet]:
    """Clients at work."""
    running = Fleet(tmp_path, hookline.collect_port)
    yield running
    running.kill_all()


@pytest.fixture
def cycles(request: pytest.FixtureRequest) -> int:
    """How many clients are killed."""
    return int(request.config.getoption("--client-cycles"))


class Arrivals:
    """How often each messageId came, counted as the requests come in."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._seen = 0
        self.times = Counter[str]()

    def wait_for(self, promised: set[str]) -> None:
        """Wait until all of these came."""
        wait_until(lambda: promised <= self._count().keys(), DRAIN_SECONDS, "all promised events at the receiver")

    def _count(self) -> Counter[str]:
        fresh = self._receiver.requests[self._seen :]
        self._seen += len(fresh)
        self.times.update(request.message_id for request in fresh)
        return self.times


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_killed_clients_lose_nothing_and_repeat_nothing(
    fleet: Fleet, hookline: Hookline, receiver: Receiver, cycles: int
) -> None:
    """Clients and uploader killed again and again: what a call promised arrives exactly once."""
    for _ in range(cycles):
        fleet.kill_client()
    fleet.end()
    promised, arrivals = fleet.promised, Arrivals(receiver)
    arrivals.wait_for(promised)
    repeats = hookline.metric("hookline_deliver_duplicates_total")
    print(
        f"\n{dict(fleet.killed)} killed; {len(promised):,} promised, 0 lost, {repeats:g} repeats removed by messageId"
    )
    assert {message_id: times for message_id, times in arrivals.times.items() if times > 1} == {}


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_a_killed_service_loses_nothing(fleet: Fleet, hookline: Hookline, receiver: Receiver, cycles: int) -> None:
    """The service killed as well: all that was promised arrives; what repeats was in flight when it was killed."""
    kills = max(2, cycles // 5)
    for _ in range(kills):
        fleet.kill_client()
        hookline.kill9()
        fleet.kill_client()
        hookline.start()
    fleet.end()
    promised, arrivals = fleet.promised, Arrivals(receiver)
    arrivals.wait_for(promised)
    repeated = sum(arrivals.times[message_id] - 1 for message_id in promised)
    print(f"\n{dict(fleet.killed)} killed, the service {kills} times; {len(promised):,} promised, 0 lost, ", end="")
    print(f"{repeated} of them in flight at a kill of the service and delivered again")
    assert repeated <= len(promised) // 10
