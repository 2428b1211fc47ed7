"""Records that are kept for another attempt."""

from __future__ import annotations

from hookline.deliver.kept_records import KeptRecords
from hookline.journal.conformance import a_record


def test_the_oldest_go_when_there_is_no_room() -> None:
    """What is kept is bounded; what lies in it is the newest."""
    kept = KeptRecords(bytes_max=10_000)
    for number in range(100):
        kept.keep(number, a_record(number, body=b"x" * 1_000))
    held = [number for number in range(100) if kept.get(number) is not None]
    assert held == [95, 96, 97, 98, 99]


def test_a_record_is_kept_once() -> None:
    """One that many destinations failed takes the room of one."""
    kept = KeptRecords(bytes_max=3_000)
    kept.keep(1, a_record(1, body=b"x" * 500))
    for _ in range(10):
        kept.keep(2, a_record(2, body=b"x" * 500))
    assert kept.get(1) is not None


def test_nothing_is_left_of_what_was_cleared() -> None:
    """After an erasure each record comes from the journal again."""
    kept = KeptRecords(bytes_max=3_000)
    kept.keep(1, a_record(1))
    kept.clear()
    assert kept.get(1) is None
