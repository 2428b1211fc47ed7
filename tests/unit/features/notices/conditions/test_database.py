"""A database that cannot be used, as notices tell of it."""

from __future__ import annotations

from hookline.database.outages import Outages
from hookline.database.sqlite import DatabaseAway
from hookline.features.notices.conditions.machine import DatabaseOutages
from tests.unit.features.notices.conditions.moments import moment, report, strong

LOCKED = {"hookline_deliver_database_trouble": {"kind": {"locked": 1, "read_only": 1}}}


def test_a_role_in_trouble_is_named_with_what_it_meets() -> None:
    """As long as it reports it; one that does not report any more is told of otherwise, one that is away afterwards."""
    condition = DatabaseOutages(Outages())
    (found,) = condition.findings(moment(report("deliver", **LOCKED)))
    assert (found.kind, found.subject, found.detail) == ("database_unusable", "deliver", "locked, read-only")
    assert condition.findings(moment(report("deliver", fresh=False, **LOCKED))) == []
    away = {"hookline_deliver_database_trouble": {"kind": {"away": 1}}}
    assert condition.findings(moment(report("deliver", **away))) == []


def test_an_outage_is_told_once_when_it_is_over() -> None:
    """Nothing can be written down while it lasts."""
    outages = Outages()
    condition = DatabaseOutages(outages)
    outages.begin(DatabaseAway("no answer"))
    assert outages.is_away
    assert condition.findings(moment()) == []
    outages.end(is_back=True)
    assert strong(condition.findings(moment())) == [("database_was_away", "PostgreSQL")]
    assert condition.findings(moment()) == []
