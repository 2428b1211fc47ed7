"""Appends to a journal on Kafka are answered once each, whatever becomes of their records, and so are questions."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from confluent_kafka import KafkaError, KafkaException

from hookline.collect import role
from hookline.collect.role import JournalWatch
from hookline.database.sqlite import DatabaseAway
from hookline.journal.conformance import a_record
from hookline.journal.kafka import appender, fetching, reader, topic
from hookline.journal.kafka.address import KafkaAddress
from hookline.journal.kafka.appender import TURN_BYTES, KafkaAppender
from hookline.journal.kafka.codec import encode
from hookline.journal.kafka.cursors import Run
from hookline.journal.kafka.erased import ErasedLog, ErasedPlaces
from hookline.journal.kafka.fetching import KEPT_SECONDS, FetchingReader
from hookline.journal.kafka.reader import KafkaReader
from hookline.journal.kafka.topic import Admin, Watermarks, answered
from hookline.journal.port import (
    Group,
    JournalAway,
    JournalCorrupt,
    JournalFailed,
    JournalFetching,
    JournalFull,
)
from hookline.journal.record import Record
from hookline.journal.remote import RemoteAppender, serve_append
from tests.service.waiting import wait_until

MESSAGE = SimpleNamespace(partition=lambda: 0, offset=lambda: None)
LARGE = b'{"x":"%b"}' % (b"x" * (TURN_BYTES * 3 // 4))
"""Of these a turn holds one."""
TIMED_OUT = KafkaError(KafkaError._MSG_TIMED_OUT)


class Brokers:
    """Stands for the client: keeps what each record is to be told, and tells it when asked to."""

    def __init__(self) -> None:
        self.due: list[Callable[[KafkaError | None, Any], None]] = []

    def produce(self, *record: object, on_delivery: Callable[[KafkaError | None, Any], None], **more: object) -> None:
        """Take a record."""
        self.due.append(on_delivery)

    def poll(self, seconds: float) -> int:
        """Say nothing by itself."""
        return 0

    def close(self) -> None:
        """Hold nothing."""


class Marks:
    """Stands for who asks about partitions: each has ten records, once ``answers`` is set."""

    def __init__(self) -> None:
        self.answers = threading.Event()

    def of(self, partition: int) -> tuple[int, int]:
        """Wait for brokers."""
        assert self.answers.wait(10)
        return 0, 10

    def close(self) -> None:
        """Hold nothing."""


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    """Instead of a client."""
    stand_in = Brokers()
    monkeypatch.setattr(appender, "Producer", lambda options: stand_in)
    monkeypatch.setattr(appender, "Admin", lambda address: SimpleNamespace())
    return stand_in


@pytest.fixture
def marks(monkeypatch: pytest.MonkeyPatch) -> Marks:
    """Instead of another client."""
    stand_in = Marks()
    monkeypatch.setattr(appender, "Watermarks", lambda address: stand_in)
    return stand_in


def opened(folder: Path) -> KafkaAppender:
    """An appender whose topic was found."""
    made = KafkaAppender(
        folder, KafkaAddress("127.0.0.1:9", "topic"), retention_seconds=60.0, retention_bytes=1_000_000_000
    )
    made.away = ""
    return made


def test_an_append_that_fails_in_two_turns_is_answered_once(tmp_path: Path, brokers: Brokers, marks: Marks) -> None:
    """The first of its records fails, and with it those that wait for their turn: one answer, and its bytes are free.

    Who waits for everything before is told then, and not earlier.
    """

    async def scenario() -> None:
        made = opened(tmp_path)
        answers: list[BaseException | None] = []
        behind: list[BaseException | None] = []
        made.append_soon([a_record(number, body=LARGE) for number in (1, 2)], answers.append)
        made.append_soon([], behind.append)
        (told,) = brokers.due
        told(TIMED_OUT, MESSAGE)
        await asyncio.sleep(0.01)
        assert [type(answer) for answer in answers] == [JournalAway]
        assert behind == [None]
        assert made.pending_bytes == 0
        await made.close()

    asyncio.run(scenario())


def test_a_client_that_ends_for_good_answers_everybody(
    tmp_path: Path, brokers: Brokers, marks: Marks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says so once, out of a poll, and afterwards of each record only that it was given up: nobody waits on, and who
    runs the journal hears of it, so that it is opened anew."""
    said: list[BaseException] = []

    def ends(seconds: float) -> int:
        if not said:
            said.append(KafkaException(KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "desynchronized", True)))
            raise said[0]
        while brokers.due:
            brokers.due.pop()(KafkaError(KafkaError._PURGE_QUEUE), MESSAGE)
        return 0

    async def scenario() -> None:
        made = opened(tmp_path)
        failures: list[BaseException] = []
        made._on_failed = failures.append
        monkeypatch.setattr(brokers, "poll", ends)
        answers: list[BaseException | None] = []
        both = asyncio.Event()

        def answer(error: BaseException | None) -> None:
            answers.append(error)
            if len(answers) == 2:
                both.set()

        for number in (1, 2):  # the second one waits for its turn
            made.append_soon([a_record(number)], answer)
        await asyncio.wait_for(both.wait(), 30)
        assert [type(each) for each in (*answers, *failures)] == [JournalFailed] * 3
        assert made.pending_bytes == 0
        await made.close()

    asyncio.run(scenario())


def test_an_erasure_that_waits_for_brokers_holds_up_nobody(tmp_path: Path, brokers: Brokers, marks: Marks) -> None:
    """Collect took no request and gave no answer for up to five seconds, for each 250 events of a deletion request."""

    async def scenario() -> None:
        made = opened(tmp_path)
        server = await serve_append(tmp_path / "s", made)
        remote = RemoteAppender(tmp_path / "s")
        erasing = asyncio.create_task(remote.erase(0, [3, 5]))
        done, _ = await asyncio.wait({erasing}, timeout=0.2)
        taken: list[BaseException | None] = []
        made.append_soon([a_record(1)], taken.append)
        brokers.due.pop()(None, MESSAGE)
        assert (taken, done) == ([None], set())
        marks.answers.set()
        await erasing
        assert ErasedPlaces(tmp_path).of(0) == {3, 5}
        await remote.close()
        server.close()
        await made.close()

    asyncio.run(scenario())


def test_an_erasure_without_room_for_its_note_says_so(
    tmp_path: Path, brokers: Brokers, marks: Marks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asked heard that collect does not answer, and the log had a fault each time."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def scenario() -> None:
        made = opened(tmp_path)
        server = await serve_append(tmp_path / "s", made)
        remote = RemoteAppender(tmp_path / "s")
        monkeypatch.setattr(ErasedLog, "add", refuse)
        with pytest.raises(JournalFull, match="No space left on device"):
            await remote.erase(0, [3])
        await remote.close()
        server.close()
        await made.close()

    marks.answers.set()
    asyncio.run(scenario())


def test_a_note_of_what_is_erased_that_did_not_reach_the_disk_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked again, it was taken for one that is there: a power cut could take it, and bring the erased event back."""

    def refuse(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    log = ErasedLog(tmp_path)
    log.add(0, [3])
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        for _ in range(2):
            with pytest.raises(OSError, match="Input/output error"):
                log.add(0, [5])
    assert ErasedPlaces(tmp_path).of(0) == {3}
    log.add(0, [5])
    assert ErasedPlaces(tmp_path).of(0) == {3, 5}


def test_a_broker_that_is_silent_is_one_that_is_away() -> None:
    """It answers neither that something was done nor that it was not: a role waits for that, and does not end."""
    with pytest.raises(KafkaException) as silent:
        answered(Future[None](), 0.01)
    assert isinstance(Admin(KafkaAddress("127.0.0.1:9", "topic")).explained(silent.value), JournalAway)


def test_who_asks_while_the_client_is_closed_hears_that_it_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that erases, or drops old events, may ask at the end of the role: it was a fault in the log."""

    def closed(*_: object) -> None:
        raise RuntimeError("Consumer closed")

    monkeypatch.setattr(topic, "Consumer", lambda options: SimpleNamespace(get_watermark_offsets=closed))
    with pytest.raises(JournalAway, match="Consumer closed"):
        Watermarks(KafkaAddress("127.0.0.1:9", "topic")).of(0)


def test_a_record_that_is_kept_while_it_is_fetched_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bytes stood there for good: in the end nothing that was fetched stayed until it was asked for again."""
    asked, answers, arrived = threading.Event(), threading.Event(), threading.Event()
    record = a_record(5)

    def around(partition: int, offset: int) -> Group:
        asked.set()
        assert answers.wait(10)
        return Group(offset, [record], 1_000_000)

    stand_in = SimpleNamespace(around=around, limit_wait=lambda *_: None, close=lambda: None)
    monkeypatch.setattr(fetching, "KafkaReader", lambda folder, address: stand_in)
    with closing(FetchingReader(tmp_path, KafkaAddress("127.0.0.1:9", "topic"), arrived.set)) as reading:
        with pytest.raises(JournalFetching):
            reading.get(0, 5)
        assert asked.wait(10)
        reading.keep(0, 5, record)
        answers.set()
        assert arrived.wait(10)
        assert reading._size_bytes == 1_000_000


def test_what_nobody_asks_for_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stayed until there was no room for more: memory grew for hours."""
    stand_in = SimpleNamespace(around=lambda partition, offset: None, limit_wait=lambda *_: None, close=lambda: None)
    monkeypatch.setattr(fetching, "KafkaReader", lambda folder, address: stand_in)
    seconds = [0.0]
    address = KafkaAddress("127.0.0.1:9", "topic")
    with closing(FetchingReader(tmp_path, address, lambda: None, lambda: seconds[0])) as reading:
        for offset in (5, 50):
            reading.keep(0, offset, a_record(offset))
        seconds[0] += KEPT_SECONDS / 2
        assert reading.get(0, 5) == a_record(5)
        seconds[0] += KEPT_SECONDS / 2
        reading.keep(0, 500, a_record(500))
        assert reading.get(0, 5) == a_record(5)
        with pytest.raises(JournalFetching):
            reading.get(0, 50)


def test_what_was_fetched_is_forgotten_though_nothing_more_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread looks by itself: when nothing more is asked for, nothing more is kept."""
    monkeypatch.setattr(fetching, "KafkaReader", lambda folder, address: MagicMock())
    monkeypatch.setattr(fetching, "KEPT_SECONDS", 0.1)
    monkeypatch.setattr(fetching, "READS_ON_SECONDS", 0.1)
    with closing(FetchingReader(tmp_path, KafkaAddress("127.0.0.1:9", "topic"), lambda: None)) as reading:
        reading.keep(0, 5, a_record(5))
        wait_until(lambda: reading._size_bytes == 0, 10, "it is forgotten")


def test_a_stretch_waits_for_no_crowd_of_single_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lane that caught up waited before each group for all that another was to try again."""
    fetched: list[int] = []
    asked, answers, done = threading.Event(), threading.Event(), threading.Event()

    def around(partition: int, offset: int) -> None:
        asked.set()
        assert answers.wait(10)
        fetched.append(offset)
        if len(fetched) == 5:
            done.set()

    def read(partition: int, offset: int) -> Iterator[Group]:
        fetched.append(offset)
        yield Group(offset, [a_record(offset)], 1_000)

    stand_in = SimpleNamespace(around=around, read=read, limit_wait=lambda *_: None, close=lambda: None)
    monkeypatch.setattr(fetching, "KafkaReader", lambda folder, address: stand_in)
    with closing(FetchingReader(tmp_path, KafkaAddress("127.0.0.1:9", "topic"), lambda: None)) as reading:
        for offset in (10_000, 20_000, 30_000, 40_000):
            with pytest.raises(JournalFetching):
                reading.get(0, offset)
            assert asked.wait(10)
        with pytest.raises(JournalFetching):
            next(reading.read(0, 7))
        answers.set()
        assert done.wait(10)
    assert fetched == [10_000, 7, 20_000, 30_000, 40_000]


def test_records_near_each_other_are_fetched_in_one_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries that are minutes old were looked up one by one, 20 a second. Who asked for what is not there hears so."""
    asked, answers, arrived = threading.Event(), threading.Event(), threading.Event()
    together: list[Sequence[int]] = []

    def around(partition: int, offset: int) -> Group:
        asked.set()
        assert answers.wait(10)
        return Group(offset, [a_record(offset)], 1_000)

    def get_all(partition: int, offsets: Sequence[int]) -> Iterator[tuple[int, Record]]:
        together.append(offsets)
        arrived.set()
        return ((offset, a_record(offset)) for offset in offsets if offset != 9)

    stand_in = SimpleNamespace(around=around, get_all=get_all, limit_wait=lambda *_: None, close=lambda: None)
    monkeypatch.setattr(fetching, "KafkaReader", lambda folder, address: stand_in)
    with closing(FetchingReader(tmp_path, KafkaAddress("127.0.0.1:9", "topic"), lambda: None)) as reading:
        for offset in (500_000, 7, 3_000, 9, 100_000):
            with pytest.raises(JournalFetching):
                reading.get(0, offset)
            assert asked.wait(10)
        answers.set()
        assert arrived.wait(10)
        wait_until(lambda: not reading._wanted, 10, "all was fetched")
        assert together == [[7, 9, 3_000]]
        assert [reading.get(0, offset) for offset in (7, 9, 3_000)] == [a_record(7), None, a_record(3_000)]


def test_what_lies_near_is_read_on_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search takes as long as thousands of records; what is damaged or no longer kept in between is left out."""
    searches: list[int] = []
    stands: list[int] = []

    def take(partition: int, offset: int, end: int, wait_seconds: float) -> Run:
        if offset not in stands:
            searches.append(offset)
        behind = min(end, offset + 500)
        stands[:] = [behind]
        values = [b"not a record" if each == 700 else encode(a_record(each)) for each in range(offset, behind)]
        return Run(offset, values, 100)

    monkeypatch.setattr(
        reader, "Cursors", lambda address: SimpleNamespace(take=take, rest=lambda *_: None, close=lambda: None)
    )
    monkeypatch.setattr(reader, "partition_count", lambda address, seconds: 1)
    marks = SimpleNamespace(of=lambda partition: (5, 6_000), close=lambda: None)
    monkeypatch.setattr(reader, "Watermarks", lambda address, seconds: marks)
    with closing(KafkaReader(tmp_path, KafkaAddress("127.0.0.1:9", "topic"))) as reading:
        found = dict(reading.get_all(0, [1_500, 3, 10, 5_000, 700, 900, 10, 6_000]))
    assert found == {each: a_record(each) for each in (10, 900, 1_500, 5_000)}
    assert searches == [5, 700, 701, 5_000]


def test_an_offset_that_a_broker_does_not_find_and_has_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was taken for one past the end, and so for none: whoever was to send it again gave it up."""

    def lost(*_: object) -> None:
        raise KafkaException(KafkaError(KafkaError._AUTO_OFFSET_RESET))

    monkeypatch.setattr(reader, "Cursors", lambda address: SimpleNamespace(take=lost, rest=lambda *_: None))
    monkeypatch.setattr(reader, "partition_count", lambda address, seconds: 1)
    monkeypatch.setattr(reader, "Watermarks", lambda address, seconds: SimpleNamespace(of=lambda partition: (3, 10)))
    asking = KafkaReader(tmp_path, KafkaAddress("127.0.0.1:9", "topic"))
    with pytest.raises(JournalAway):
        asking.get(0, 5)
    with pytest.raises(JournalAway):
        next(asking.read(0, 5))


def test_a_topic_that_brokers_do_not_know_is_no_empty_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be there, and the broker have just started: where it ended at 0, deliver dropped its index as it began."""
    counts = [0] * 4
    monkeypatch.setattr(reader, "partition_count", lambda address, seconds: counts.pop() if counts else 1)
    monkeypatch.setattr(reader, "Watermarks", lambda address, seconds: SimpleNamespace(of=lambda partition: (3, 10)))
    asking = KafkaReader(tmp_path, KafkaAddress("127.0.0.1:9", "topic"))
    assert list(asking.partitions()) == []
    for ask in (asking.start, asking.end, lambda partition: asking.get(partition, 5)):
        with pytest.raises(JournalAway, match="knows no topic"):
            ask(0)
    assert (asking.start(0), asking.end(0)) == (3, 10)


def test_nothing_stays_read_ahead_behind_a_message_that_is_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading goes on from that message, with another consumer; the one behind it kept tens of megabytes."""
    values = {5: encode(a_record(5)), 6: b"not a record", 7: encode(a_record(7))}
    stands: list[int] = []

    def take(partition: int, offset: int, end: int, wait_seconds: float) -> Run:
        stands[:] = [place for place in stands if place != offset] + [end]
        return Run(offset, [values[each] for each in range(offset, end)], 100)

    def rest(partition: int, offset: int) -> None:
        stands[:] = [place for place in stands if place != offset]

    monkeypatch.setattr(reader, "Cursors", lambda address: SimpleNamespace(take=take, rest=rest))
    monkeypatch.setattr(reader, "partition_count", lambda address, seconds: 1)
    monkeypatch.setattr(reader, "Watermarks", lambda address, seconds: SimpleNamespace(of=lambda partition: (5, 8)))
    reading = KafkaReader(tmp_path, KafkaAddress("127.0.0.1:9", "topic"))
    groups = reading.read(0, 5)
    assert next(groups).next_offset == 6
    assert stands == []
    with pytest.raises(JournalCorrupt):
        next(groups)
    assert stands == []


def test_who_may_wait_for_a_moment_waits_no_longer_for_who_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deliver and control ask on their loops, and give brokers a quarter of a second: it was more than two."""
    waits: list[float] = []

    def refuse(_: object, seconds: float) -> None:
        waits.append(seconds)
        raise KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN))

    stand_in = SimpleNamespace(get_watermark_offsets=refuse, list_topics=refuse)
    monkeypatch.setattr(topic, "Consumer", lambda options: stand_in)
    with pytest.raises(JournalAway):
        Watermarks(KafkaAddress("127.0.0.1:9", "topic"), 0.25).of(0)
    assert len(waits) > 2
    assert max(waits) <= 0.25


def test_a_topic_that_another_machine_has_just_made_is_asked_for_until_brokers_have_heard_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each broker hears of it by itself: the first may know it when the next one asked does not."""
    unheard = KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
    partition = SimpleNamespace(leader=1, replicas=[1, 2, 3], isrs=[1, 2, 3])
    there = SimpleNamespace(error=None, partitions={0: partition})
    settings = defaultdict(lambda: SimpleNamespace(value=None), {"min.insync.replicas": SimpleNamespace(value="2")})
    of_settings: list[object] = [unheard, unheard, settings, None]
    of_id: list[object] = [unheard, SimpleNamespace(topic_id="its id")]

    def answer(asked: object, answers: list[object]) -> dict[object, Future[Any]]:
        future: Future[Any] = Future()
        found = answers.pop(0)
        future.set_exception(found) if isinstance(found, Exception) else future.set_result(found)
        return {asked: future}

    client = SimpleNamespace(
        list_topics=lambda *_, timeout: SimpleNamespace(topics={"topic": there}, brokers=[1, 2, 3]),
        describe_configs=lambda asked: answer("settings", of_settings),
        incremental_alter_configs=lambda asked: answer("settings", of_settings),
        describe_topics=lambda asked, request_timeout: answer("topic", of_id),
    )
    monkeypatch.setattr(topic, "AdminClient", lambda options: client)
    assert topic.open_topic(KafkaAddress("127.0.0.1:9", "topic"), 1, 60.0, 67_108_864) == "its id"
    assert (of_settings, of_id) == ([], [])


def test_a_topic_is_not_made_while_nobody_can_tell_whether_it_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The database that may know events of it is waited for, as brokers are."""
    monkeypatch.setattr(role, "POLL_SECONDS", 0.01)
    known: list[object] = [DatabaseAway("PostgreSQL cannot be reached"), False]
    made = asyncio.Event()

    def was_there() -> object:
        answer = known.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def find_or_make(was_there: Callable[[], object]) -> None:
        if not was_there():
            loop.call_soon_threadsafe(made.set)

    async def scenario() -> None:
        nonlocal loop
        loop = asyncio.get_running_loop()
        journal: Any = SimpleNamespace(open=find_or_make, state=lambda: "", retain=lambda now_ms: 0)
        edge: Any = SimpleNamespace(set_away=lambda is_away: None)
        watching = asyncio.create_task(JournalWatch(journal, edge, lambda: 0, was_there).run())
        await asyncio.wait_for(made.wait(), 10)
        watching.cancel()

    loop: Any = None
    asyncio.run(scenario())
    assert known == []


def test_a_disk_without_room_does_not_end_who_looks_after_the_topic() -> None:
    """What was erased of dropped events is let go of later; events go to brokers, which have room."""
    asked = asyncio.Event()

    def retain(now_ms: int) -> int:
        loop.call_soon_threadsafe(asked.set)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def scenario() -> None:
        nonlocal loop
        loop = asyncio.get_running_loop()
        journal: Any = SimpleNamespace(open=lambda was_there: None, state=lambda: "", retain=retain)
        edge: Any = SimpleNamespace(set_away=lambda is_away: None)
        watching = asyncio.create_task(JournalWatch(journal, edge, lambda: 0, lambda: False).run())
        await asyncio.wait_for(asked.wait(), 10)
        done, _ = await asyncio.wait({watching}, timeout=0.2)
        watching.cancel()
        assert not done

    loop: Any = None
    asyncio.run(scenario())
