"""Open breakers, and receivers that are gone."""

from __future__ import annotations

from pathlib import Path

from hookline.control.conditions.breakers import Breakers
from tests.unit.control.conditions.moments import NOW_MS, deliver_db, moment, notice, report, strong


def opened(*ids: str) -> dict[str, object]:
    """What deliver reports while these breakers are open."""
    return {"hookline_deliver_breaker_open": {"destination": dict.fromkeys(ids, 1)}}


def attempt(data: Path, offset: int, status: int | None, outcome: str = "rejected", lane: int = 1) -> None:
    """Write a failed attempt as deliver does."""
    connection = deliver_db(data)
    connection.execute(
        'INSERT INTO attempts (partition, "offset", lane, destination, number, at, outcome, status)'
        " VALUES (0, ?, ?, 'crm', 1, 0, ?, ?)",
        (offset, lane, outcome, status),
    )
    connection.close()


def test_a_breaker_is_told_of_when_it_stays_open(tmp_path: Path) -> None:
    """Before the threshold nothing is found; after it the destination with its last failure."""
    attempt(tmp_path, 5, 503, "server_error")
    breakers = Breakers(tmp_path, 300)
    assert breakers.findings(moment(report("deliver", **opened("crm")), "crm")) == []
    later = moment(report("deliver", **opened("crm")), "crm", now_ms=NOW_MS + 300_000)
    (finding,) = breakers.findings(later) or ()
    assert (finding.kind, finding.subject) == ("destination_breaker_open", "crm")
    assert "server error 503" in finding.detail
    breakers.close()


def test_a_breaker_that_closes_counts_anew(tmp_path: Path) -> None:
    """Two short outages do not add up to a long one."""
    breakers = Breakers(tmp_path, 300)
    for at, ids in ((0, ["crm"]), (200_000, []), (250_000, ["crm"]), (400_000, ["crm"])):
        found = breakers.findings(moment(report("deliver", **opened(*ids)), "crm", now_ms=NOW_MS + at))
    assert strong(found) == []


def test_410_from_every_url_pauses_at_once(tmp_path: Path) -> None:
    """The kind is another, there is no threshold, and what probes meet later does not change it."""
    attempt(tmp_path, 5, 410)
    attempt(tmp_path, 5, 410)
    breakers = Breakers(tmp_path, 300)
    found = breakers.findings(moment(report("deliver", **opened("crm")), "crm"))
    assert strong(found) == [("destination_paused", "crm")]
    attempt(tmp_path, 6, None, "timed_out")
    found = breakers.findings(moment(report("deliver", **opened("crm")), "crm"))
    assert strong(found) == [("destination_paused", "crm")]


def test_410_from_one_of_two_urls_does_not(tmp_path: Path) -> None:
    """The other URL only failed: that is an ordinary outage."""
    attempt(tmp_path, 5, 410)
    attempt(tmp_path, 5, 503, "server_error")
    assert Breakers(tmp_path, 300).findings(moment(report("deliver", **opened("crm")), "crm")) == []


def test_a_restart_keeps_what_was_open(tmp_path: Path) -> None:
    """With a notice open, the breaker is known to have been open for the threshold before it."""
    notices = {("destination_breaker_open", "crm"): notice()}
    found = Breakers(tmp_path, 300).findings(moment(report("deliver", **opened("crm")), "crm", notices=notices))
    assert strong(found) == [("destination_breaker_open", "crm")]


def test_without_a_report_nothing_can_be_told(tmp_path: Path) -> None:
    """While deliver is away, breakers are neither open nor closed."""
    assert Breakers(tmp_path, 300).findings(moment({}, "crm")) is None
    assert Breakers(tmp_path, 300).findings(moment(report("deliver", fresh=False), "crm")) is None


def test_a_disabled_destination_has_no_breaker(tmp_path: Path) -> None:
    """What deliver still reports of a lane that has ended does not count."""
    later = moment(report("deliver", **opened("gone")), "crm", now_ms=NOW_MS + 900_000)
    assert Breakers(tmp_path, 0.001).findings(later) == ()
