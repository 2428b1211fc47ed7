"""The soak finds what it is there to find: what grows steadily, and what is lost; its receivers are bad in each way."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline.bench.event import Ledger, Requests
from hookline.bench.receiver import RECEIVED
from hookline.bench.service import free_port
from tests.faults.growth import MB, WARM_UP_SECONDS_MIN, Sample, grows, life, slope
from tests.faults.load import ROOT
from tests.faults.moody_receiver import MOOD, REPLAYED, Mood
from tests.faults.sender import BATCH_EVENTS, DUE
from tests.faults.soak import MOODY, lost_of
from tests.service.waiting import wait_until

HOUR_SECONDS = 3_600
EVERY_SECONDS = 10
SILENT_SECONDS = 0.3


def samples(mb_per_hour: float = 0.0, files_per_hour: float = 0.0, noise_mb: float = 0.0) -> list[Sample]:
    """Half an hour of a process that takes 40 MB at once and 20 more until it is warm."""
    chance = random.Random(1)
    found = []
    for at in range(0, HOUR_SECONDS // 2, EVERY_SECONDS):
        warm = min(1.0, at / WARM_UP_SECONDS_MIN) * 20
        pss = 40 + warm + mb_per_hour * at / HOUR_SECONDS + chance.uniform(-noise_mb, noise_mb)
        files = 30 + chance.choice([0, 1, 2]) + int(files_per_hour * at / HOUR_SECONDS)
        size = int(pss * MB)
        found.append(Sample(at=1_000.0 + at, own=size, pss=size, rss=size, files=files, threads=4))
    return found


def test_a_leak_is_seen_and_warming_up_and_noise_are_none() -> None:
    """3 MB an hour within 2 MB of noise; the 20 MB of the first minutes have no say."""
    assert life("deliver", samples(mb_per_hour=3.0, noise_mb=1.0)).slope_mb_per_hour == pytest.approx(3.0, abs=0.7)
    steady = life("deliver", samples(noise_mb=1.0))
    assert abs(steady.slope_mb_per_hour) < 0.7
    assert steady.pss_first_mb == pytest.approx(60.0, abs=1.0)
    assert not steady.files_grow


def test_a_single_peak_is_no_slope() -> None:
    """The median of all slopes; of one point there is none."""
    assert slope([(hour, 5.0 if hour != 9 else 500.0) for hour in range(10)]) == 0.0
    assert slope([(1.0, 5.0)]) == 0.0


def test_open_files_that_rise_steadily_grow_and_a_pool_does_not() -> None:
    """Twenty an hour; a pool that comes and goes, one whose busy moments have more each time, and one that took five
    more once do not."""
    leaking = life("collect", samples(files_per_hour=20.0))
    assert leaking.files_grow
    assert leaking.files_last > leaking.files_first
    assert not grows([30, 40] * 50)
    assert not grows([count for busy in range(60, 110, 10) for count in [50] * 5 + [busy] * 15])
    assert not grows([30] * 20 + [35] * 80)
    assert not grows([30, 31])


def test_what_is_missing_at_a_receiver_is_lost_if_it_was_its_own(tmp_path: Path) -> None:
    """Of 60 events one is missing at the healthy receiver and two of a moody one's six; nobody promised the last 20."""
    accepted, arrivals = Ledger(tmp_path / "accepted", 100), Ledger(tmp_path / "arrivals", 100)
    moody = {digit: Ledger(tmp_path / name, 100) for digit, name in MOODY.items()}
    accepted.counters[DUE] = 80
    for number in range(1, 61):
        accepted.times[number] = 1.0 if number % BATCH_EVENTS == 1 else 0.0
        arrivals.times[number] = 2.0
        for digit, ledger in moody.items():
            ledger.times[number] = 2.0 if number % 10 == digit else 0.0
    assert lost_of(accepted, arrivals, moody) == (60, {"receiver": 0, "moody-0": 0, "moody-5": 0})
    arrivals.times[42] = moody[5].times[15] = moody[5].times[55] = 0.0
    assert lost_of(accepted, arrivals, moody) == (60, {"receiver": 1, "moody-0": 0, "moody-5": 2})


class Moody:
    """A running moody receiver and its ledger."""

    def __init__(self, port: int, ledger: Ledger) -> None:
        self.port, self.ledger = port, ledger

    def answer(self, number: int, mood: Mood, more: bytes = b"") -> bytes:
        """What it answers to an event in this mood; nothing where it stays silent."""
        self.ledger.counters[MOOD] = mood
        headers = b"X-Message-Id: bench-%010d\r\n%bContent-Type:" % (number, more)
        request = Requests("localhost", 0).request(number).replace(b"Content-Type:", headers)
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(request)
            if mood is Mood.HANGING:
                connection.settimeout(SILENT_SECONDS)
            try:
                return connection.recv(65_536)
            except TimeoutError:
                return b""


@pytest.fixture
def moody(tmp_path: Path) -> Iterator[Moody]:
    """A process with one receiver."""
    port, path = free_port(), tmp_path / "ledger"
    ledger = Ledger(path, 100)
    command = [sys.executable, "-m", "tests.faults.moody_receiver", "secret", str(port), str(path)]
    with subprocess.Popen(command, cwd=ROOT) as process:
        wait_until(lambda: listens(port), what="it listens")
        yield Moody(port, ledger)
        process.kill()


def listens(port: int) -> bool:
    """Whether somebody takes connections."""
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def test_a_mood_comes_and_goes(moody: Moody) -> None:
    """Only what is answered 200 is written down: well, or slow; a replay is counted apart."""
    assert moody.answer(1, Mood.WELL).startswith(b"HTTP/1.1 200 ")
    assert moody.answer(2, Mood.FAILING).startswith(b"HTTP/1.1 500 ")
    assert b"\r\nRetry-After: " in moody.answer(3, Mood.THROTTLING)
    assert moody.answer(4, Mood.HANGING) == b""
    with pytest.raises(ConnectionResetError):
        moody.answer(5, Mood.RESETTING)
    assert moody.answer(6, Mood.SLOW).startswith(b"HTTP/1.1 200 ")
    assert moody.answer(7, Mood.WELL, b"X-Hookline-Replay: r1\r\n").startswith(b"HTTP/1.1 200 ")
    assert [number for number in range(1, 10) if moody.ledger.times[number]] == [1, 6]
    assert (moody.ledger.counters[REPLAYED], moody.ledger.counters[RECEIVED]) == (1, 2)
