"""The one way to read what deliver knows."""

from __future__ import annotations

import re
from pathlib import Path

import hookline
from hookline.database.open import ensure
from hookline.outcomes.reader import DeliverReader

PACKAGE = Path(hookline.__file__).parent
OWN = (
    "deliver/store/",
    "deliver/cluster/",
    "outcomes/reader.py",
    "outcomes/rows.py",
)
TABLES = (
    "attempts|checkpoints|dead_letters|lanes|outcome_blocks|ranges|retries|lane_filters|versions_in_force|erased_parts"
)
"""Those whose names no other database has too."""


def test_nobody_else_holds_sql_on_delivers_tables() -> None:
    """A column of deliver is changed in its writer, in its reader and by a migration, and nowhere else."""
    statement = re.compile(rf"\b(FROM|JOIN|INTO|UPDATE) ({TABLES})\b")
    found = [
        name
        for path in PACKAGE.rglob("*.py")
        if not (name := path.relative_to(PACKAGE).as_posix()).startswith(OWN) and statement.search(path.read_text())
    ]
    assert found == []


def test_before_delivers_first_start_everything_is_empty(tmp_path: Path) -> None:
    """A reader that is opened first finds the database as soon as it is made."""
    reader = DeliverReader(tmp_path / "deliver.db")
    assert not reader.exists
    assert (reader.lanes(), reader.checkpoint(0), reader.first_needed(), reader.dead_letters.last_id()) == (
        [],
        None,
        {},
        0,
    )
    with reader.one_moment():
        assert reader.attempts.latest_failures(10) == {}
    ensure(tmp_path / "deliver.db", "deliver")
    assert reader.exists
    assert reader.lanes() == []
    reader.close()
