"""A control that waits for its turn: what it answers, and what it adds to the charts."""

from __future__ import annotations

import asyncio
import http.client
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from hookline.database.location import location_of
from hookline.features.fleet.service import machine_of
from hookline.features.fleet.standing_by import StandingBy
from hookline.insights.series import SeriesLog
from hookline.settings import Control, Database, Settings
from hookline.telemetry.metrics import publish
from hookline.telemetry.time_buckets import TIME_BUCKET_SECONDS, TimeBucket, write_time_buckets
from tests.postgres import PostgresServer
from tests.service.harness import free_port, wait_until

T = TypeVar("T")


@pytest.fixture
def settings(tmp_path: Path, postgres: PostgresServer) -> Iterator[Settings]:
    """A machine that shares its database with others."""
    (tmp_path / "run").mkdir()
    with postgres.database("hookline_template") as url:
        yield Settings(
            data_dir=str(tmp_path),
            control=Control(listen=f"127.0.0.1:{free_port()}"),
            database=Database(url=url),
        )


def while_standing_by(settings: Settings, work: Callable[[], T]) -> T:
    """Do something, in a thread, as long as it stands by."""

    async def run() -> T:
        async with StandingBy(settings):
            return await asyncio.to_thread(work)

    return asyncio.run(run())


def ask(settings: Settings, path: str, host: str = "localhost") -> tuple[int, str]:
    """Status and body of an answer."""
    connection = http.client.HTTPConnection(settings.control.listen, timeout=30)
    connection.request("GET", path, headers={"Host": host})
    answer = connection.getresponse()
    found = answer.status, answer.read().decode()
    connection.close()
    return found


def test_it_is_alive_and_not_ready_and_can_be_scraped(settings: Settings) -> None:
    """By its own names alone, but for the probes; nothing else is there."""
    publish(settings.data_path / "run", "deliver", {"hookline_deliver_delivered_total": 7})

    def look() -> dict[str, tuple[int, str]]:
        paths = ("/healthz", "/readyz", "/readyz?all", "/metrics", "/api/v1/sources", "/")
        found = {path: ask(settings, path) for path in paths}
        found["foreign"] = ask(settings, "/metrics", "evil.example")
        found["probe"] = ask(settings, "/healthz", "evil.example")
        return found

    found = while_standing_by(settings, look)
    assert {path: status for path, (status, _) in found.items()} == {
        "/healthz": 200,
        "/readyz": 503,
        "/readyz?all": 200,
        "/metrics": 200,
        "/api/v1/sources": 503,
        "/": 503,
        "foreign": 421,
        "probe": 200,
    }
    assert "hookline_deliver_delivered_total 7.0" in found["/metrics"][1]


def test_what_its_machine_delivers_is_in_the_charts(settings: Settings) -> None:
    """Slots that its deliver wrote are added, under this machine's number."""
    at = int(time.time()) // 60 * 60 - TIME_BUCKET_SECONDS  # of a minute that is over: the range shows whole ones
    write_time_buckets(settings.data_path / "run", [TimeBucket(at=at, delivered=5)])
    log = SeriesLog(location_of(settings, "insights"))

    def delivered() -> float:
        return sum(value for value in log.totals("24h", int(time.time())).values["delivered"] if value is not None)

    while_standing_by(settings, lambda: wait_until(lambda: delivered() == 5, what="the charts have it"))
    log.close()


def test_a_machine_keeps_its_number(settings: Settings, tmp_path: Path) -> None:
    """Made up once, and another one's is another; alone there is only one."""
    number = machine_of(settings)
    assert number > 1
    assert machine_of(settings) == number
    (tmp_path / "other").mkdir()
    assert machine_of(Settings(data_dir=str(tmp_path / "other"), database=settings.database)) != number
    assert machine_of(Settings(data_dir=str(tmp_path))) == 1
    assert [path.name for path in tmp_path.glob("*machine*")] == ["machine"]
