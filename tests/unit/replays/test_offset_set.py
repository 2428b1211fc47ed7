"""Sets of offsets: whatever is put in, the answers are those of a plain set."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hookline.replays.offset_set import OffsetSet, decode_offset_sets, encode_offset_sets

offsets = st.sets(st.integers(0, 300), max_size=60)


@given(offsets, st.integers(0, 310))
def test_they_answer_as_a_set_does(some: set[int], asked: int) -> None:
    """Membership, count, order, and the next one from anywhere."""
    positions = OffsetSet(sorted(some))
    assert list(positions) == sorted(some)
    assert positions.count == len(some)
    assert (asked in positions) == (asked in some)
    assert positions.following(asked) == min((each for each in some if each >= asked), default=positions.end)
    assert (positions.first, positions.end) == ((min(some), max(some) + 1) if some else (0, 0))


@given(st.dictionaries(st.integers(0, 3), offsets, max_size=3))
def test_they_survive_being_stored(some: dict[int, set[int]]) -> None:
    """What is decoded is what was encoded."""
    stored = encode_offset_sets({partition: OffsetSet(sorted(each)) for partition, each in some.items()})
    assert {partition: set(positions) for partition, positions in decode_offset_sets(stored).items()} == some


def test_neighbours_are_one_run() -> None:
    """A stretch takes as little as a single offset."""
    assert OffsetSet(range(1_000)).runs == 1
    assert OffsetSet([1, 2, 4, 5, 6]).runs == 2
