"""Damage of the journal as a notice: which events, who missed them, and until when it is told."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from hookline.database.open import open_deliver
from hookline.features.notices.conditions import journal
from hookline.features.notices.conditions.journal import LOOK_MS, JournalDamage, JournalLost
from hookline.journal.conformance import a_record
from hookline.journal.damaged import DAMAGED_NAME, note_damage, noted_damage
from hookline.journal.local.appender import LocalAppender
from hookline.journal.local.partition_reader import LocalReader
from hookline.journal.local.segment import segment_name
from hookline.journal.port import JournalAway, JournalCorrupt
from hookline.journal.reading import read_on
from tests.unit.features.notices.conditions.moments import moment

EVENTS = 3


async def _fill(folder: Path, known: Mapping[int, Mapping[str, int]] | None = None) -> None:
    appender = LocalAppender(folder, retention_seconds=1e6, retention_bytes=1 << 40, known=known)
    for number in range(EVENTS):
        await appender.append([a_record(number)])
    await appender.close()


def test_what_readers_met_is_told_until_it_can_be_read_again(tmp_path: Path) -> None:
    """One notice for all of it, with the destinations whose record says that they missed some."""
    folder, deliver = tmp_path / "journal", tmp_path / "deliver.db"
    asyncio.run(_fill(folder))
    path = folder / "0" / segment_name(0)
    position = path.read_bytes().find(b"m1")
    whole = path.read_bytes()
    with path.open("r+b", buffering=0) as file:
        os.pwrite(file.fileno(), b"??", position)
    with closing(open_deliver(deliver)) as database:
        database.execute(
            "INSERT INTO ranges (lane, destination, partition, first_offset, last_offset, status, at, reason)"
            " VALUES (1, 'crm', 0, 1, 1, 'discarded', 1, 'journal segment 0 is damaged')"
        )
    with closing(JournalDamage(folder, deliver)) as condition:
        now = moment(None)
        assert condition.findings(now) == ()
        with closing(LocalReader(folder)) as reader:
            for _ in range(2):
                assert len(list(read_on(reader, 0, 0, EVENTS))) == EVENTS - 1
        noted = folder / DAMAGED_NAME
        noted.write_bytes(noted.read_bytes() * 2)  # two readers met it in one moment
        (finding,) = condition.findings(now) or ()
        assert (finding.kind, finding.count) == ("journal_damaged", 1)
        assert "offset 1 of partition 0 (damaged" in finding.detail
        assert "not delivered to crm" in finding.detail
        path.write_bytes(whole)
        now.now_ms += LOOK_MS
        assert condition.findings(now) == ()


def test_while_brokers_are_away_nothing_can_be_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notice that was open before control started stays so; they are asked again with the next look."""

    def away(_: Path) -> None:
        raise JournalAway("brokers do not answer")

    folder = tmp_path / "journal"
    asyncio.run(_fill(folder))
    (folder / "0" / segment_name(0)).unlink()
    note_damage(folder, 0, JournalCorrupt(segment_name(0), 0, 1))
    with closing(JournalDamage(folder, tmp_path / "deliver.db")) as condition:
        with monkeypatch.context() as outage:
            outage.setattr(journal, "open_reader", away)
            assert condition.findings(moment(None)) is None
        assert len(condition.findings(moment(None)) or ()) == 1


def test_a_lost_end_is_told_once(tmp_path: Path) -> None:
    """What the journal ended before is one notice, with who waited for it, also where readers have met it."""
    folder, deliver = tmp_path / "journal", tmp_path / "deliver.db"
    asyncio.run(_fill(folder))
    asyncio.run(_fill(folder, {0: {"deliver": 10}}))
    with closing(open_deliver(deliver)) as database:
        database.execute(
            "INSERT INTO ranges (lane, destination, partition, first_offset, last_offset, status, at, reason)"
            " VALUES (1, 'crm', 0, 3, 9, 'discarded', 1, 'journal segment 0 is missing')"
        )
    with closing(LocalReader(folder)) as reader:
        assert len(list(read_on(reader, 0, 0, 10 + EVENTS))) == 2 * EVENTS
    assert noted_damage(folder)
    with closing(JournalDamage(folder, deliver)) as damage, closing(JournalLost(tmp_path, deliver)) as lost:
        now = moment(None)
        (finding,) = [*(damage.findings(now) or ()), *lost.findings(now)]
    assert (finding.kind, finding.subject) == ("journal_behind", "0")
    assert "offsets 3 to 9" in finding.detail
    assert "not delivered to crm" in finding.detail
