"""Dead letters growing."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline.control.conditions.dead_letters import DeadLetters
from hookline.database.sqlite import OperationalError
from tests.unit.control.conditions.moments import HOUR_MS, NOW_MS, deliver_db, moment, strong


def bury(data: Path, count: int, destination: str = "crm", at_ms: int = NOW_MS) -> None:
    """Write dead letters as deliver does."""
    connection = deliver_db(data)
    connection.executemany(
        'INSERT INTO dead_letters (lane, destination, partition, "offset", message_id, source, type, fate, attempts,'
        " at) VALUES (1, ?, 0, 1, 'm', 'site', 'track', 'failed', 1, ?)",
        [(destination, at_ms)] * count,
    )
    connection.close()


def test_many_within_an_hour_are_told_with_their_number(tmp_path: Path) -> None:
    """What grows over several looks is added up; another destination's do not count."""
    condition = DeadLetters(tmp_path, 10)
    bury(tmp_path, 4)
    assert condition.findings(moment(None, "crm", "erp")) == []
    bury(tmp_path, 7)
    bury(tmp_path, 4, "erp")
    (finding,) = condition.findings(moment(None, "crm", "erp")) or ()
    assert (finding.subject, finding.count, finding.weak) == ("crm", 11, False)


def test_half_as_many_keep_it_open(tmp_path: Path) -> None:
    """Around the threshold a notice does not come and go."""
    condition = DeadLetters(tmp_path, 10)
    bury(tmp_path, 6, at_ms=NOW_MS - HOUR_MS // 2)
    (finding,) = condition.findings(moment(None, "crm")) or ()
    assert finding.weak
    assert condition.findings(moment(None, "crm", now_ms=NOW_MS + HOUR_MS)) == []


def test_old_ones_do_not_count_after_a_restart(tmp_path: Path) -> None:
    """The first look reads the last hour and nothing before it."""
    bury(tmp_path, 20, at_ms=NOW_MS - 2 * HOUR_MS)
    bury(tmp_path, 10, "erp")
    assert strong(DeadLetters(tmp_path, 10).findings(moment(None, "crm", "erp"))) == [("dead_letters_growing", "erp")]


def test_what_a_breaker_took_back_does_not_count(tmp_path: Path) -> None:
    """Deliver makes waiting events again of what a rotated token burned; then there was no loss."""
    condition = DeadLetters(tmp_path, 10)
    bury(tmp_path, 12)
    connection = deliver_db(tmp_path)
    connection.execute("DELETE FROM dead_letters WHERE id > 2")
    connection.close()
    assert condition.findings(moment(None, "crm")) == []


def test_zero_turns_it_off_and_no_database_tells_nothing(tmp_path: Path) -> None:
    """Off is "nothing is the matter", a missing file is "cannot be told", half a file an error for the loop."""
    assert DeadLetters(tmp_path, 10).findings(moment(None, "crm")) is None
    bury(tmp_path, 5)
    assert DeadLetters(tmp_path, 0).findings(moment(None, "crm")) == ()
    connection = deliver_db(tmp_path)
    connection.execute("DROP TABLE dead_letters")
    connection.close()
    with pytest.raises(OperationalError):
        DeadLetters(tmp_path, 10).findings(moment(None, "crm"))
