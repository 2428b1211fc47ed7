"""The load generator against the benchmark's own receiver: nothing is miscounted."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from hookline.bench.event import EVENT_BYTES, Ledger, Requests, event
from hookline.bench.load import Result, percentiles
from hookline.bench.receiver import DUPLICATES, RECEIVED, UNNUMBERED
from hookline.bench.service import free_port
from tests.service.waiting import wait_until

CAPACITY = 100_000


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[int]:
    """The benchmark's receiver as a process; its port."""
    port = free_port()
    Ledger(tmp_path / "arrivals", CAPACITY)
    Ledger(tmp_path / "accepted", CAPACITY)
    command = [sys.executable, "-m", "hookline.bench.receiver", str(port), str(tmp_path / "arrivals"), "secret"]
    process = subprocess.Popen(command)
    wait_until(lambda: _answers(port), what="the receiver answers")
    yield port
    process.kill()
    process.wait()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def load(folder: Path, **options: object) -> Result:
    """Run the load generator to its end."""
    paths = {"accepted": str(folder / "accepted"), "arrivals": str(folder / "arrivals")}
    command = [sys.executable, "-m", "hookline.bench.load", json.dumps({**paths, **options})]
    done = subprocess.run(command, capture_output=True, check=True, timeout=120)
    return msgspec.json.decode(done.stdout, type=Result)


@pytest.mark.parametrize("batch", [0, 1, 100])
def test_requests_are_whole_and_numbered(batch: int) -> None:
    """Every request has the length it claims and events with distinct, consecutive ids."""
    head, _, body = Requests("127.0.0.1:1", batch).request(41).partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    document = json.loads(body)
    events = document["batch"] if batch else [document]
    assert [item["messageId"] for item in events] == [f"bench-{41 + i:010d}" for i in range(max(1, batch))]
    assert len(event(41)) == EVENT_BYTES


def test_a_batch_holds_events_of_many_people_where_they_are_asked_for() -> None:
    head, _, body = Requests("127.0.0.1:1", 100, people=100_000).request(41).partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    events = json.loads(body)["batch"]
    assert [item["messageId"] for item in events] == [f"bench-{41 + i:010d}" for i in range(100)]
    assert len({item["userId"] for item in events}) == 100
    assert {len(item["userId"]) for item in events} == {len("user-83115")}


def test_a_closed_loop_counts_every_answer(receiver: int, tmp_path: Path) -> None:
    """What the generator counts as accepted is what the receiver took, each request once."""
    result = load(tmp_path, port=receiver, connections=4, first=1, seconds=0.5, events_max=2_000)
    ledger = Ledger(tmp_path / "arrivals")
    assert result.accepted == result.sent == ledger.counters[RECEIVED] > 0
    assert ledger.counters[UNNUMBERED] == result.sent  # only Hookline writes X-Message-Id
    accepted = Ledger(tmp_path / "accepted").times
    assert all(accepted[1 : result.sent + 1])
    assert not accepted[result.sent + 1]


def test_an_open_loop_keeps_its_rate(receiver: int, tmp_path: Path) -> None:
    """Requests become due at the rate asked for, never sooner, and none is forgotten."""
    result = load(tmp_path, port=receiver, connections=8, first=1, seconds=60.0, events_max=500, rate=500.0)
    assert result.accepted == result.sent >= 500
    assert result.seconds >= 499 / 500.0


def test_the_receiver_counts_repeats(receiver: int, tmp_path: Path) -> None:
    """A message that arrives twice is one arrival and one duplicate."""
    for _ in range(2):
        connection = http.client.HTTPConnection("127.0.0.1", receiver, timeout=30)
        connection.request("POST", "/", b"{}", {"X-Message-Id": "bench-0000000007"})
        assert connection.getresponse().status == 200
        connection.close()
    ledger = Ledger(tmp_path / "arrivals")
    assert (ledger.counters[RECEIVED], ledger.counters[DUPLICATES]) == (2, 1)
    assert ledger.times[7] > 0


def test_percentiles_of_known_values() -> None:
    """The figures are those of the sorted values."""
    assert percentiles([float(value) for value in range(1000, -1, -1)]) == (500.0, 990.0, 999.0, 1000.0)
    assert percentiles([]) == (0.0, 0.0, 0.0, 0.0)
