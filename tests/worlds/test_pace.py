"""Rates: a steady stream and a burst are within them, more is not."""

from __future__ import annotations

import pytest

from hookline.connections.model import DeliveryOptions, LaneConfig, Snapshot
from hookline.simulation.scheduler import SimulatedClock
from tests.unit.deliver.rig import destination
from tests.worlds.ledger import Ledger, Place
from tests.worlds.pace import Pace

RATE = 10.0


class Paced:
    """A destination with a rate, and attempts in its lane."""

    def __init__(self) -> None:
        self.clock = SimulatedClock()
        self.ledger = Ledger()
        self.connect(RATE)
        self.pace = Pace(self.clock, self.ledger)

    def connect(self, rate: float | None) -> None:
        made = destination("one", delivery=DeliveryOptions(max_rate=rate))
        lanes = {"one": LaneConfig(number=1, sources={"website": {0: 0}})}
        snapshot = Snapshot(version=1, destinations=(made,), lanes=lanes)
        self.ledger.changed({0: 0}, snapshot, self.clock.seconds)

    def begin(self, count: int, spacing_seconds: float, position: Place = (0, 0)) -> list[str]:
        wrong: list[str] = []
        for _ in range(count):
            wrong += self.pace.began(1, position)
            self.clock.seconds += spacing_seconds
        return wrong


@pytest.fixture
def paced() -> Paced:
    return Paced()


def test_a_stream_at_the_rate_is_within_it(paced: Paced) -> None:
    """For as long as it goes on, and with a burst at its beginning."""
    assert paced.begin(3, 0.0) + paced.begin(200, 1 / RATE) == []


def test_more_than_the_rate_is_noticed(paced: Paced) -> None:
    """A third more, after a while; a burst at once."""
    assert paced.begin(60, 0.75 / RATE) != []
    assert Paced().begin(12, 0.0) != []


def test_what_changed_a_moment_ago_need_not_be_known(paced: Paced) -> None:
    """The role learns of a lower rate a little later; from then on it holds."""
    paced.ledger.versions.clear()
    paced.connect(None)
    paced.clock.seconds += 10
    paced.connect(RATE)
    assert paced.begin(40, 0.02) == []
    paced.clock.seconds += 1
    assert paced.begin(40, 0.02) != []


def test_a_catch_up_has_its_own_rate_until_what_waited_is_sent(paced: Paced) -> None:
    """After that the destination's holds."""
    paced.pace.resumed(1, RATE / 4, {(0, 0), (0, 1)})
    assert paced.begin(20, 1 / RATE) != []
    paced.pace.resumed(1, RATE / 4, {(0, 0)})
    assert paced.begin(20, 1 / RATE) == []
