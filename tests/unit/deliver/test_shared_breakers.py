"""Processes whose breakers are open for one receiver: who has something to probe with finds out whether it is back."""

from __future__ import annotations

import pytest

from hookline.deliver.cluster.heartbeat import WorkerState, decode, encode
from hookline.deliver.cluster.shared_breakers import SharedBreakers
from tests.unit.deliver.conftest import MakeRig
from tests.unit.deliver.rig import Rig, destination, source

HOURS = b"10800"
"""What a receiver asks to be left alone for."""


class Process:
    """A process with one destination, and what it says of its receiver."""

    def __init__(self, name: str, rig: Rig) -> None:
        rig.change(source(), destination("crm"))
        rig.start()
        self.rig = rig
        self.lane = rig.lane("crm")
        self._breakers = SharedBreakers(name, rig.role.engine, rig.role.feeder)

    def fail(self, *message_ids: str, retry_after: bytes | None = None) -> None:
        """Accept events, and have the receiver refuse to take them now."""
        self.rig.append(*message_ids)
        self.rig.turn()
        for request in list(self.rig.network.waiting):
            self.rig.answer(request, 503, retry_after=retry_after)
        self.rig.checkpoint()

    def state(self) -> WorkerState:
        """Return what others read of it."""
        return decode(encode(WorkerState(breakers=self._breakers.found())))

    def can_probe(self) -> bool:
        """Return whether it says that it can find out."""
        return self.state().breakers[self.lane.number].can_probe

    def hear(self, other: Process) -> None:
        """Read what another one says."""
        self._breakers.hear({"other": other.state()})


@pytest.fixture
def pair(make_rig: MakeRig) -> tuple[Process, Process]:
    """Two processes that send to the same receiver."""
    return Process("a", make_rig()), Process("b", make_rig())


def pass_time(pair: tuple[Process, Process], answer: int, seconds: float) -> None:
    """Let both do what is due, and hear of each other."""
    one, two = pair
    for each in pair:
        each.rig.pass_time(seconds)
        each.rig.answer_all(answer)
        each.rig.checkpoint()
    one.hear(two)
    two.hear(one)


def test_who_has_nothing_to_probe_with_leaves_it_to_others(pair: tuple[Process, Process]) -> None:
    """All that one has left is to wait for hours, as its receiver asked; the other finds out when that is back."""
    waits, finds = pair
    waits.fail("a0", retry_after=HOURS)
    finds.fail(*(f"b{n}" for n in range(30)))
    for _ in range(40):
        pass_time(pair, 503, 0.5)
    assert {each.lane.breaker.state for each in pair} == {"open"}
    seconds = 0
    while finds.lane.breaker.state == "open":
        pass_time(pair, 200, 2.0)
        seconds += 2
        assert seconds <= 2 * finds.rig.settings.deliver.retry_max
    assert waits.lane.breaker.state != "open"


@pytest.mark.parametrize("comes", ["an event", "a row"])
def test_who_had_nothing_to_probe_with_says_so_when_something_comes(pair: tuple[Process, Process], comes: str) -> None:
    """An event that is accepted, or one that is called back, can find out again."""
    waits, _ = pair
    waits.fail("a0", retry_after=HOURS)
    waits.rig.role.engine.failures.open_too(waits.lane, "server_error 503")
    assert waits.can_probe()
    waits.rig.pass_time(waits.rig.settings.deliver.retry_max)
    assert not waits.can_probe()
    if comes == "an event":
        waits.rig.append("a1")
        waits.rig.turn()
    else:
        waits.lane.count_rows(waits.lane.retry_count + 1)
    assert waits.can_probe()
