"""What sinks say of themselves and of events, on its way from their thread to the next checkpoint."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from hookline.connections.model import Destination
from hookline.deliver.lanes import sinks as module
from hookline.deliver.lanes.lane import Target
from hookline.deliver.lanes.sinks import NEWS_MAX, REMARK_CHARACTERS_MAX, SinkParcel, SinkRoute, Sinks, SinkTemplate
from hookline.deliver.store.batch import RemarkRow
from hookline.kinds.model import KindSettings
from hookline.kinds.sink import SinkContext, SinkEvent, SinkFailed, Verdict
from hookline.settings import Settings
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
        route.close()
        await asyncio.to_thread(route.join, 10)
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


class Held(Talking):
    """A sink whose write takes as long as the test says."""

    def __init__(self, notice: Notice) -> None:
        super().__init__(notice, ["written"], fails=False)
        self.begun, self.may_end = threading.Event(), threading.Event()

    def open_sink(self, context: SinkContext, settings: KindSettings) -> Held:
        self._notice = context.notice
        return self

    def write(self, events: Sequence[SinkEvent]) -> Sequence[Verdict]:
        self.begun.set()
        assert self.may_end.wait(10)
        return super().write(events)


@pytest.mark.parametrize("is_changed", [False, True], ids=["its lane is there", "its settings were just changed"])
def test_the_end_of_the_role_waits_for_what_is_being_written(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, is_changed: bool
) -> None:
    """Its result is heard, so that the last checkpoint has it, and nothing is heard after the files are closed."""
    held = Held(lambda name, sentence: None)
    monkeypatch.setattr(module, "sink_module", lambda name: held)
    engine = rig.role.engine
    sinks = Sinks(engine, Settings())

    def lake(folder: str) -> Destination:
        return Destination(id="lake", name="Lake", kind="files", settings=KindSettings({"where": folder}))

    async def run(seconds: float) -> list[str]:
        engine.batch.news.clear()
        monkeypatch.setattr(module, "FINISH_SECONDS_MAX", seconds)
        held.begun.clear()
        held.may_end.clear()
        (target,) = sinks.requests_of(lake("one"), 1, None).targets
        target.lane = rig.lane("crm")
        target.route.ask(target, [(SinkParcel([], []), b"")], 0)
        assert await asyncio.to_thread(held.begun.wait, 10)
        if is_changed:
            sinks.requests_of(lake("two"), 1, None)
        finishing = asyncio.create_task(sinks.finish())
        await asyncio.sleep(0.05)
        if seconds < 1:
            await finishing
            sinks.close()
        assert not engine.batch.news
        held.may_end.set()
        await finishing
        await asyncio.to_thread(target.route.join, 10)
        await asyncio.sleep(0)
        return [each.sentence for each in engine.batch.news]

    assert asyncio.run(run(10.0)) == ["written"]
    assert asyncio.run(run(0.01)) == []


def test_remarks_are_kept_of_what_was_accepted() -> None:
    """By lane and place; events without a word have no row."""
    parcel = SinkParcel([], [SinkEvent(2, offset, 0, {}, b"") for offset in range(3)])
    parcel.verdicts = [Verdict(True), Verdict(True, remark="r" * 900), Verdict(False, remark="no")]
    assert parcel.remarks(7) == [RemarkRow(7, 2, 1, "r" * REMARK_CHARACTERS_MAX)]
