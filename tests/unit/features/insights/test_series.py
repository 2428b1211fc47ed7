"""The series as control gathers and answers them: no spike at a restart, causes of failures, top failing."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hookline.database.open import open_deliver
from hookline.features.fleet.metrics import RoleMetrics
from hookline.features.insights.service import SeriesWatch, series_store
from hookline.insights.series import SeriesLog, SeriesStore
from hookline.telemetry.time_buckets import DestinationCounts, TimeBucket, time_bucket_of, write_time_buckets
from tests.unit.control.running import Running, destination, source


class Watched:
    """A watch over reports that the test writes."""

    def __init__(self, folder: Path) -> None:
        (folder / "run").mkdir()
        self.folder = folder
        self.now = time.time() // 60 * 60
        self.begin_anew()

    def begin_anew(self) -> None:
        """Control restarts."""
        self.store = SeriesStore(self.folder / "insights.db")
        self.log = SeriesLog(self.folder / "insights.db")
        metrics = RoleMetrics(self.folder, clock=time.time)
        self.watch = SeriesWatch(self.folder, self.store, metrics, clock=lambda: self.now)

    def collect(self, accepted: int, started: float = 1.0, seconds: float = 5.0) -> None:
        """Collect has counted so much; then a look is taken."""
        values = {"process_start_time_seconds": started, "hookline_collect_accepted_total": accepted}
        (self.folder / "run" / "metrics-collect.json").write_text(json.dumps(values))
        self.now += seconds
        self.watch.run_once()

    def accepted(self) -> float:
        """What the series say was accepted in all."""
        values = self.log.totals("1h", int(self.now) + 60).values["accepted"]
        return sum(value for value in values if value is not None)


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    """A watch over an empty folder."""
    return Watched(tmp_path)


def test_a_look_ends_before_the_watch(watched: Watched) -> None:
    """Whoever cancels the watch closes its database next, which a thread that still used it would not survive."""
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def now() -> float:
        begun.set()
        may_end.wait(60)
        ended.set()
        return watched.now

    async def cancel_in_a_look() -> None:
        metrics = RoleMetrics(watched.folder, clock=time.time)
        watch = asyncio.create_task(SeriesWatch(watched.folder, watched.store, metrics, clock=now).run_forever())
        await asyncio.to_thread(begun.wait, 60)
        watch.cancel()
        asyncio.get_running_loop().call_later(0.1, may_end.set)
        with pytest.raises(asyncio.CancelledError):
            await watch
        assert ended.is_set()

    asyncio.run(cancel_in_a_look())


def test_restarts_make_no_spike(watched: Watched) -> None:
    """What collect counted before the first look is left out; what it counted since it began anew is not."""
    watched.collect(1_000_000)
    watched.collect(1_000_010)
    assert watched.accepted() == 10
    watched.collect(7, started=2.0)
    assert watched.accepted() == 17
    watched.begin_anew()
    watched.collect(507, started=2.0)
    watched.collect(508, started=2.0)
    assert watched.accepted() == 18


def test_a_long_sleep_is_a_gap(watched: Watched) -> None:
    """What came while nobody looked is not put into the moment of the next look."""
    watched.collect(10)
    watched.collect(5_000, seconds=3_600)
    assert watched.accepted() == 0


def test_each_slot_of_deliver_counts_once(watched: Watched) -> None:
    """Looks overlap and control restarts; a time bucket is taken in once, and a clock that was set back does not end
    it."""
    at = time_bucket_of(int(watched.now * 1000)) - 20
    write_time_buckets(watched.folder / "run", [TimeBucket(at=at, delivered=5)])
    watched.watch.run_once()
    watched.begin_anew()
    write_time_buckets(watched.folder / "run", [TimeBucket(at=at, delivered=5), TimeBucket(at=at + 10, delivered=6)])
    watched.watch.run_once()
    known = [value for value in watched.log.totals("1h", int(watched.now) + 60).values["delivered"] if value]
    assert known == [5, 6]
    watched.now -= 7_200
    write_time_buckets(watched.folder / "run", [TimeBucket(at=at - 7_200, delivered=9)])
    watched.watch.run_once()
    assert watched.store.last_slot() == at - 7_200


ATTEMPT = (
    'INSERT INTO attempts (partition, "offset", lane, destination, number, url, at, outcome, http_status, error)'
    " VALUES (0, 0, 1, ?, 1, 'https://crm.example.com/hook', ?, ?, ?, ?)"
)


def fill(control: Running, *failures: tuple[str, int, str, int | None, str]) -> None:
    """Failed attempts as deliver writes them: destination, so many ms ago, outcome, status, answer."""
    now_ms = int(time.time() * 1000)
    connection = open_deliver(control.data_path / "deliver.db")
    connection.executemany(ATTEMPT, [(id, now_ms - ago, *rest) for id, ago, *rest in failures])
    connection.close()


def test_failures_are_grouped_by_cause(control: Running) -> None:
    """Most frequent first, each with the newest answer and its first and last time; older ones do not count."""
    control.api("POST", "/sources", source())
    control.api("POST", "/destinations", destination())
    fill(
        control,
        ("crm", 30_000, "server_error", 503, "old text"),
        ("crm", 20_000, "server_error", 503, "busy <b>"),
        ("crm", 10_000, "timed_out", None, "no answer within the time limit"),
        ("crm", 7_200_000, "refused", 404, "long ago"),
        ("other", 1_000, "refused", 400, "not mine"),
    )
    found = control.api("GET", "/destinations/crm/metrics").json
    assert [(each["outcome"], each["httpStatus"], each["count"], each["example"]) for each in found["errors"]] == [
        ("server_error", 503, 2, "busy <b>"),
        ("timed_out", None, 1, "no answer within the time limit"),
    ]
    assert found["errors"][0]["firstAt"] < found["errors"][0]["lastAt"]
    assert (found["errorsComplete"], found["state"], found["figures"]["queued"]) == (True, "healthy", 0)
    assert len(control.api("GET", "/destinations/crm/metrics?range=24h").json["errors"]) == 3


def test_the_api_answers_series_funnel_and_top_failing(control: Running) -> None:
    """What was recorded comes back under the names of the API."""
    control.api("POST", "/sources", source())
    control.api("POST", "/destinations", destination())
    counts = DestinationCounts(delivered=3, attempted=4, failures=2, not_delivered=1, response=[0, 3, *[0] * 11])
    at = time_bucket_of(int(time.time() * 1000)) - 10
    both = {"crm": counts, "deleted": msgspec.structs.replace(counts, failures=9)}
    series_store(control.services).add_time_buckets(
        [TimeBucket(at=at, delivered=3, latency=counts.response, destinations=both)]
    )
    series: dict[str, Any] = control.api("GET", "/metrics/series?destination=crm").json
    assert series["resolutionSeconds"] == 10
    assert series["series"]["notDelivered"][series["times"].index(at)] == 1
    assert series["series"]["responseP95Milliseconds"][series["times"].index(at)] == 1.9
    totals = control.api("GET", "/metrics/series?range=24h").json["series"]
    assert {"accepted", "lag", "latencyP50Milliseconds"} < set(totals)
    funnel = control.api("GET", "/destinations/crm/metrics").json["funnel"]
    assert funnel == {"accepted": 0, "filtered": 0, "attempted": 4, "delivered": 3, "failed": 1}
    failing = control.api("GET", "/metrics/failing?range=7d&limit=1").json["items"]
    assert failing == [{"id": "crm", "name": "CRM", "failures": 2, "notDelivered": 1, "delivered": 3}]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/metrics/series?range=2h", 400),
        ("/metrics/series?destination=nobody", 404),
        ("/metrics/failing?limit=51", 400),
        ("/destinations/nobody/metrics", 404),
        ("/destinations/nobody/metrics?range=x", 400),
    ],
)
def test_what_is_refused(asked: Running, path: str, status: int) -> None:
    """Ranges there are not, and things there are not."""
    assert asked.api("GET", path).status == status
