"""The default consumer: when it sends, what a full queue does, what flush and close wait for."""

from __future__ import annotations

import _thread
import asyncio
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import pytest

from gate_transport import GateTransport
from hookline_client import Client, FlushResult, NotQueued
from hookline_client.answer import Answer
from hookline_client.consumers.background import Background
from hookline_client.consumers.memory_queue import MemoryQueue
from hookline_client.ledger import Ledger
from hookline_client.options import Options
from hookline_client.receipts import Message
from limits import no_more_threads
from programs import run
from scripted_service import wait_until

AWAY = Answer(0, "connection_failed", "Away.")
NEVER = 10_000.0


def client_of(transport: GateTransport, **options: Any) -> Client:
    """A client that sends by count only, unless an option says otherwise."""
    return Client("wk", **{"transport": transport, "flush_after": NEVER, **options})


def track(client: Client, count: int) -> list[str | None]:
    """So many events."""
    return [client.track("u", "E") for _ in range(count)]


def full(transport: GateTransport, **options: Any) -> Client:
    """A client with one event under way and three in a queue that has room for three."""
    client = client_of(transport, flush_at=1, batch_size=1, max_queue_size=3, **options)
    track(client, 1)
    assert transport.entered.wait(30)
    track(client, 3)
    return client


def test_it_sends_when_enough_wait() -> None:
    """The twentieth event sends all twenty in one request; nothing was sent before."""
    transport = GateTransport(shut=False)
    client = client_of(transport)
    ids = track(client, 20)
    wait_until(lambda: transport.batches)
    assert transport.batches == [ids]


@pytest.mark.parametrize("name", ["flush_at", "size"])
def test_one_sends_every_call(name: str) -> None:
    """flush_at=1, and size=1, its other name."""
    transport = GateTransport(shut=False)
    client = client_of(transport, **{name: 1})
    for number in range(3):
        ids = track(client, 1)
        wait_until(lambda wanted=number + 1: len(transport.batches) == wanted)
        assert transport.batches[-1] == ids


def test_it_sends_when_time_has_passed() -> None:
    """One event does not wait for nineteen others."""
    transport = GateTransport(shut=False)
    client = client_of(transport, flush_after=0.02)
    ids = track(client, 1)
    wait_until(lambda: transport.ids == ids)


def test_requests_hold_at_most_a_batch() -> None:
    """And a flush sends all of them, in the order of the calls."""
    transport = GateTransport(shut=False)
    client = client_of(transport, flush_at=1000, batch_size=10)
    ids = track(client, 25)
    assert client.flush().accepted == 25
    assert [len(batch) for batch in transport.batches] == [10, 10, 5]
    assert transport.ids == ids


def test_a_full_queue_refuses_what_is_new() -> None:
    """The default: the caller gets None, the handler the code, and the events before are safe."""
    transport, errors = GateTransport(), []
    client = full(transport, error_handler=lambda code, message: errors.append(code))
    assert track(client, 2) == [None, None]
    transport.open()
    result = client.flush()
    assert (result.accepted, result.dropped, errors) == (4, 2, ["queue_full"] * 2)
    assert [receipt.code for receipt in result.receipts] == ["queue_full"] * 2


def test_a_full_queue_can_drop_what_is_old() -> None:
    """The newest three remain; the one under way is not touched."""
    transport = GateTransport()
    client = full(transport, on_full="drop_old")
    new = track(client, 2)
    transport.open()
    result = client.flush()
    assert None not in new
    assert (result.accepted, result.dropped) == (4, 2)
    assert transport.ids[-2:] == new


def test_a_full_queue_can_block_the_caller() -> None:
    """Until there is room."""
    transport = GateTransport()
    client = full(transport, on_full="block", block_timeout=30.0)
    threading.Timer(0.05, transport.open).start()
    assert None not in track(client, 5)
    assert client.flush().accepted == 9


def test_a_blocked_caller_goes_on_in_time() -> None:
    """When there is no room after block_timeout, the event is refused."""
    transport = GateTransport()
    client = full(transport, on_full="block", block_timeout=0.01)
    assert track(client, 1) == [None]
    transport.open()
    assert client.flush().dropped == 1


def test_bytes_fill_a_queue_too() -> None:
    """Large events do not take the memory that many small ones may."""
    transport = GateTransport()
    client = client_of(transport, flush_at=1, max_queue_bytes=60_000)
    track(client, 1)
    assert transport.entered.wait(30)
    sent = [client.track("u", "E", {"x": "x" * 25_000}) for _ in range(4)]
    assert [message_id is not None for message_id in sent] == [True, True, False, False]
    transport.open()


def test_strict_raises_what_is_otherwise_counted() -> None:
    """A test of a program learns that its event is lost."""
    transport = GateTransport()
    client = full(transport, strict=True)
    with pytest.raises(NotQueued):
        track(client, 1)
    transport.open()


def test_flush_tells_what_is_still_waiting() -> None:
    """Those queued before it, under way or not; later ones do not count."""
    transport = GateTransport()
    client = full(transport)
    assert client.flush(0.01) == FlushResult(waiting=4)
    transport.open()
    assert client.flush().accepted == 4


def test_flush_waits_only_for_what_was_before_it() -> None:
    """Events that keep coming do not hold it."""
    transport, done = GateTransport(), threading.Event()
    client = full(transport, on_full="drop_old")
    results: list[FlushResult] = []
    threading.Thread(target=lambda: (results.append(client.flush(30.0)), done.set())).start()
    wait_until(lambda: client._session.consumer._flushing)  # type: ignore[union-attr, attr-defined]
    track(client, 20)  # all that waited before is dropped for these
    assert not done.is_set()
    transport.open()
    assert done.wait(30)
    assert results[0].waiting == 0


def test_flush_tries_at_once() -> None:
    """It does not sit out the pause after a failure, which may be half a minute."""
    transport = GateTransport(*[AWAY] * 8, shut=False)
    client = client_of(transport, flush_at=1, max_retries=1000)
    track(client, 1)
    wait_until(lambda: len(transport.batches) >= 3)
    while not client.flush(0.01).accepted:
        pass
    assert len(transport.batches) == 9


def test_a_handler_may_track_and_flush() -> None:
    """It runs on the thread that sends, which cannot wait for itself."""
    transport, results = GateTransport(shut=False), []

    def on_success(_: object) -> None:
        if not results:
            client.track("u", "From the handler")
            results.append(client.flush(30.0))

    client = client_of(transport, flush_at=1, on_success=on_success)
    track(client, 1)
    wait_until(lambda: len(transport.ids) == 2)
    assert results[0].waiting == 2
    assert client.flush().ok


@pytest.mark.parametrize("has_threads", [True, False])
def test_a_close_in_a_handler_sends_what_waits(has_threads: bool) -> None:
    """The thread that sends, or a flush in its place, sends the rest and ends; a close of another thread waits."""
    transport, results = GateTransport(), []

    def on_success(_: object) -> None:
        if not results:
            results.append(client.close(30.0))

    client = client_of(transport, batch_size=10, on_success=on_success)
    with nullcontext() if has_threads else no_more_threads():
        ids = track(client, 100)
        threading.Timer(0.05, transport.open).start() if has_threads else transport.open()
        client.flush(30.0)
        assert client.close(30.0).ok
    assert transport.ids == ids
    assert (results[0].waiting, results[0].dropped) == (100, 0)
    assert client.stats.accepted == 100
    wait_until(lambda: transport.closed)
    assert track(client, 1) == [None]


def test_a_close_in_a_handler_drops_what_it_has_no_time_for() -> None:
    """A pause that the service asks for is cut off by its end; every event has an outcome."""
    transport = GateTransport(AWAY, *[Answer(503, "overloaded", "Later.", (), 300.0)] * 2, shut=False)
    client = client_of(transport, batch_size=2, error_handler=lambda code, _: client.close(0.05))
    track(client, 4)
    client.flush(30.0)
    wait_until(lambda: client.stats.dropped == 4)
    assert client.flush(0.0).waiting == 0


def test_the_end_of_a_process_waits_for_a_close_in_a_handler() -> None:
    """The thread that still sends would else end with it, and what waits with the thread."""
    program = """
import atexit, threading, time
counted = []
atexit.register(lambda: print(len(counted)))  # before the library's, so it runs after that
from hookline_client import Client
from hookline_client.answer import Answer
class Transport:
    def send(self, batch, timeout_seconds=None):
        time.sleep(0.02)
        return Answer(200)
    def close(self): pass
    def forked(self): pass
def on_success(ids):
    counted.append(len(ids))
    if len(counted) == 1:
        client.close(30.0)
        is_closed.set()
is_closed = threading.Event()
client = Client("wk", transport=Transport(), batch_size=1, flush_at=5, on_success=on_success, exit_timeout=30.0)
for n in range(5):
    client.track("u", "E")
is_closed.wait(30.0)
"""
    ended = run(program)
    assert (ended.stdout, ended.stderr) == ("5\n", "")


def test_close_is_bounded_and_tells_what_is_lost() -> None:
    """A service that hangs delays the end by the timeout and no longer; every event has an outcome."""
    transport = GateTransport()
    client = full(transport)
    result = client.close(0.05)
    assert (result.accepted, result.dropped, result.waiting) == (0, 4, 0)
    assert {receipt.code for receipt in result.receipts} == {"closed"}
    assert transport.closed


def test_close_tells_what_hangs() -> None:
    """A request that nothing ends has no outcome when close returns; the next who asks learns of it."""
    transport = GateTransport(deaf=True)
    client = client_of(transport, flush_at=1)
    track(client, 1)
    assert transport.entered.wait(30)
    result = client.close(0.01)
    assert (result.waiting, result.ok) == (1, False)
    transport.open()
    assert client.flush(30).accepted == 1


def test_close_ends_a_flush_of_another_thread() -> None:
    """Give what the close drops its outcome, also for a flush without a time that waits for it."""
    transport, results = GateTransport(), []
    client = full(transport)
    consumer: Any = client._living.consumer
    thread, join = consumer._thread, consumer._thread.join
    flushing = threading.Thread(target=lambda: results.append(client.flush(None)), daemon=True)
    flushing.start()
    wait_until(lambda: consumer._done._waiters)

    def join_and_let_the_flush_look(seconds: float) -> None:
        join(seconds)
        wait_until(lambda: consumer._done._waiters)

    thread.join = join_and_let_the_flush_look
    client.close(0.0)
    flushing.join(5)
    assert results[0].waiting == 0


def test_close_waits_out_no_pause() -> None:
    """A pause that the service asked for is cut off by the end."""
    transport = GateTransport(Answer(503, "overloaded", "Later.", (), 300.0), shut=False)
    client = client_of(transport, flush_at=1)
    track(client, 1)
    wait_until(lambda: transport.batches)
    assert client.close(0.05).dropped == 1


def test_after_close_calls_are_dropped() -> None:
    """Counted, with a code of their own; closing again is nothing."""
    client = client_of(GateTransport(shut=False))
    track(client, 1)
    assert client.close().accepted == 1
    assert track(client, 1) == [None]
    result = client.close()
    assert (result.dropped, result.receipts[0].code) == (1, "closed")
    assert client.flush().ok


def test_debug_waits_for_the_answer() -> None:
    """When the call returns, the event is there."""
    transport = GateTransport(shut=False)
    client = client_of(transport, debug=True)
    ids = track(client, 1)
    assert transport.ids == ids


def test_many_threads_lose_nothing() -> None:
    """Eight threads, one client: each event once, each thread's in its order."""
    transport = GateTransport(shut=False)
    client = client_of(transport, flush_at=50)
    sent: dict[int, list[str | None]] = {}

    def work(number: int) -> None:
        sent[number] = track(client, 500)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.flush(30.0).accepted == 4000
    for ids in sent.values():
        mine = set(ids)
        assert [message_id for message_id in transport.ids if message_id in mine] == ids


def test_a_signal_may_track_in_the_middle_of_a_call() -> None:
    """The handler runs on the same thread, perhaps with the lock held: it does not stop there, nor spoil the sums."""
    transport = GateTransport(shut=False)
    client = client_of(transport, flush_at=100)
    extra: list[str | None] = []
    is_over = threading.Event()

    def alarmed(*_: object) -> None:
        extra.append(client.track("u", "Alarm"))
        if not is_over.is_set():  # one that comes late would leave an alarm to whoever handles it next
            signal.setitimer(signal.ITIMER_REAL, 0.0005)  # handlers within handlers have no end on a slow machine

    previous = signal.signal(signal.SIGALRM, alarmed)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005)
        ids = track(client, 3000)
    finally:
        is_over.set()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert client.flush(30.0).waiting == 0
    assert sorted(transport.ids) == sorted(message_id for message_id in ids + extra if message_id)
    assert client.stats.accepted == len(transport.ids)


@pytest.mark.parametrize("before", [0, 1])
def test_a_signal_may_close_in_the_middle_of_a_call(monkeypatch: pytest.MonkeyPatch, before: int) -> None:
    """The thread that sends has ended when the call goes on: its event counts as dropped, and nobody waits for it."""
    transport = GateTransport(shut=False)
    client = client_of(transport)
    track(client, before)
    append = MemoryQueue.append

    def interrupted(queue: MemoryQueue, message: Message) -> None:
        client.close(30)
        append(queue, message)

    monkeypatch.setattr(MemoryQueue, "append", interrupted)
    assert client.track("u", "Late") is None
    assert (client.stats.accepted, client.stats.dropped) == (before, 1)
    assert client.flush(None).waiting == 0


@pytest.mark.parametrize("policy", ["drop_new", "drop_old", "block"])
def test_no_deadlock_while_the_service_is_away(policy: str) -> None:
    """Threads that call, flush and fill the queue, handlers that call again, and a close: all of it ends."""
    client = Client(
        "wk",
        endpoint="http://127.0.0.1:1",
        flush_at=1,
        max_queue_size=10,
        on_full=policy,  # type: ignore[arg-type]
        block_timeout=0.001,
        error_handler=lambda code, message: client.flush(0.0),
    )

    def work() -> None:
        for number in range(50):
            client.track("u", "E")
            if number % 10 == 0:
                client.flush(0.001)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert client.close(0.01).waiting == 0
    stats = client.stats
    assert (stats.accepted, stats.dropped + stats.gave_up) == (0, 400)


def test_a_client_nobody_holds_still_sends() -> None:
    """Made, used and forgotten in one line, as short programs do."""
    transport = GateTransport(shut=False)
    message_id = client_of(transport).track("u", "E")
    wait_until(lambda: transport.ids == [message_id])


def test_a_transport_that_raises_does_not_end_the_thread(caplog: pytest.LogCaptureFixture) -> None:
    """A fault in a program's own transport costs that batch."""

    class Broken(GateTransport):
        def send(self, batch: Any, timeout_seconds: float | None = None) -> Answer:
            if self._answers:
                self._answers.pop()
                raise RuntimeError("of the transport")
            return super().send(batch, timeout_seconds)

    client = client_of(Broken(AWAY, shut=False))
    track(client, 1)
    assert client.flush().gave_up == 1
    track(client, 1)
    assert client.flush().accepted == 1
    assert "could not be sent" in caplog.text


def test_a_thread_that_could_not_be_had_is_tried_again() -> None:
    """The system has none to give for a moment: the next call starts it, and nothing is lost."""
    transport = GateTransport(shut=False)
    client = client_of(transport, flush_at=1)
    with no_more_threads():
        ids = track(client, 1)
    ids += track(client, 1)
    wait_until(lambda: transport.ids == ids)


def test_without_a_thread_flush_sends_by_itself() -> None:
    """In the thread of its caller, where a handler may flush as well."""
    transport = GateTransport(AWAY, shut=False)
    client = client_of(transport, error_handler=lambda *_: client.flush(None))
    with no_more_threads():
        ids = track(client, 2)
        assert client.flush(None).accepted == 2
    assert transport.ids == ids * 2


def test_threads_that_flush_without_a_sender_take_turns() -> None:
    """One sends at a time; when its time is over, one who has more goes on."""
    transport, flushers = GateTransport(), []
    client = client_of(transport, batch_size=1)
    with no_more_threads():
        track(client, 3)
        for seconds in (0.05, None, None):
            _thread.start_new_thread(lambda given=seconds: flushers.append(client.flush(given).accepted), ())
        assert transport.entered.wait(30)
        transport.open()
        wait_until(lambda: len(flushers) == 3)
    assert (sum(flushers), len(transport.batches)) == (3, 3)


def test_a_flush_without_a_thread_leaves_what_it_has_no_time_for() -> None:
    """Its time is over, not that of the events: they stay in the queue, in their order."""
    transport = GateTransport(Answer(429, "throttled", "Later.", retry_after_seconds=60.0), shut=False)
    client = client_of(transport, batch_size=2)
    with no_more_threads():
        ids = track(client, 3)
        result = client.flush(0.05)
    assert (result.waiting, result.dropped) == (3, 0)
    assert client.flush().accepted == 3
    assert transport.ids[-3:] == ids


@pytest.mark.parametrize("seconds", [float("inf"), 1e12])
def test_more_time_than_the_system_counts_is_as_long_as_it_takes(seconds: float) -> None:
    """Whoever writes it means no limit."""
    transport = GateTransport()
    client = client_of(transport)
    track(client, 1)
    threading.Timer(0.05, transport.open).start()
    assert client.flush(seconds).accepted == 1
    track(client, 1)
    assert client.close(seconds).accepted == 1


def test_a_flush_that_is_interrupted_leaves_nothing_behind() -> None:
    """Ctrl-C in an interactive session: nobody waits any more, so the next pauses are as long as they always are."""
    transport = GateTransport()
    client = client_of(transport, flush_at=1)
    consumer: Any = client._living.consumer

    def interrupt() -> None:
        wait_until(lambda: consumer._flushing)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    track(client, 1)
    threading.Thread(target=interrupt).start()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts with & has it ignored
    try:
        with pytest.raises(KeyboardInterrupt):
            client.flush(60)
    finally:
        signal.signal(signal.SIGINT, before)
    assert consumer._flushing == 0
    transport.open()
    assert client.flush(30).accepted == 1


def test_a_flush_without_a_thread_that_is_interrupted_keeps_the_events() -> None:
    """It sends by itself, and is in the middle of that."""

    class Interrupted(GateTransport):
        def send(self, batch: Sequence[Message], timeout_seconds: float | None = None) -> Answer:
            answer = super().send(batch, timeout_seconds)
            if len(self.batches) == 1:
                raise KeyboardInterrupt
            return answer

    transport = Interrupted(shut=False)
    client = client_of(transport)
    with no_more_threads():
        ids = track(client, 2)
        with pytest.raises(KeyboardInterrupt):
            client.flush(30)
        assert client.flush(30).accepted == 2
    assert transport.ids == ids * 2


class TooLarge(GateTransport):
    """Refuses a batch of four as too large, takes the first half of it at once, and has the gate for all others."""

    def send(self, batch: Sequence[Message], timeout_seconds: float | None = None) -> Answer:
        if len(batch) == 4:
            return Answer(413, "batch_too_large", "Split it.")
        if self.batches:
            return super().send(batch, timeout_seconds)
        self.batches.append([message_id for message_id, _ in batch])
        return Answer(200)


def test_the_first_half_of_a_batch_does_not_wait_for_the_second() -> None:
    """What a flush counts as accepted it does not count as waiting too."""
    transport = TooLarge()
    client = client_of(transport, flush_at=4)
    track(client, 4)
    assert transport.entered.wait(30)
    result = client.flush(0)
    assert (result.accepted, result.waiting) == (2, 2)
    transport.open()
    assert client.flush(30).accepted == 2


def test_a_flush_that_is_interrupted_in_the_second_half_of_a_batch_sends_the_first_once() -> None:
    """A caller that sends by itself, and whose Ctrl-C comes then: the next flush has only the second half."""

    class Interrupted(TooLarge):
        def send(self, batch: Sequence[Message], timeout_seconds: float | None = None) -> Answer:
            if len(self.batches) == 1 and not self.entered.is_set():
                self.entered.set()
                raise KeyboardInterrupt
            return super().send(batch, timeout_seconds)

    transport = Interrupted(shut=False)
    client = client_of(transport)
    with no_more_threads():
        ids = track(client, 4)
        with pytest.raises(KeyboardInterrupt):
            client.flush(30)
        result = client.flush(30)
    assert (result.accepted, result.waiting) == (4, 0)
    assert transport.ids == ids


def test_a_flush_counts_what_was_queued_before_it() -> None:
    """Also when later events are in the same request."""
    transport = GateTransport()
    consumer = Background(Options(transport=transport, flush_at=6), Ledger())
    for number in range(6):
        consumer.enqueue((str(number), b"{}"))
    assert transport.entered.wait(30)
    assert [consumer._open_before(target) for target in (0, 1, 6, 7)] == [0, 1, 6, 6]
    transport.open()
    consumer.close(30.0)


def test_a_handler_that_causes_the_next_losses_itself_ends() -> None:
    """With two of them at every level it would be called for ever; the next loss is said to it again."""
    codes: list[str] = []

    def call_twice(code: str, message: str) -> None:
        codes.append(code)
        if len(codes) < 1_000:  # not for ever
            client.track("u1", "Lost")
            client.track("u1", "Lost as well")

    client = client_of(GateTransport(shut=False), error_handler=call_twice)
    client.close()
    client.track("u1", "Lost")
    first = len(codes)
    client.track("u1", "Lost")
    assert 1 < first < len(codes) < 1_000


def test_a_handler_that_is_cancelled_does_not_end_the_thread() -> None:
    """asyncio's CancelledError is no Exception either, and what comes later is sent all the same."""

    def cancel(ids: object) -> None:
        raise asyncio.CancelledError

    transport = GateTransport(shut=False)
    client = client_of(transport, flush_at=1, on_success=cancel)
    for name in ("First", "Second"):
        client.track("u1", name)
        assert client.flush(10).waiting == 0
    assert len(transport.ids) == 2
    client.close()


def test_a_handler_that_asks_for_the_end_of_the_program_does_not_end_the_thread() -> None:
    """sys.exit means nothing on a thread, and what comes later is sent all the same."""
    transport = GateTransport(Answer(503, "server_error", "Later."), shut=False)
    client = client_of(transport, flush_at=1, error_handler=lambda code, reason: sys.exit(1))
    client.track("u1", "First")
    client.track("u1", "Second")
    assert client.flush(30).accepted == 2
    client.close()
