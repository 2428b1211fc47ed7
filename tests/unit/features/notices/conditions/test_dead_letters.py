"""Dead letters growing."""

from __future__ import annotations

import pytest

from hookline.database.location import DatabaseLocation
from hookline.database.sqlite import OperationalError
from hookline.features.notices.conditions.destinations import DeadLetters
from tests.unit.conftest import LocationOf
from tests.unit.features.notices.conditions.moments import HOUR_MS, NOW_MS, deliver_db, moment, strong


@pytest.fixture
def location(location_of: LocationOf) -> DatabaseLocation:
    """Where deliver's database is."""
    return location_of("deliver")


def bury(location: DatabaseLocation, count: int, destination: str = "crm", at_ms: int = NOW_MS) -> None:
    """Write dead letters as deliver does."""
    connection = deliver_db(location)
    connection.executemany(
        'INSERT INTO dead_letters (lane, destination, partition, "offset", message_id, source, type, status, attempts,'
        " at) VALUES (1, ?, 0, 1, 'm', 'site', 'track', 'failed', 1, ?)",
        [(destination, at_ms)] * count,
    )
    connection.close()


def test_many_within_an_hour_are_told_with_their_number(location: DatabaseLocation) -> None:
    """What grows over several looks is added up; another destination's do not count. One is not written as several."""
    condition = DeadLetters(location, 10)
    bury(location, 4)
    assert condition.findings(moment(None, "crm", "erp")) == []
    bury(location, 7)
    bury(location, 4, "erp")
    (finding,) = condition.findings(moment(None, "crm", "erp")) or ()
    assert (finding.subject, finding.count, finding.weak) == ("crm", 11, False)
    assert finding.detail == "11 events not delivered in the last hour"
    bury(location, 1, "slow")
    (finding,) = DeadLetters(location, 1).findings(moment(None, "slow")) or ()
    assert finding.detail == "1 event not delivered in the last hour"


def test_half_as_many_keep_it_open(location: DatabaseLocation) -> None:
    """Around the threshold a notice does not come and go."""
    condition = DeadLetters(location, 10)
    bury(location, 6, at_ms=NOW_MS - HOUR_MS // 2)
    (finding,) = condition.findings(moment(None, "crm")) or ()
    assert finding.weak
    assert condition.findings(moment(None, "crm", now_ms=NOW_MS + HOUR_MS)) == []


def test_old_ones_do_not_count_after_a_restart(location: DatabaseLocation) -> None:
    """The first look reads the last hour and nothing before it."""
    bury(location, 20, at_ms=NOW_MS - 2 * HOUR_MS)
    bury(location, 10, "erp")
    assert strong(DeadLetters(location, 10).findings(moment(None, "crm", "erp"))) == [("dead_letters_growing", "erp")]


def test_what_a_breaker_took_back_does_not_count(location: DatabaseLocation) -> None:
    """Deliver makes waiting events again of what a rotated token burned; then there was no loss."""
    condition = DeadLetters(location, 10)
    bury(location, 12)
    connection = deliver_db(location)
    connection.execute("DELETE FROM dead_letters WHERE id > 2")
    connection.close()
    assert condition.findings(moment(None, "crm")) == []


def test_zero_turns_it_off_and_no_database_tells_nothing(bare_location_of: LocationOf) -> None:
    """Off is "nothing is the matter", a missing file is "cannot be told", half a file an error for the loop."""
    place = bare_location_of("deliver")
    assert DeadLetters(place, 10).findings(moment(None, "crm")) is None
    bury(place, 5)
    assert DeadLetters(place, 0).findings(moment(None, "crm")) == ()
    connection = deliver_db(place)
    connection.execute("DROP TABLE dead_letters")
    connection.close()
    with pytest.raises(OperationalError):
        DeadLetters(place, 10).findings(moment(None, "crm"))
