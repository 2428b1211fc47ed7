"""The way of events on a destination's page."""

from __future__ import annotations

from collections import Counter

import pytest

from hookline.features.destinations.pages.routes import _stations
from hookline.insights.series import Sums


@pytest.mark.parametrize(
    ("accepted", "filtered", "attempted", "note"),
    [
        (10, 4, 6, "sent for the first time"),
        (10, 4, 5, "sent for the first time"),
        (10, 4, 7, "sent for the first time, with syncs and replays"),
        (0, 0, 1, "sent for the first time, with syncs and replays"),
    ],
)
def test_what_no_source_sent_is_named(accepted: int, filtered: int, attempted: int, note: str) -> None:
    """More attempts than a destination's sources account for come from syncs, replays and deletions."""
    counts = Counter(filtered=filtered, attempted=attempted, delivered=attempted)
    stations = _stations(accepted, Sums(counts, []))
    assert [station.name for station in stations] == ["Accepted", "Not filtered", "Attempted", "Delivered"]
    assert stations[2].note == note
