"""What sinks say of themselves becomes few notices, each thing told once."""

from __future__ import annotations

from pathlib import Path

from hookline.features.notices.conditions.finding import Finding
from hookline.features.notices.conditions.sinks import NEWS_AGE_MS_MAX, NEWS_QUIET_MS, NEWS_WAIT_MS_MAX, SchemaChanges
from hookline.telemetry.notices import DETAIL_CHARACTERS_MAX
from tests.unit.features.notices.conditions.moments import NOW_MS, deliver_db, moment


class Sinks:
    """Deliver's database, and the condition that reads it."""

    def __init__(self, path: Path, last_told_ms: int | None = None) -> None:
        path.mkdir(exist_ok=True)
        self.path = path / "deliver.db"
        self.database = deliver_db(self.path)
        self.condition = SchemaChanges(self.path, lambda: last_told_ms)

    def say(self, *sentences: str, destination: str = "wh", at_ms: int = NOW_MS) -> None:
        """A sink says something of itself."""
        self.database.executemany(
            "INSERT INTO sink_news (destination, at, sentence) VALUES (?, ?, ?)",
            [(destination, at_ms, each) for each in sentences],
        )

    def look(self, after_ms: int = 0) -> list[Finding]:
        """Look, so long after the beginning."""
        return list(self.condition.findings(moment(None, "wh", "lake", now_ms=NOW_MS + after_ms)))


def test_what_is_said_within_seconds_is_one_notice(tmp_path: Path) -> None:
    """It waits until nothing more comes, and is told once."""
    sinks = Sinks(tmp_path)
    sinks.say("The schema site was created.")
    assert sinks.look() == []
    sinks.say("Tables were created: site.tracks.")
    assert sinks.look(NEWS_QUIET_MS - 1) == []
    (found,) = sinks.look(2 * NEWS_QUIET_MS)
    assert (found.kind, found.subject, found.count) == ("destination_schema_changed", "wh", 2)
    assert found.detail == "The schema site was created. Tables were created: site.tracks."
    assert sinks.look(4 * NEWS_QUIET_MS) == []


def test_a_clock_that_is_set_back_holds_nothing_up(tmp_path: Path) -> None:
    """News that wait are reported at once, not when the clock has come so far again."""
    sinks = Sinks(tmp_path)
    sinks.say("The schema site was created.")
    assert sinks.look() == []
    assert len(sinks.look(-3_600_000)) == 1


def test_five_hundred_sentences_are_a_short_one(tmp_path: Path) -> None:
    """The first of them are shown, the others counted, and what does not end is told after a minute."""
    sinks = Sinks(tmp_path)
    for second in range(60):
        sinks.say(*(f"site.t{second}_{n} has new columns: {'x' * 150} (text)." for n in range(10)))
        assert sinks.look(second * 1000) == []
    (found,) = sinks.look(NEWS_WAIT_MS_MAX)
    assert found.count == 600
    assert len(found.detail) <= DETAIL_CHARACTERS_MAX
    assert found.detail.startswith("site.t0_0 has new columns: ")
    assert found.detail.endswith("And 598 more; the log of deliver has them all.")


def test_a_long_sentence_is_cut(tmp_path: Path) -> None:
    """Alone it must not fill the detail either."""
    sinks = Sinks(tmp_path)
    sinks.say("y" * 500, "short")
    sinks.look()
    (found,) = sinks.look(NEWS_QUIET_MS)
    assert "…" in found.detail
    assert found.detail.endswith("And 1 more; the log of deliver has them all.")
    assert len(found.detail) <= DETAIL_CHARACTERS_MAX


def test_after_a_restart_nothing_is_told_twice(tmp_path: Path) -> None:
    """What lies before the newest notice, or too long ago, was told or is history; destinations that are off, too."""
    sinks = Sinks(tmp_path, last_told_ms=NOW_MS - 1000)
    sinks.say("told before", at_ms=NOW_MS - 1000)
    sinks.say("new", at_ms=NOW_MS - 999)
    sinks.say("of another", destination="lake")
    sinks.say("of one that is off", destination="gone")
    sinks.look()
    assert [(each.subject, each.detail) for each in sinks.look(NEWS_QUIET_MS)] == [
        ("lake", "of another"),
        ("wh", "new"),
    ]
    first = Sinks(tmp_path / "first")
    first.say("history", at_ms=NOW_MS - NEWS_AGE_MS_MAX)
    first.look()
    assert first.look(NEWS_QUIET_MS) == []
