"""How deliver processes divide a limit: never more than all of it, and none of it unused for long."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookline.deliver.cluster.agreement import TURN_SECONDS, Demand, fair, settle_part, settle_whole, whole

STEPS = 200
BEAT_SECONDS = 0.5


class Process:
    """One process: the row that all see, what it may use since its last beat, and its requests in flight."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.waits = True
        self.held, self.part = 0, 0.0
        self.usable, self.usable_part = 0, 0.0
        self.agreed: tuple[int, float] | None = None
        self.in_flight = 0
        self.turn_seconds = 0.0
        self.is_dead = False

    def start(self) -> None:
        """Send as much as it may."""
        self.in_flight = max(self.in_flight, self.usable) if self.waits else self.in_flight

    def write(self, limit: int, all_of_them: list[Process]) -> None:
        """Agree with the others, in a transaction; what it may use changes later."""
        self.held, self.part = max(self.usable, self.in_flight), self.usable_part
        demands = {
            each.name: Demand(1, (limit if each.waits else each.in_flight), each.held, each.turn_seconds)
            for each in all_of_them
        }
        parts = {each.name: Demand(1, 1.0 if each.waits else 0.0, each.part) for each in all_of_them}
        self.held, usable = settle_whole(limit, self.name, demands)
        self.part, part = settle_part(self.name, parts)
        self.agreed = usable, part

    def apply(self) -> None:
        """Have in force what was agreed last."""
        if self.agreed is not None:
            self.usable, self.usable_part = self.agreed

    def pass_time(self, seconds: float) -> None:
        """Wait for a first request at once, or have one."""
        has = self.usable > 0
        if has != (self.turn_seconds < 0):
            self.turn_seconds = 0.0
        self.turn_seconds += -seconds if has else seconds if self.waits else 0.0


def _check(limit: int, all_of_them: list[Process]) -> None:
    assert sum(each.in_flight for each in all_of_them) <= limit
    assert sum(each.usable for each in all_of_them) <= limit
    assert sum(each.held for each in all_of_them) <= limit
    assert sum(each.usable_part for each in all_of_them) <= 1.0 + 1e-9


@settings(max_examples=60)
@given(st.integers(0, 1 << 30), st.integers(1, 12))
def test_never_above_the_limit_and_all_of_it_once_they_are_at_rest(seed: int, limit: int) -> None:
    """Processes come, end, die and pause between any two steps; then those that are left have all of it, in turns."""
    rng = random.Random(seed)
    names = iter(f"p{number:03}" for number in range(STEPS))
    there = [Process(next(names))]
    for _ in range(STEPS):
        each = rng.choice(there)
        match rng.choice(("start", "end", "write", "write", "apply", "apply", "idle", "join", "leave", "kill", "over")):
            case "start" if not each.is_dead:
                each.start()
            case "end":
                each.in_flight = rng.randint(0, each.in_flight)
            case "write" if not each.is_dead:
                each.apply()  # beats of one process go one after the other
                each.write(limit, there)
            case "apply" if not each.is_dead:
                each.apply()
            case "idle":
                each.waits = not each.waits
            case "join" if len(there) < 6:
                there.append(Process(next(names)))
            case "leave" if len(there) > 1 and not each.in_flight and not each.is_dead:
                there.remove(each)
            case "kill" if len(there) > 1:
                each.is_dead = True
            case "over" if each.is_dead and len(there) > 1:
                there.remove(each)  # its session is, and with it what it had in flight
        each.pass_time(rng.random())
        _check(limit, there)
    left = [each for each in there if not each.is_dead] or [Process(next(names))]
    served: set[str] = set()
    used = 0
    rounds = int(TURN_SECONDS / BEAT_SECONDS) * 2 * (len(left) + 2)
    for at in range(rounds):
        for each in left:
            each.waits = True
            each.in_flight = 0 if at % 2 else each.in_flight
            each.write(limit, left)
            each.apply()
            each.start()
            each.pass_time(BEAT_SECONDS)
            if each.usable:
                served.add(each.name)
        _check(limit, left)
        used += sum(each.usable for each in left)
    assert used >= 0.7 * limit * rounds  # from turn to turn a request is under way, and a beat goes by
    assert sum(each.usable_part for each in left) == pytest.approx(1.0, abs=1e-4)
    assert served == {each.name for each in left}


def test_a_share_is_by_partitions_and_what_one_cannot_use_is_the_others() -> None:
    """Three partitions get three times the share of one; a process that uses little leaves the rest."""
    assert fair(8, {"a": Demand(3, 8, 0), "b": Demand(1, 8, 0)}) == {"a": 6, "b": 2}
    assert fair(8, {"a": Demand(3, 1, 0), "b": Demand(1, 8, 0)}) == {"a": 1, "b": 7}
    assert fair(8, {"a": Demand(1, 0, 0), "b": Demand(1, 2, 0), "c": Demand(0, 8, 0)}) == {"a": 3, "b": 5, "c": 0}


def test_what_is_left_over_stays_where_it_is_unless_somebody_has_nothing() -> None:
    """Ten for three: the tenth does not wander. One for three: it goes round."""
    assert whole(10, {"a": Demand(1, 9, 3), "b": Demand(1, 9, 4), "c": Demand(1, 9, 3)}, "a") == {
        "a": 3,
        "b": 4,
        "c": 3,
    }
    waiting = {"b": Demand(1, 1, 0, 7.0), "c": Demand(1, 1, 0, 9.0)}
    assert whole(1, {"a": Demand(1, 1, 1, -1.0), **waiting}, "a") == {"a": 1, "b": 0, "c": 0}
    assert whole(1, {"a": Demand(1, 1, 1, -TURN_SECONDS - 1), **waiting}, "a") == {"a": 0, "b": 0, "c": 1}


def test_a_share_beyond_the_fair_one_is_kept_until_somebody_waits() -> None:
    """A process that was the last to be busy keeps what it has, and gives it up when others could use it."""
    idle, waiting = Demand(1, 1, 0), Demand(1, 8, 0, 1.0)
    assert settle_whole(8, "a", {"a": Demand(1, 1, 8), "b": Demand(1, 0, 0)}) == (8, 8)
    assert settle_whole(8, "a", {"a": Demand(1, 1, 8), "b": idle}) == (8, 4)
    assert settle_whole(8, "a", {"a": Demand(1, 1, 8), "b": waiting}) == (8, 1)
    assert settle_whole(8, "b", {"a": Demand(1, 1, 8), "b": waiting}) == (0, 0)
    assert settle_whole(8, "b", {"a": Demand(1, 1, 1), "b": waiting}) == (7, 7)
