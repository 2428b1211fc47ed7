"""Silent sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from hookline.database.open import ensure
from hookline.features.notices.conditions.finding import Moment, OpenNotice
from hookline.features.notices.conditions.machine import GRACE_MS_MAX, Sources
from hookline.features.sources.service import SourceActivity
from tests.unit.conftest import LocationOf
from tests.unit.features.notices.conditions.moments import HOUR_MS, NOW_MS, moment, notice, report, strong


@pytest.fixture
def new_sources(location_of: LocationOf) -> Iterator[Callable[[], Sources]]:
    """Make the condition, as each start of control does, with a threshold of an hour."""
    ensure(location_of("control"), "control")
    made: list[Sources] = []

    def make() -> Sources:
        made.append(Sources(SourceActivity(location_of("control")), 3600))
        return made[-1]

    yield make
    for each in made:
        each.close()


SILENT = {("source_silent", "site"): notice(since_ms=NOW_MS)}
"""A notice that is open since the event that was the last."""


def at(
    now_ms: int,
    *sources: str,
    started_ms: int = NOW_MS - HOUR_MS,
    notices: dict[tuple[str, str], OpenNotice] | None = None,
    **heard: int,
) -> Moment:
    """A moment in which collect has heard these sources at these times."""
    values = {
        "process_start_time_seconds": started_ms / 1000,
        "hookline_collect_source_last_event_seconds": {"source": {id: ms / 1000 for id, ms in heard.items()}},
    }
    return moment(report("collect", **values), now_ms=now_ms, sources=sources, notices=notices)


def test_a_source_that_stops_is_silent_until_it_sends(new_sources: Callable[[], Sources]) -> None:
    """Only one that ever had events can be missed."""
    sources = new_sources()
    assert sources.findings(at(NOW_MS, "site", "app", site=NOW_MS)) == []
    later = NOW_MS + HOUR_MS
    assert strong(sources.findings(at(later, "site", "app", site=NOW_MS))) == [("source_silent", "site")]
    assert sources.findings(at(later, "site", "app", site=later)) == []


def test_restarts_forget_nothing(new_sources: Callable[[], Sources]) -> None:
    """What collect heard before its restart, and control's before its own, is remembered."""
    new_sources().findings(at(NOW_MS, "site", site=NOW_MS))
    later = NOW_MS + HOUR_MS
    assert strong(new_sources().findings(at(later, "site"))) == [("source_silent", "site")]


def test_a_clock_that_is_set_back_ends_no_silence(new_sources: Callable[[], Sources]) -> None:
    """An event does, also one that comes at an earlier time than the last; and so it is after a restart of control."""
    sources, back = new_sources(), NOW_MS + HOUR_MS // 2
    sources.findings(at(NOW_MS, "site", site=NOW_MS))
    for looking in (sources, new_sources()):
        found = looking.findings(at(back, "site", started_ms=0, notices=SILENT, site=NOW_MS))
        assert strong(found) == [("source_silent", "site")]
    assert sources.findings(at(back, "site", notices=SILENT, site=NOW_MS - HOUR_MS // 4)) == []


def test_after_collect_was_away_senders_get_time(new_sources: Callable[[], Sources]) -> None:
    """They could not send meanwhile: their silence is not told at once."""
    new_sources().findings(at(NOW_MS, "site", site=NOW_MS))
    sources, back = new_sources(), NOW_MS + 2 * HOUR_MS
    assert sources.findings(at(back, "site", started_ms=back)) is None
    later = back + GRACE_MS_MAX
    assert strong(sources.findings(at(later, "site", started_ms=back))) == [("source_silent", "site")]


def test_a_source_that_is_gone_is_forgotten(new_sources: Callable[[], Sources]) -> None:
    """A deleted source is not missed, and one made anew under its id begins anew."""
    sources = new_sources()
    sources.findings(at(NOW_MS, "site", site=NOW_MS))
    later = NOW_MS + HOUR_MS
    assert sources.findings(at(later)) == []
    assert new_sources().findings(at(later, "site")) == []


def test_while_collect_is_away_nothing_can_be_told(new_sources: Callable[[], Sources]) -> None:
    """Its silence is another notice."""
    assert new_sources().findings(moment(report("collect", fresh=False), sources=["site"])) is None
