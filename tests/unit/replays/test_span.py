"""From times to offsets."""

from __future__ import annotations

import msgspec
import pytest

from hookline.journal.local.partition_reader import LocalReader
from hookline.replays.model import ReplayRequest
from hookline.replays.offset_set import offset_at, span_of
from tests.unit.deliver.conftest import make_rig, rig
from tests.unit.deliver.rig import START_MS, Rig

__all__ = ["make_rig", "rig"]


@pytest.fixture
def journal(rig: Rig) -> LocalReader:
    """Ten records, one a second."""
    for number in range(10):
        rig.append(f"m{number}")
        rig.clock.seconds += 1
    return LocalReader(rig.folder / "journal")


def test_the_first_record_at_or_after_a_time(journal: LocalReader) -> None:
    """Before the first it is the first, behind the last the end."""
    first_ms = START_MS + 1_000_000
    assert [offset_at(journal, 0, first_ms + ms) for ms in (-5_000, 0, 1, 3_000, 9_000, 9_001)] == [0, 0, 1, 3, 9, 10]


def test_spans(journal: LocalReader) -> None:
    """Without times it is all there is now; a time in the future is now; nothing between two times is nothing."""

    def span(**times: str) -> tuple[int, int]:
        request = msgspec.convert({"destination": "crm", **times}, ReplayRequest)
        starts, ends = span_of(journal, journal.partitions(), request)
        return starts[0], ends[0]

    assert span() == (0, 10)
    assert span(to="2100-01-01T00:00:00Z") == (0, 10)
    assert span(**{"from": "2100-01-01T00:00:00Z"}) == (10, 10)
    assert span(**{"from": "2026-11-20T07:16:43Z", "to": "2026-11-20T08:16:45+01:00"}) == (3, 5)
