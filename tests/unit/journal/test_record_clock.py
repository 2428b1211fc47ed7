"""What a record notes of a wall clock that was set."""

from __future__ import annotations

from hookline.journal.conformance import a_record
from hookline.journal.record import SLACK_MS, journal_ms, note_clock

NOW_MS = 1_795_158_000_000
DAY_MS = 86_400_000


def test_a_clock_that_is_right_leaves_no_trace() -> None:
    """Nor one that is off by what clocks are."""
    records = [a_record(0, received_at=NOW_MS), a_record(1, received_at=NOW_MS - SLACK_MS + 1)]
    note_clock(records, lambda: NOW_MS)
    assert [record.ahead_ms for record in records] == [None, None]
    assert [journal_ms(record) for record in records] == [record.received_at for record in records]


def test_a_jump_within_a_group_is_noted_in_those_behind_it() -> None:
    """By how much each is off; its age is that of the service's own clock."""
    given = [NOW_MS, NOW_MS - 40 * DAY_MS, NOW_MS - 40 * DAY_MS + 1]
    records = [a_record(number, received_at=at) for number, at in enumerate(given)]
    note_clock(records, lambda: NOW_MS + 5)
    assert [record.ahead_ms for record in records] == [None, -40 * DAY_MS - 5, -40 * DAY_MS - 4]
    assert [record.received_at for record in records] == given
    assert [journal_ms(record) for record in records] == [NOW_MS, NOW_MS + 5, NOW_MS + 5]
