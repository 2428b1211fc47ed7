"""Time series: sums at every resolution, gaps that stay gaps, bounds, and percentiles out of buckets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hookline.database.connect import connect
from hookline.insights.series import DAY, HOUR, MINUTE, RESOLUTIONS, SeriesLog, SeriesStore, percentile
from hookline.telemetry.time_buckets import DestinationCounts, SourceCounts, TimeBucket
from tests.unit.conftest import LocationOf

NOW = 1_795_158_000
"""A full hour."""


@pytest.fixture
def store(location_of: LocationOf) -> Iterator[SeriesStore]:
    """An empty store."""
    made = SeriesStore(location_of("insights"))
    yield made
    made.close()


@pytest.fixture
def log(location_of: LocationOf) -> Iterator[SeriesLog]:
    """What reads it."""
    made = SeriesLog(location_of("insights"))
    yield made
    made.close()


def time_bucket(at: int, *, response: tuple[int, int] = (0, 3), **counts: int) -> TimeBucket:
    """A time bucket in which crm got what is given."""
    buckets = [0] * 13
    buckets[response[0]] = response[1]
    one = DestinationCounts(response=buckets, **counts)
    totals = {name: count for name, count in counts.items() if name not in ("attempted", "filtered")}
    return TimeBucket(
        at=at,
        response=buckets,
        latency=buckets,
        destinations={"crm": one},
        sources={"web": SourceCounts(5, 1)},
        **totals,
    )


def test_slots_add_up_at_every_resolution(store: SeriesStore, log: SeriesLog) -> None:
    """Six time buckets are six rows of ten seconds, and one row of each longer stretch with their sum and highest
    value."""
    store.add_time_buckets([time_bucket(NOW - 60 + 10 * n, delivered=n, waiting=n) for n in range(6)])
    fine = log.of_destination("crm", "1h", NOW)
    assert (fine.resolution, fine.values["delivered"][-6:]) == (10, [0, 1, 2, 3, 4, 5])
    minute = log.of_destination("crm", "24h", NOW)
    assert (minute.times[-1], minute.values["delivered"][-1], minute.values["waiting"][-1]) == (NOW - 60, 15, 5)
    for range_ in ("7d", "30d"):
        assert log.totals(range_, NOW).values["delivered"][-1] == 15


def test_machines_that_share_a_database_add_up(location_of: LocationOf, log: SeriesLog) -> None:
    """Each knows its own place, and of what waits the highest stays."""
    one, two = SeriesStore(location_of("insights"), 2), SeriesStore(location_of("insights"), 3)
    one.add_time_buckets([time_bucket(NOW - 10, delivered=3, waiting=1)])
    assert (one.last_slot(), two.last_slot()) == (NOW - 10, 0)
    two.add_time_buckets([time_bucket(NOW - 10, delivered=4, waiting=5)])
    found = log.of_destination("crm", "1h", NOW).values
    assert (found["delivered"][-1], found["waiting"][-1]) == (7, 5)
    one.close()
    two.close()


def test_where_nobody_looked_there_is_a_gap(store: SeriesStore, log: SeriesLog) -> None:
    """A time bucket that no role reported is null; one in which a destination had nothing to tell is 0."""
    store.add_time_buckets([time_bucket(NOW - 40, delivered=4), TimeBucket(at=NOW - 20, delivered=9, destinations={})])
    assert log.of_destination("crm", "1h", NOW).values["delivered"][-4:] == [4, None, 0, None]
    assert log.totals("1h", NOW).values["delivered"][-4:] == [4, None, 9, None]


def test_collect_and_deliver_fill_one_row(store: SeriesStore, log: SeriesLog) -> None:
    """What one of them did not report is unknown, and does not spoil what the other did."""
    store.add_accepted(NOW - 20, 7, 1)
    store.add_time_buckets([time_bucket(NOW - 20, delivered=4)])
    store.add_accepted(NOW - 20, 2, 0)
    store.add_accepted(NOW - 10, 3, 0)
    values = log.totals("1h", NOW).values
    assert [values[name][-2:] for name in ("accepted", "rejected", "delivered")] == [[9, 3], [1, 0], [4, None]]
    assert log.of_destination("crm", "1h", NOW).values["delivered"][-2:] == [4, None]


def test_the_place_goes_with_the_rows(store: SeriesStore) -> None:
    """The newest time bucket is remembered; a write that fails takes the place back too."""
    store.add_time_buckets([time_bucket(NOW - 20), time_bucket(NOW - 10)])
    assert store.last_slot() == NOW - 10
    with pytest.raises(Exception, match="type"):
        store.add_time_buckets([time_bucket(NOW, delivered={})])  # type: ignore[arg-type]
    assert store.last_slot() == NOW - 10


def test_old_rows_go(store: SeriesStore, location_of: LocationOf) -> None:
    """Each resolution is kept for its time, so that the file does not grow for ever."""
    store.add_time_buckets([time_bucket(NOW - 10 * number) for number in range(800)])
    store.drop_old(NOW)
    assert _finest(location_of) == {NOW - 10 * number for number in range(720)}


@pytest.mark.parametrize("jump", [40 * DAY, -40 * DAY, -NOW])
def test_a_clock_that_is_set_and_set_back_takes_nothing(store: SeriesStore, location_of: LocationOf, jump: int) -> None:
    """Neither what was there is old then, nor is what comes after it pushed out by what was written meanwhile."""
    there = {NOW - 10 * number for number in range(100)}
    meanwhile = {NOW + jump + 10 * number for number in range(100)}
    after = {NOW + 10 * number for number in range(1, 100)}
    for time_buckets, now in ((there, NOW), (meanwhile, max(meanwhile)), (after, max(after))):
        store.add_time_buckets([time_bucket(at) for at in sorted(time_buckets)])
        store.drop_old(now)
    assert _finest(location_of) == there | meanwhile | after


def _finest(location_of: LocationOf) -> set[int]:
    reading = connect(location_of("insights"), read_only=True)
    tables = ("total_series", "destination_series", "source_series")
    found = [{at for (at,) in reading.execute(f"SELECT at FROM {each} WHERE resolution = 10")} for each in tables]
    reading.close()
    assert found[0] == found[1] == found[2]
    return found[0]


def test_sums_and_sources(store: SeriesStore, log: SeriesLog) -> None:
    """A funnel is the sum over the range, the time bucket of this moment included."""
    store.add_time_buckets(
        [time_bucket(NOW - 2 * HOUR, delivered=100), time_bucket(NOW - 20, delivered=3, attempted=4), time_bucket(NOW)]
    )
    sums = log.sums("crm", "1h", NOW + 3)
    assert (sums.counts["delivered"], sums.counts["attempted"], sum(sums.response)) == (3, 4, 6)
    assert (log.accepted(("web", "app"), "1h", NOW + 3), log.accepted((), "1h", NOW)) == (10, 0)
    assert log.sums("nobody", "24h", NOW).counts["delivered"] == 0


def test_who_fails_most(store: SeriesStore, log: SeriesLog) -> None:
    """Most failures first, and nobody without any; who is gone takes nobody's place."""
    failing = {
        "a": DestinationCounts(failures=2),
        "b": DestinationCounts(failures=9, not_delivered=1),
        "c": DestinationCounts(),
    }
    store.add_time_buckets([TimeBucket(at=NOW - 20, destinations=failing)])
    found = log.top_failing("1h", NOW, 5, lambda id: True)
    assert [(each.destination, each.failures) for each in found] == [("b", 9), ("a", 2)]
    assert len(log.top_failing("30d", NOW, 1, lambda id: True)) == 1
    assert [each.destination for each in log.top_failing("1h", NOW, 1, lambda id: id != "b")] == ["a"]


@pytest.mark.parametrize("days", [1, 7, 30])
def test_what_a_long_time_came_to(store: SeriesStore, log: SeriesLog, days: int) -> None:
    """Rows of minutes are kept for a day: what is asked for longer is added up from those that are kept so long."""
    store.add_time_buckets([time_bucket(NOW - ago * HOUR - 10, delivered=1) for ago in range(31 * 24)])
    store.add_time_buckets([TimeBucket(at=NOW - ago * MINUTE) for ago in range(RESOLUTIONS[MINUTE] // MINUTE)])
    store.drop_old(NOW)
    assert log.recent(days * 24 * HOUR, NOW)["crm"].delivered in (days * 24, days * 24 + 1)


def test_before_the_first_slot(log: SeriesLog) -> None:
    """No file yet: every value is unknown, and every sum 0."""
    assert set(log.totals("1h", NOW).values["delivered"]) == {None}
    assert (log.top_failing("1h", NOW, 5, lambda id: True), log.sums("crm", "1h", NOW).counts["failures"]) == ([], 0)


@pytest.mark.parametrize(
    ("counts", "share", "expected"),
    [
        ([], 0.5, None),
        ([None] * 13, 0.5, None),
        ([10], 0.5, 0.5),
        ([0, 0, 0, 100], 0.5, 7.5),
        ([50, 50], 0.95, 1.9),
        ([0] * 12 + [1], 0.5, 5000.0),
    ],
)
def test_percentiles(counts: list[int | None], share: float, expected: float | None) -> None:
    """As if times lay evenly in their bucket; above the last bound it is at least that."""
    assert percentile(counts, share) == expected
