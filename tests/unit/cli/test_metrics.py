"""`hookline metrics`: sums, where it fails, one destination, and the same as JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline.cli.admin_api import AdminApi, NotFound
from hookline.features.insights.cli import print_all, print_destination
from hookline.features.insights.service import series_store
from hookline.telemetry.time_buckets import DestinationCounts, TimeBucket, time_bucket_of
from tests.unit.control.running import TOKEN, Running, destination, source


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminApi]:
    """A server that has recorded one time bucket."""
    folder: Path = tmp_path_factory.mktemp("metrics") / "data"
    with Running(folder) as control:
        control.api("POST", "/sources", source())
        control.api("POST", "/destinations", destination())
        counts = DestinationCounts(delivered=1200, attempted=1201, failures=2, response=[0, 1200, *[0] * 11])
        at = time_bucket_of(int(time.time() * 1000)) - 20
        series_store(control.services).add_time_buckets(
            [TimeBucket(at=at, delivered=1200, destinations={"crm": counts}, lag=4)]
        )
        yield AdminApi(f"http://127.0.0.1:{control.port}", TOKEN)


def test_everything(admin: AdminApi, capsys: pytest.CaptureFixture[str]) -> None:
    """Sums over the range, what waits now, and who fails."""
    assert print_all(admin, "1h", as_json=False) == 0
    shown = capsys.readouterr().out
    assert "1,200 delivered" in shown
    assert "4 not yet routed" in shown
    assert "crm  2 requests failed" in shown
    print_all(admin, "24h", as_json=True)
    assert json.loads(capsys.readouterr().out)["failing"][0]["id"] == "crm"


def test_one_destination(admin: AdminApi, capsys: pytest.CaptureFixture[str]) -> None:
    """The way of its events and the response times; one that does not exist is said."""
    print_destination(admin, "crm", "1h", as_json=False)
    shown = capsys.readouterr().out
    assert "1,201 attempted, 1,200 delivered" in shown
    assert "p50 1.5 ms" in shown
    print_destination(admin, "crm", "1h", as_json=True)
    assert sum(value or 0 for value in json.loads(capsys.readouterr().out)["series"]["delivered"]) == 1200
    with pytest.raises(NotFound):
        print_destination(admin, "nobody", "1h", as_json=False)


def test_nothing_yet(control_of_nothing: AdminApi, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything was recorded it says so."""
    print_all(control_of_nothing, "1h", as_json=False)
    assert "nothing was recorded" in capsys.readouterr().out


@pytest.fixture
def control_of_nothing(tmp_path: Path) -> Iterator[AdminApi]:
    """A server on an empty data folder."""
    with Running(tmp_path / "data") as control:
        yield AdminApi(f"http://127.0.0.1:{control.port}", TOKEN)
