"""The way of events on a destination's page."""

from __future__ import annotations

from collections import Counter

import pytest

from hookline.features.destinations.pages.routes import _stations
from hookline.features.destinations.unconnected import Unconnected
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
    stations = _stations(accepted, Sums(counts, []), None, 0)
    assert [station.name for station in stations] == ["Accepted", "Not filtered", "Attempted", "Delivered"]
    assert stations[2].note == note


def test_what_came_before_it_was_connected_is_not_accepted_for_it() -> None:
    """Otherwise the way would look like a loss; where such events were not counted, nothing is taken off."""
    sums = Sums(Counter(attempted=2, delivered=2), [])
    before = Unconnected(2, is_whole=True, was_connected=False, replay_href="")
    assert [station.value for station in _stations(4, sums, before, 0)] == ["2", "2", "2", "2"]
    assert _stations(4, sums, before, 0)[0].note == "by its sources while connected"
    assert _stations(4, sums, before._replace(events=1, erased=1), 0)[0].value == "2", "erased since, it was sent"
    assert _stations(4, sums, before._replace(is_whole=False), 0)[0].value == "4"


@pytest.mark.parametrize(
    ("dead_letters", "note", "state"),
    [
        (3, "3 not delivered", "dead"),
        (1, "3 not delivered, 1 left as dead letters", "dead"),
        (0, "3 not delivered, 0 left as dead letters", "warn"),
    ],
)
def test_what_a_retry_delivered_is_not_left_to_look_lost(dead_letters: int, note: str, state: str) -> None:
    """The range keeps what was not delivered by itself; beside it stands how many of that are dead letters now."""
    sums = Sums(Counter(attempted=5, delivered=2, not_delivered=3), [])
    delivered = _stations(5, sums, None, dead_letters)[-1]
    assert (delivered.value, delivered.note, delivered.state) == ("2", note, state)
