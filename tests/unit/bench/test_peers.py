"""The peers report, as far as it goes without the peers: its pages are made of the figures that a run has recorded."""

from __future__ import annotations

import asyncio
import http.client
from pathlib import Path

import msgspec
import pytest
from bench.peers import report
from bench.peers.measure import Figures
from bench.peers.services import EVENT_BYTES, MARK, Calls, payload
from bench.peers.traffic import Scene

from hookline.bench.service import free_port

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "docs" / "reports" / "peers.json"
FIGURES = Figures(
    version="1.0.0",
    accepted_per_second=62_088.0,
    delivered_per_second=62_375.0,
    fast_accepted_per_second=276_355.0,
    fast_delivered_per_second=96_461.0,
    cpu_seconds_per_thousand=0.018,
    fast_cpu_seconds_per_thousand=0.011,
    p50_seconds=0.00042,
    p99_seconds=0.0018,
    idle_bytes=92 << 20,
    loaded_bytes=131 << 20,
    start_seconds=0.29,
    killed_accepted=5_000,
    killed_lost=0,
    killed_twice=3,
    straggler_seconds=0.0,
)


def test_pages_say_what_the_run_recorded() -> None:
    """The report, the README and the comparison are what the bench makes of the data that is kept beside the report."""
    found = msgspec.json.decode(DATA.read_bytes(), type=report.Summary)
    assert report.page(found).markdown() == DATA.with_suffix(".md").read_text()
    assert report.readme_table(found) in (ROOT / "README.md").read_text()
    assert report.comparison_table(found) in (ROOT / "docs" / "explanation" / "comparison.md").read_text()


def test_rounds_become_medians_and_a_kill_its_worst() -> None:
    """A slow round decides nothing; one lost event does, and a busy machine or an absent peer is said."""
    late = msgspec.structs.replace(FIGURES, accepted_per_second=9.0, killed_lost=1, killed_twice=7)
    rounds = [FIGURES, late, FIGURES]
    found = report.summarise({"hookline": rounds}, {}, seconds=8.0, busy_cores=1.5, flush_seconds=0.00004)
    assert "| Hookline | 62,088 | 62,375 | 0.018 | 0.42 / 1.8 ms | 1 / 3–7 |" in report.readme_table(found)
    page = report.page(found).markdown()
    assert "not quiet" in page
    assert "Not measured here, because no program was given: Svix, Outpost, Convoy." in page
    assert "not quiet" not in report.page(msgspec.structs.replace(found, busy_cores=0.1)).markdown()


def test_writing_again_changes_nothing(tmp_path: Path) -> None:
    """A table takes the place of the one before, and only that."""
    (tmp_path / "docs" / "explanation").mkdir(parents=True)
    for name in ("README.md", "docs/explanation/comparison.md"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    found = msgspec.json.decode(DATA.read_bytes(), type=report.Summary)
    report.write(found, tmp_path / "docs" / "reports" / "peers.md", tmp_path)
    for name in ("README.md", "docs/explanation/comparison.md", "docs/reports/peers.md", "docs/reports/peers.json"):
        assert (tmp_path / name).read_text() == (ROOT / name).read_text()
    with pytest.raises(RuntimeError, match="no table begins"):
        report.replaced("nothing", "| a |", "| b |\n")


def test_events_are_as_large_as_the_page_says() -> None:
    """Whatever their number."""
    assert len(payload()) == len(payload(b"0000000007")) == EVENT_BYTES
    assert payload().replace(MARK, b"0000000007") == payload(b"0000000007")


def test_every_event_is_sent_and_seen() -> None:
    """The paced callers send each number once, and the receiver, here in the service's place too, notes it."""

    async def steps() -> Scene:
        port = free_port()
        async with Scene(port) as scene:
            await scene.send(Calls(port, "/hook", {}, payload()), range(5, 105), 10_000.0)
            return scene

    found = asyncio.run(steps()).traffic
    assert set(found.sent) == set(found.accepted) == set(found.arrived) == set(range(5, 105))
    assert not found.missing()
    assert not found.twice()


def test_an_event_sent_twice_is_seen_as_such() -> None:
    """Also when its body comes in chunks."""

    async def steps() -> Scene:
        port = free_port()
        async with Scene(port) as scene:
            await asyncio.to_thread(_post_in_chunks, port)
            await asyncio.to_thread(_post_in_chunks, port)
            return scene

    assert asyncio.run(steps()).traffic.twice() == 1


def _post_in_chunks(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("POST", "/hook", iter([payload(b"0000000009")[:200], payload(b"0000000009")[200:]]), {})
    assert connection.getresponse().status == 200
    connection.close()
