"""Figures of destinations: they add up at any moment, and are the same wherever they are asked for."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hookline.api.auth.service import session_store
from hookline.cli.admin_api import AdminApi
from hookline.connections.model import Filter
from hookline.features.destinations import backlog
from hookline.features.destinations.backlog import BacklogCounter, Count, Lane, Stretch
from hookline.features.destinations.figures import Figures, FiguresLog, figures_log
from hookline.features.insights.cli import print_destination
from hookline.journal.opening import open_reader
from hookline.journal.port import Group, JournalAway, Reader
from tests.service.waiting import wait_until
from tests.unit.control.running import TOKEN, Running
from tests.unit.deliver.rig import Rig, destination, source

EVENTS = 600


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """A deliver role with two destinations, one of which gets a part of the events."""
    (tmp_path / "run").mkdir()
    made = Rig(tmp_path)
    odd = Filter(condition='event = "odd"', do="drop")
    made.change(source(), source("app"), destination("crm"), destination("erp", filters=(odd,)))
    made.start()
    yield made
    made.close()


def events(rig: Rig, first: int, count: int) -> None:
    """Append events, each third of another source, each fifth one that a filter drops."""
    for number in range(first, first + count):
        name = "odd" if number % 5 == 0 else "even"
        body = b'{"type":"track","event":"%s","userId":"u"}' % name.encode()
        rig.append(rig.record(f"m{number}", "app" if number % 3 == 0 else "website", body=body))


def owed(first: int, count: int) -> tuple[int, int]:
    """How many of them crm and erp are to get."""
    of_website = [number for number in range(first, first + count) if number % 3]
    return len(of_website), sum(1 for number in of_website if number % 5)


def sum_of(figures: Figures) -> int:
    """Every event has one status."""
    return figures.queued + figures.retrying + figures.failed + figures.expired + figures.delivered


def test_figures_add_up_whatever_happens(rig: Rig) -> None:
    """Seeded answers of every kind, pauses and restarts: after each checkpoint every routed event is in one figure."""
    picked = random.Random(5)
    sent = 0
    with Running(rig.folder) as control:
        for round in range(30):
            events(rig, sent, 20)
            sent += 20
            rig.turn()
            for request in list(rig.network.waiting):
                if picked.random() < 0.8:
                    rig.answer(request, picked.choice((200, 200, 200, 503, 400, 429)))
            rig.turn()
            if round % 11 == 10:
                rig.checkpoint()
                rig.kill()
                rig.restart()
            rig.pass_time(picked.choice((0.1, 2.0, 30.0)))
            rig.checkpoint()
            found = figures_log(control.services).look(fresh=True).figures
            assert (sum_of(found["crm"]), sum_of(found["erp"])) == owed(0, sent), (round, found)
            assert found["crm"].queued_exact
    assert min(found["crm"].delivered, found["crm"].failed, found["crm"].open) > 0


def test_a_pause_makes_all_of_it_queued(rig: Rig) -> None:
    """As the status of each event says: what has failed before waits like everything else until somebody resumes."""
    events(rig, 1, 2)
    rig.turn()
    rig.answer_all(503)
    rig.checkpoint()
    with Running(rig.folder) as control:
        assert figures_log(control.services).look(fresh=True).figures["crm"].retrying == 2
        assert control.api("POST", "/destinations/crm/pause").json["state"] == "pausing"
        rig.follow()
        rig.checkpoint()
        found = control.api("POST", "/destinations/crm/pause").json
        assert found["state"] == "paused"
        assert (found["figures"]["queued"], found["figures"]["retrying"]) == (2, 0)
        assert found["figures"]["oldestAt"] is not None


def test_page_api_command_line_and_metrics_agree(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    """While events come and answers do: all four have the same figures, of the same moment."""
    with Running(rig.folder) as control:
        log = figures_log(control.services)
        admin = AdminApi(f"http://127.0.0.1:{control.port}", TOKEN)
        agreed = 0
        for round in range(12):
            events(rig, 40 * round, 40)
            rig.turn()
            for request in list(rig.network.waiting)[round % 7 :]:
                rig.answer(request, 503 if request.offset % 4 == 0 else 400 if request.offset % 7 == 0 else 200)
            rig.checkpoint()
            rig.loop.run_until_complete(rig.role.reports.publish())
            log.look(fresh=True)
            api = control.api("GET", "/destinations/crm/metrics").json["figures"]
            metrics = control.call("GET", "/metrics").text
            print_destination(admin, "crm", "1h", as_json=False)
            lines = capsys.readouterr().out
            page = page_of(control, "crm")
            if log.look().as_of != api["asOf"]:
                continue  # it took longer than a second: they are of two moments
            agreed += 1
            for name in ("queued", "retrying", "failed", "expired"):
                count = api[name]
                assert f'hookline_destination_{name}{{destination="crm"}} {count:.1f}' in metrics, (name, api)
                assert f"{count} {name}" in lines, (lines, api)
                assert shown(page, name.capitalize()) == str(count), (name, api)
            assert f'hookline_destination_delivered_total{{destination="crm"}} {api["delivered"]:.1f}' in metrics
            assert f"{api['delivered']} delivered (as of {api['asOf']})" in lines
            assert shown(page, "Delivered") == str(api["delivered"])
    assert agreed >= 6
    assert api["failed"]
    assert api["retrying"]


def page_of(control: Running, id: str) -> str:
    """A destination's page, as somebody who has signed in gets it."""
    sessions = session_store(control.services)
    cookie = f"{sessions.cookie_name}={sessions.open()}"
    return control.call("GET", f"/destinations/{id}", headers={"Cookie": cookie}, token=False).text


def shown(page: str, name: str) -> str:
    """The number that the page shows under a name."""
    value = page.split(f"<dt>{name}</dt><dd>", 1)[1].split("</dd>", 1)[0]
    return "".join(part.split(">", 1)[-1] for part in value.split("<")).strip().split()[-1]


def test_a_long_backlog_is_at_most_until_it_is_counted(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread goes on with what a question could not count, and then the count is exact."""
    monkeypatch.setattr(backlog, "RECORDS_PER_QUESTION", 100)
    monkeypatch.setattr(backlog, "ALLOWANCE_SECONDS", 0.0)
    monkeypatch.setattr(backlog, "CORE_SHARE", 0.005)  # so slowly that the page is there before
    with Running(rig.folder) as control:
        control.api("POST", "/destinations/crm/pause")
        control.api("POST", "/destinations/erp/pause")
        rig.follow()
        for first in range(0, 3 * backlog.CHUNK, 1_000):
            events(rig, first, 1_000)
        count = 1_000 * len(range(0, 3 * backlog.CHUNK, 1_000))
        rig.turn()
        rig.checkpoint()
        log = figures_log(control.services)
        first_look = log.look(fresh=True).figures
        assert not first_look["erp"].queued_exact
        assert first_look["erp"].queued > owed(0, count)[1]
        assert "still counting" in page_of(control, "erp")
        monkeypatch.setattr(backlog, "CORE_SHARE", 1.0)
        wait_until(lambda: log.look(fresh=True).figures["erp"].queued_exact, what="the count")
        found = log.look(fresh=True).figures
        assert (found["crm"].queued, found["erp"].queued) == owed(0, count)
        # Another filter: what was counted for the old one says nothing.
        control.api("PATCH", "/destinations/erp", {"filters": []})
        wait_until(lambda: log.look(fresh=True).figures["erp"].queued == owed(0, count)[0], what="it is counted anew")


def lane_of(control: Running, id: str, start: int, end: int) -> Lane:
    """A destination with a stretch of its own."""
    stored = control.services.store.destination(id)
    assert stored is not None
    assert stored.lane is not None
    return Lane(stored.object, stored.lane, [Stretch(0, start, end)])


def test_a_lane_that_moves_on_takes_its_events_out_of_the_count(rig: Rig) -> None:
    """At every offset the bits say what a fresh count says, and no record is read twice."""
    events(rig, 0, EVENTS)
    with Running(rig.folder) as control, closing(open_reader(rig.folder / "journal")) as journal:
        read = Counting(journal)
        counter = BacklogCounter(lambda: read)
        for start, end in ((0, 200), (10, 300), (150, EVENTS), (599, 600)):
            assert counter.count([lane_of(control, "erp", start, end)]) == {
                "erp": Count(owed(start, end - start)[1], True, first_of(start, end))
            }
        counter.close()
    assert read.records <= EVENTS + backlog.CHUNK


def test_a_lane_that_goes_back_is_counted_from_there(rig: Rig) -> None:
    """When a breaker opens, the lane's place is before its first event that failed, and not where it had read to."""
    events(rig, 0, EVENTS)
    with Running(rig.folder) as control, closing(open_reader(rig.folder / "journal")) as journal:
        counter = BacklogCounter(lambda: journal)
        for start, end in ((300, 400), (350, 500), (20, EVENTS), (40, EVENTS)):
            assert counter.count([lane_of(control, "erp", start, end)]) == {
                "erp": Count(owed(start, end - start)[1], True, first_of(start, end))
            }
        counter.close()


def first_of(start: int, end: int) -> tuple[tuple[int, int], ...]:
    """The first event of erp in a stretch."""
    return tuple((0, number) for number in range(start, end) if number % 3 and number % 5)[:1]


class Counting:
    """A journal that counts what is read of it, or that is away."""

    def __init__(self, journal: Reader, is_away: bool = False) -> None:
        self._journal = journal
        self._is_away = is_away
        self.records = 0

    def read(self, partition: int, offset: int) -> Iterator[Group]:
        """Read on."""
        if self._is_away:
            raise JournalAway("brokers do not answer")
        for group in self._journal.read(partition, offset):
            self.records += len(group.records)
            yield group

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)


class WatchedReader(Counting):
    """A journal that, in the middle of being read by the counting thread, has somebody ask, and notes who comes."""

    def __init__(self, journal: Reader, ask: Callable[[], object]) -> None:
        super().__init__(journal)
        self._ask = ask
        self._is_busy = False
        self.asking: list[threading.Thread] = []
        self.is_shared = threading.Event()

    def read(self, partition: int, offset: int) -> Iterator[Group]:
        """Read on."""
        if threading.current_thread().name == "backlog-counter":
            self._is_busy = True
            self.asking.append(threading.Thread(target=self._ask))
            self.asking[-1].start()
            self.is_shared.wait(0.2)
            self._is_busy = False
        yield from super().read(partition, offset)

    def __getattr__(self, name: str) -> Any:
        if self._is_busy:
            self.is_shared.set()
        return super().__getattr__(name)


def test_the_journal_is_read_by_one_thread_at_a_time(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader is no two threads': whoever asks for figures waits while the counting thread reads."""
    monkeypatch.setattr(backlog, "CHUNK_BITS", 4)
    monkeypatch.setattr(backlog, "CHUNK", 16)
    monkeypatch.setattr(backlog, "RECORDS_PER_QUESTION", 1)
    monkeypatch.setattr(backlog, "RECORDS_PER_STEP", 1)
    events(rig, 0, 200)
    with Running(rig.folder) as control, closing(figures_of(control)) as log:
        journal = WatchedReader(open_reader(rig.folder / "journal"), lambda: log.look(fresh=True))
        monkeypatch.setattr(log, "_reader", journal)
        log.look(fresh=True)
        wait_until(lambda: bool(journal.asking), what="the counting thread reads")
        wait_until(lambda: log.look(fresh=True).figures["erp"].queued_exact, what="all is counted")
        for each in journal.asking:
            each.join()
    assert not journal.is_shared.is_set()


def figures_of(control: Running) -> FiguresLog:
    """Figures that nobody else asks for."""
    return FiguresLog(control.services.settings, control.services.store)


def test_while_brokers_are_away_all_that_can_wait_is_said(rig: Rig) -> None:
    """No error, and no number that is too small."""
    events(rig, 0, 10)
    with Running(rig.folder) as control, closing(open_reader(rig.folder / "journal")) as journal:
        counter = BacklogCounter(lambda: Counting(journal, is_away=True))
        assert counter.count([lane_of(control, "crm", 0, 10)]) == {"crm": Count(10, False)}
        counter.close()


def test_the_thread_ends_when_nobody_asks(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting for nobody would take a share of a core for nothing."""
    monkeypatch.setattr(backlog, "RECORDS_PER_QUESTION", 1)
    events(rig, 0, EVENTS)
    now = [0.0]
    with Running(rig.folder) as control, closing(open_reader(rig.folder / "journal")) as journal:
        counter = BacklogCounter(lambda: Counting(journal, is_away=True), clock=lambda: now[0])
        counter.count([lane_of(control, "crm", 0, EVENTS)])
        assert "backlog-counter" in {thread.name for thread in threading.enumerate()}
        now[0] = backlog.ASKED_SECONDS + 1
        wait_until(
            lambda: "backlog-counter" not in {thread.name for thread in threading.enumerate()}, what="it has ended"
        )
        counter.close()


def test_the_share_of_a_core_is_kept(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a count that took a tenth of a second of its allowance, the thread rests for five."""
    rests: list[float] = []
    spent = iter([0.0, 1.1, 1.1, 1.2])
    monkeypatch.setattr(backlog, "RECORDS_PER_QUESTION", 1)
    monkeypatch.setattr(backlog.time, "thread_time", lambda: next(spent, 1.2))
    events(rig, 0, EVENTS)
    with Running(rig.folder) as control, closing(open_reader(rig.folder / "journal")) as journal:
        counter = BacklogCounter(lambda: Counting(journal, is_away=True), clock=lambda: 0.0)

        def rest(seconds: float) -> bool:
            rests.append(seconds)
            if len(rests) >= 2:
                counter._ended.is_set = lambda: True  # type: ignore[method-assign]
            return False

        monkeypatch.setattr(counter._ended, "wait", rest)
        counter.count([lane_of(control, "crm", 0, EVENTS)])
        wait_until(lambda: len(rests) >= 2, what="two rests")
    assert rests[:2] == [pytest.approx(5.0), pytest.approx(10.0)]


def test_looks_are_kept_for_a_moment(rig: Rig) -> None:
    """Whoever asks within a second gets the same figures; whoever has changed something, fresh ones."""
    with Running(rig.folder) as control:
        log = figures_log(control.services)
        first = log.look()
        assert log.look() is first
        time.sleep(0.002)
        assert log.look(fresh=True).as_of > first.as_of
