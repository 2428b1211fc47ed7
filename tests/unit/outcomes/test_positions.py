"""The blobs of a checkpoint."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hookline.outcomes import positions
from hookline.outcomes.positions import SavedBackfill, SavedCursor, SavedPositions

OFFSETS = st.sets(st.integers(0, 2**48 - 1) | st.integers(0, 60)).map(sorted)


@given(OFFSETS)
def test_ranges_hold_exactly_the_offsets(offsets: list[int]) -> None:
    """Ascending offsets survive the way into ranges and back."""
    assert list(positions.to_offsets(positions.to_ranges(offsets))) == offsets


@given(OFFSETS)
def test_neighbours_share_a_range(offsets: list[int]) -> None:
    """There is one range per run of neighbours, so a blob grows with the gaps, not with the events."""
    runs = sum(1 for offset in offsets if offset - 1 not in set(offsets))
    assert len(positions.to_ranges(offsets)) == 2 * runs


def test_blobs_survive() -> None:
    """What is saved of lanes is what is read, backfills included."""
    saved = SavedPositions({1: (0, 5, 9, 1), 70_000: (2**48 - 1, 1)})
    assert positions.decode_offset_sets(positions.encode(saved)) == saved
    cursor = SavedCursor(False, (3, 2), (SavedBackfill(1, 9, "website"),))
    assert positions.decode_cursor(positions.encode(cursor)) == cursor


def test_a_blob_without_side_intakes_is_read() -> None:
    """Fields are only ever added at the end: a shorter blob gets their defaults."""
    import msgspec

    assert positions.decode_cursor(msgspec.msgpack.encode([True, [1, 2]])) == SavedCursor(True, (1, 2))
