"""Where an event goes: folders by source, event and hour, names by offsets, whatever names people make up."""

from __future__ import annotations

import pytest

from hookline.kinds.files.rows import GROUPS_MAX, clean, plan_files
from tests.unit.kinds.files.place import NOON_MS, event


def test_a_file_is_named_by_its_offsets() -> None:
    """Source, event and hour are folders, and the name says which offsets of which partition the file holds."""
    events = [event(offset, at_ms=NOON_MS) for offset in (12_345, 12_399, 12_350)]
    (plan,) = plan_files(events, ".ndjson.zst")
    folder, _, name = plan.path.rpartition("/")
    assert folder == "source=web/event_name=order_completed/hour=2026-11-24T12"
    assert name == "0-000000012345-000000012399.ndjson.zst"
    assert [row["journal_offset"] for row in plan.rows] == [12_345, 12_350, 12_399]


def test_events_are_parted_by_all_that_names_a_folder() -> None:
    """Another source, event, type, hour or partition is another file; each event is in exactly one."""
    events = [
        event(0, at_ms=NOON_MS),
        event(1, at_ms=NOON_MS, source="app"),
        event(2, at_ms=NOON_MS, name="Signed Up"),
        event(3, at_ms=NOON_MS, type="page"),
        event(4, at_ms=NOON_MS + 3_600_000),
        event(5, at_ms=NOON_MS, partition=1),
    ]
    plans = plan_files(events, ".parquet")
    assert len({plan.path for plan in plans}) == len(plans) == 6
    assert sorted(row["journal_offset"] for plan in plans for row in plan.rows) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("name", "cleaned"),
    [
        ("Order Completed", "order_completed"),
        ("../../etc/passwd", "etc_passwd"),
        ("_other", "other"),
        ("a" * 500, "a" * 60),
        ("hour=2026", "hour_2026"),
    ],
)
def test_a_name_becomes_a_harmless_part_of_a_path(name: str, cleaned: str) -> None:
    """Nothing of a name can lead elsewhere or be taken for another part of the path."""
    assert clean(name) == cleaned


def test_names_in_another_script_stay_apart() -> None:
    """A name that has no letter of a path is known by its hash."""
    assert clean("購入") != clean("登録")
    assert clean("購入").isalnum()


def test_made_up_names_do_not_make_thousands_of_files() -> None:
    """Beyond a bound the rarest events of a write share a folder, and none is lost."""
    events = [event(number, at_ms=NOON_MS, name=f"e{number}") for number in range(2_000)]
    events += [event(number, at_ms=NOON_MS, name="often") for number in range(2_000, 2_010)]
    plans = plan_files(events, ".ndjson")
    assert len(plans) == GROUPS_MAX + 1
    assert sum(len(plan.rows) for plan in plans) == 2_010
    assert any("event_name=often/" in plan.path for plan in plans)
    assert sum("event_name=_other/" in plan.path for plan in plans) == 1
