"""What waits for its turn in a partition of a topic."""

from __future__ import annotations

from collections.abc import Iterable

from hookline.journal.conformance import a_record
from hookline.journal.kafka.appender import Call, Turns, Waiting

CALL = Call(lambda error: None, 0, lambda call, error, message: None)


def waiting(value: bytes) -> Waiting:
    """A record of these bytes."""
    return Waiting(CALL, a_record(1), value)


def values(turn: Iterable[Waiting]) -> list[bytes]:
    """The records of a turn."""
    return [each.value for each in turn]


def test_a_turn_is_what_came_first_up_to_its_size() -> None:
    """Records keep their order; a turn holds no more bytes than it may."""
    turns = Turns()
    for value in (b"aa", b"bb", b"cc"):
        turns.add(3, waiting(value))
    assert values(turns.take(3, bytes_max=5)) == [b"aa", b"bb"]
    assert values(turns.take(3, bytes_max=5)) == [b"cc"]
    assert turns.partitions() == []


def test_a_record_larger_than_a_turn_is_a_turn() -> None:
    """Nothing waits for ever."""
    turns = Turns()
    turns.add(0, waiting(b"large"))
    turns.add(0, waiting(b"x"))
    assert values(turns.take(0, bytes_max=2)) == [b"large"]
    assert values(turns.take(0, bytes_max=2)) == [b"x"]


def test_partitions_wait_by_themselves() -> None:
    """What is taken of one leaves the others."""
    turns = Turns()
    turns.add(0, waiting(b"a"))
    turns.add(1, waiting(b"b"))
    assert values(turns.take_all(0)) == [b"a"]
    assert turns.partitions() == [1]
    assert turns.take_all(0) == turns.take(0) == []
