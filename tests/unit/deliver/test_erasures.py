"""What was erased is not sent any more, whatever the readers of deliver had of it before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hookline.database.location import location_of
from hookline.privacy.shared_erased import CHANGES
from hookline.privacy.suppressions import PrivacyStore
from hookline.replays.offset_set import OffsetSet, encode_offset_sets
from tests.unit.deliver.rig import Rig, destination, source
from tests.unit.deliver.test_feeder import append_groups


@pytest.fixture
def privacy(rig: Rig) -> Iterator[PrivacyStore]:
    """Where control writes what is to be erased."""
    store = PrivacyStore(location_of(rig.settings, "privacy"))
    yield store
    store.close()


def erase(rig: Rig, privacy: PrivacyStore, offset: int) -> None:
    """Erase an event as control has it done: in the journal, then in deliver, which says when nothing is left."""
    assert rig.appender.erase(0, [offset]) == 1
    with privacy.change(CHANGES) as execute:
        execute(
            "INSERT INTO deletion_requests (at, author, action, state, updated_at, round, places)"
            " VALUES (1, 'a', 'delete', 'clearing', 1, 1, ?)",
            (encode_offset_sets({0: OffsetSet([offset])}),),
        )
    for _ in range(3):
        rig.follow()
        rig.checkpoint()
    assert rig.role.store.reader.erased(1, 1, 1) is not None


def test_a_reader_that_waits_has_nothing_of_it(rig: Rig, privacy: PrivacyStore, small_queues: tuple[int, int]) -> None:
    """A full lane keeps the reader waiting, which has read ahead what was erased meanwhile."""
    rig.change(source(), destination("crm"))
    for first in range(0, 90, 3):
        rig.append(*(f"m{first + n}" for n in range(3)))
    rig.restart()
    rig.turn()
    erase(rig, privacy, 60)
    rig.come_to_rest()
    assert rig.offsets("crm") == [each for each in range(90) if each != 60]


def test_a_lane_that_catches_up_has_nothing_of_it(
    rig: Rig, privacy: PrivacyStore, small_queues: tuple[int, int]
) -> None:
    """The same of a lane that fell behind, and of the reader that is at its place."""
    rig.change(source(), destination("fast"), destination("slow"))
    rig.start()
    for _ in range(30):
        append_groups(rig, 1, 3)
        rig.answer_all(200, "fast")
    while not rig.role.feeder.catch_up._readings:
        rig.answer(next(each for each in rig.network.waiting if each.destination == "slow"))
        rig.turn()
    erase(rig, privacy, 60)
    rig.come_to_rest()
    assert rig.offsets("slow") == [each for each in range(90) if each != 60]
