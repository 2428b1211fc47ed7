"""The comparison with job queues, as far as it goes without them."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench import job_queues
from bench.__main__ import main
from bench.job_queues import Missing, all_peers, deliveries_per_second

from hookline.bench.event import Ledger, event
from hookline.bench.receiver import RECEIVED


def test_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a Redis server nothing is measured, and the exit code says so."""
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Missing, match="apt-get install redis-server"):
        deliveries_per_second(all_peers()[0], 1.0, full_queue=True)
    assert main(["compare", "--seconds", "1"]) == 1
    assert "redis-server" in capsys.readouterr().err


def test_the_peers_send_the_benchmarks_own_events() -> None:
    """The event they are given becomes, number for number, the one Hookline is measured with."""
    for peer in all_peers():
        template = job_queues._environment(peer, 1, 2)["PEER_EVENT"]
        assert [(template % number).encode() for number in (1, 4_711)] == [event(1), event(4_711)]


def test_a_peer_that_delivers_nothing_is_no_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What its workers had to say is shown instead."""
    monkeypatch.setattr(job_queues, "START_WAIT_SECONDS", 0.0)
    (tmp_path / "log").write_text("no such broker")
    with pytest.raises(RuntimeError, match="no such broker"):
        job_queues._rate(Ledger(tmp_path / "arrivals", 10), 10, 1.0, tmp_path)


def test_an_empty_queue_ends_the_measuring(tmp_path: Path) -> None:
    """When every job has arrived there is nothing more to wait for."""
    ledger = Ledger(tmp_path / "arrivals", 10)
    ledger.counters[RECEIVED] = 10
    assert job_queues._rate(ledger, 10, 3_600.0, tmp_path) == 0.0
