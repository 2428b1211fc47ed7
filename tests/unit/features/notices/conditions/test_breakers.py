"""Open breakers, and pauses."""

from __future__ import annotations

import pytest

from hookline.connections.model import LaneConfig, Pause
from hookline.connections.state import Stored
from hookline.database.location import DatabaseLocation
from hookline.features.notices.conditions.destinations import Breakers, Pauses
from hookline.features.notices.conditions.finding import Moment
from hookline.settings import Settings
from tests.unit.conftest import LocationOf
from tests.unit.connections.examples import destination
from tests.unit.features.notices.conditions.moments import NOW_MS, deliver_db, moment, notice, report, strong

KEY = ("destination_breaker_open", "crm")


@pytest.fixture
def location(location_of: LocationOf) -> DatabaseLocation:
    """Where deliver's database is."""
    return location_of("deliver")


def opened(*ids: str) -> dict[str, object]:
    """What deliver reports while these breakers are open."""
    return {"hookline_deliver_breaker_open": {"destination": dict.fromkeys(ids, 1)}}


def attempt(location: DatabaseLocation, offset: int, status: int | None, outcome: str) -> None:
    """Write a failed attempt as deliver does."""
    connection = deliver_db(location)
    connection.execute(
        'INSERT INTO attempts (partition, "offset", lane, destination, number, at, outcome, http_status)'
        " VALUES (0, ?, 1, 'crm', 1, 0, ?, ?)",
        (offset, outcome, status),
    )
    connection.close()


def test_a_breaker_is_told_of_when_it_stays_open(location: DatabaseLocation) -> None:
    """Before the threshold nothing is found; after it the destination with its last failure."""
    attempt(location, 5, 503, "server_error")
    breakers = Breakers(location, 300, Settings())
    assert breakers.findings(moment(report("deliver", **opened("crm")), "crm")) == ()
    later = moment(report("deliver", **opened("crm")), "crm", now_ms=NOW_MS + 300_000)
    (finding,) = breakers.findings(later) or ()
    assert (finding.kind, finding.subject) == ("destination_breaker_open", "crm")
    assert "server error 503" in finding.detail
    breakers.close()


def test_a_secret_that_is_not_there_is_the_reason(location: DatabaseLocation) -> None:
    """No attempt is made then, and none can be looked at: an older failure is not why."""
    attempt(location, 5, 503, "server_error")
    breakers = Breakers(location, 300, Settings())
    unusable = Stored(destination(secret="env:HOOKLINE_SECRET_NOT_THERE"), 1, None, LaneConfig(number=1, sources={}))
    for now_ms in (NOW_MS, NOW_MS + 300_000):
        found = breakers.findings(Moment(now_ms, report("deliver", **opened("crm")), [unusable]))
    (finding,) = found or ()
    assert "HOOKLINE_SECRET_NOT_THERE is not set" in finding.detail
    assert "503" not in finding.detail
    breakers.close()


def test_a_breaker_that_closes_counts_anew(location: DatabaseLocation) -> None:
    """Two short outages do not add up to a long one."""
    breakers = Breakers(location, 300, Settings())
    for at, ids in ((0, ["crm"]), (200_000, []), (250_000, ["crm"]), (400_000, ["crm"])):
        found = breakers.findings(moment(report("deliver", **opened(*ids)), "crm", now_ms=NOW_MS + at))
    assert strong(found) == []


@pytest.mark.parametrize("back_ms", [60_000, 3_600_000])
def test_a_clock_that_is_set_back_ends_no_outage(location: DatabaseLocation, back_ms: int) -> None:
    """While the breaker is open its notice stays; and one that is not open yet waits no longer than it had to."""
    breakers = Breakers(location, 300, Settings())
    reported = report("deliver", **opened("crm"))
    breakers.findings(moment(reported, "crm"))
    assert strong(breakers.findings(moment(reported, "crm", now_ms=NOW_MS + 300_000))) == [KEY]
    later = moment(reported, "crm", now_ms=NOW_MS + 301_000 - back_ms, notices={KEY: notice()})
    assert strong(breakers.findings(later)) == [KEY]


def test_an_outage_is_told_although_the_clock_was_set_back(location: DatabaseLocation) -> None:
    """By hours: nobody waits until it has come so far again."""
    breakers = Breakers(location, 300, Settings())
    for now_ms, found in ((NOW_MS, []), (NOW_MS - 7_200_000, [KEY])):
        assert strong(breakers.findings(moment(report("deliver", **opened("crm")), "crm", now_ms=now_ms))) == found


def test_a_pause_is_told_otherwise(location: DatabaseLocation) -> None:
    """One notice about one destination is enough."""
    later = moment(report("deliver", **opened("crm")), "crm", paused=Pause(since=NOW_MS), now_ms=NOW_MS + 900_000)
    assert Breakers(location, 0.001, Settings()).findings(later) == ()


def test_who_paused_it_makes_the_kind() -> None:
    """A person's pause is no alarm; Hookline's own is, with its reason."""
    by_person = moment(None, "crm", paused=Pause(since=NOW_MS, reason="moving house"))
    by_hookline = moment(None, "crm", paused=Pause(since=NOW_MS, reason="410 Gone", by="hookline"))
    found = [Pauses().findings(each)[0] for each in (by_person, by_hookline)]
    assert [each.kind for each in found] == ["destination_paused", "destination_gone"]
    assert [each.detail.partition("Z: ")[2] for each in found] == ["moving house", "410 Gone"]
    assert Pauses().findings(moment(None, "crm")) == []


def test_a_restart_keeps_what_was_open(location: DatabaseLocation) -> None:
    """With a notice open, the breaker is known to have been open for the threshold before it."""
    notices = {KEY: notice()}
    reported = report("deliver", **opened("crm"))
    found = Breakers(location, 300, Settings()).findings(moment(reported, "crm", notices=notices))
    assert strong(found) == [KEY]


def test_without_a_report_nothing_can_be_told(location: DatabaseLocation) -> None:
    """While deliver is away, breakers are neither open nor closed."""
    assert Breakers(location, 300, Settings()).findings(moment({}, "crm")) is None
    assert Breakers(location, 300, Settings()).findings(moment(report("deliver", fresh=False), "crm")) is None


def test_a_disabled_destination_has_no_breaker(location: DatabaseLocation) -> None:
    """What deliver still reports of a lane that has ended does not count."""
    later = moment(report("deliver", **opened("gone")), "crm", now_ms=NOW_MS + 900_000)
    assert Breakers(location, 0.001, Settings()).findings(later) == ()
