"""What sinks say of themselves and of events, on its way from their thread to the next checkpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from hookline.connections.model import Destination
from hookline.deliver.lanes.lane import Target
from hookline.deliver.lanes.sinks import NEWS_MAX, REMARK_CHARACTERS_MAX, SinkParcel, SinkRoute, SinkTemplate
from hookline.deliver.store.batch import RemarkRow
from hookline.kinds.model import KindSettings
from hookline.kinds.sink import SinkEvent, SinkFailed, Verdict
from tests.unit.deliver.rig import Rig, destination, source

Notice = Callable[[str, str], None]


class Talking:
    """A sink that says something at each write, and may fail then."""

    def __init__(self, notice: Notice, sentences: Sequence[str], *, fails: bool) -> None:
        self._notice = notice
        self._sentences = sentences
        self._fails = fails

    def write(self, events: Sequence[SinkEvent]) -> Sequence[Verdict]:
        for sentence in self._sentences:
            self._notice("columns_added", sentence)
        if self._fails:
            raise SinkFailed("not now")
        return [Verdict(True)] * len(events)

    def close(self) -> None:
        return


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """A role with one lane."""
    made = Rig(tmp_path)
    made.change(source(), destination())
    made.start()
    yield made
    made.close()


def news(rig: Rig, *writes: Sequence[str], fails: bool = False) -> list[str]:
    """Write so often, with a sink that says these sentences; return what the next checkpoint would save."""
    engine = rig.role.engine
    engine.batch.news.clear()
    settings = KindSettings({"where": "folder"})
    lake = Destination(id="lake", name="Lake", kind="files", settings=settings)
    left = list(writes)

    async def write() -> None:
        route = SinkRoute(lake, lambda notice: Talking(notice, left.pop(0), fails=fails), engine)
        target = Target(SinkTemplate(lake), 0, 1, route)
        target.lane = rig.lane("crm")
        route.ask(target, [(SinkParcel([], []), b"")] * len(writes), 0)
        await asyncio.to_thread(route.close, wait=True)
        await asyncio.sleep(0)  # the results of its thread came before this

    asyncio.run(write())
    return [each.sentence for each in engine.batch.news]


def test_what_is_said_is_in_the_next_checkpoint(rig: Rig) -> None:
    """Also of a write that fails: the tables are there nevertheless. Long sentences are cut, and many are too many."""
    assert news(rig, ["one", "two"]) == ["one", "two"]
    assert news(rig, ["one"], fails=True) == ["one"]
    assert news(rig, ["x" * 900]) == ["x" * REMARK_CHARACTERS_MAX]
    assert len(news(rig, [f"column {number}" for number in range(500)])) == NEWS_MAX


def test_what_is_said_again_after_an_outage_is_told_once(rig: Rig) -> None:
    """The sink was opened anew and has forgotten that it said so."""
    assert news(rig, ["full", "one"], ["full", "two"], fails=True) == ["full", "one", "two"]


def test_remarks_are_kept_of_what_was_accepted() -> None:
    """By lane and place; events without a word have no row."""
    parcel = SinkParcel([], [SinkEvent(2, offset, 0, {}, b"") for offset in range(3)])
    parcel.verdicts = [Verdict(True), Verdict(True, remark="r" * 900), Verdict(False, remark="no")]
    assert parcel.remarks(7) == [RemarkRow(7, 2, 1, "r" * REMARK_CHARACTERS_MAX)]
