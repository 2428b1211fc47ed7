"""``background`` with a spool: nothing is given up, and the application never notices."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gate_transport import GateTransport
from hookline_client import Client, FlushResult
from hookline_client.answer import Answer
from hookline_client.consumers import spooled, syncer
from hookline_client.errors import InvalidOption
from hookline_client.receipts import Message
from hookline_client.spool import box as box_module
from hookline_client.testing import RecordingTransport
from limits import file_size_limit, no_more_threads
from open_files import open_files
from scripted_service import wait_until

AWAY = Answer(0, "connection_failed", "Away.")
WRONG_KEY = Answer(401, "unknown_write_key", "Copy it.")


@pytest.fixture
def spool(tmp_path: Path) -> str:
    """The spool's directory."""
    return str(tmp_path / "spool")


def files(spool: str) -> list[Path]:
    """What is left in the spool."""
    # A folder may go while it is looked at, which ``walk`` does not mind.
    return [Path(folder) / name for folder, _, names in os.walk(spool) for name in names]


def wait_until_empty(spool: str, of: str = "") -> None:
    """Wait until nothing is left, or nothing of the process ``of``; close gives its thread half a second to end,
    and on a busy machine that may not be enough."""
    wait_until(lambda: not [path for path in files(spool) if of in path.parts[-2]])


def test_events_are_sent_in_order_and_nothing_stays(spool: str) -> None:
    """What is acknowledged leaves the spool; receipts are those of any background client."""
    transport = RecordingTransport()
    options: dict[str, Any] = {"transport": transport, "receipts": True, "flush_at": 1_000, "flush_after": 3_600}
    with Client("key", spool=spool, **options) as client:
        ids = [client.track("u1", f"Event {number}") for number in range(250)]
        result = client.flush()
    assert [event["messageId"] for event in transport.events] == ids
    assert [receipt.message_id for receipt in result.receipts] == ids
    assert (result.accepted, result.waiting, max(map(len, transport.batches))) == (250, 0, 100)
    wait_until_empty(spool)


def test_close_waits_for_a_slow_disk(spool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of a client that has nothing left is gone when close returns, within the time that it has."""
    remove = box_module._remove
    monkeypatch.setattr(spooled, "ABORT_SECONDS", 2.0)  # enough for a thread to begin with it on any machine
    monkeypatch.setattr(box_module, "_remove", lambda folder: (time.sleep(2.5), remove(folder)))
    with Client("key", spool=spool, transport=RecordingTransport()) as client:
        client.track("u1", "Event")
    assert files(spool) == []


def test_close_does_not_wait_for_events_of_another_process(spool: str) -> None:
    """They are under way while nothing of its own is: they wait for the next process, whatever time close was given."""
    left = Client("key", spool=spool, transport=RecordingTransport(*[AWAY] * 1_000))
    left.track("u1", "left")
    left.close(0)
    transport = GateTransport(deaf=True)
    client = Client("key", spool=spool, transport=transport)
    client.flush()
    assert transport.entered.wait(30)
    closing = threading.Thread(target=client.close, args=(3_600,), daemon=True)
    closing.start()
    closing.join(30)
    is_held_up = closing.is_alive()
    transport.open()
    assert not is_held_up


def test_an_event_is_on_disk_when_the_call_returns(spool: str) -> None:
    """Before anything is sent the event can be read from the spool."""
    client = Client("key", spool=spool, transport=RecordingTransport(), flush_after=3_600)
    message_id = client.track("u1", "Signed Up")
    (segment,) = (path for path in files(spool) if path.suffix == ".log")
    assert str(message_id) in segment.read_text()
    client.close()


def test_failures_are_tried_again_until_the_service_is_back(spool: str) -> None:
    """No number of failures gives an event up: retries and their time have no end here."""
    transport = RecordingTransport(*[AWAY] * 3)
    with Client("key", spool=spool, transport=transport, max_retries=0, retry_seconds=0) as client:
        client.track("u1", "Event")
        results = [client.flush(30)]
    assert results[0].accepted == 1
    assert len(transport.batches) == 4


def test_a_flush_without_a_limit_may_say_so_with_infinity(spool: str) -> None:
    """As with a queue in memory."""
    transport = GateTransport()
    with Client("key", spool=spool, transport=transport) as client:
        client.track("u1", "Event")
        threading.Timer(0.05, transport.open).start()
        assert client.flush(float("inf")).accepted == 1


def test_an_outage_is_told_once(spool: str) -> None:
    """The error handler learns when the service goes away, not at every try, and again the next time."""
    told: list[str] = []
    transport = RecordingTransport(AWAY, AWAY, AWAY, Answer(200), AWAY)
    with Client("key", spool=spool, transport=transport, error_handler=lambda c, m: told.append(c)) as client:
        client.track("u1", "Event")
        assert client.flush(30).accepted == 1
        assert told == ["connection_failed"]
        client.track("u1", "Event")
        assert client.flush(30).accepted == 1
    assert told == ["connection_failed"] * 2


def test_a_wrong_key_keeps_the_events_and_ends_the_flush(spool: str) -> None:
    """A refusal is told; flush does not wait for what will not happen; the next process with the spool sends them."""
    told: list[str] = []
    client = Client(
        "key",
        spool=spool,
        transport=RecordingTransport(WRONG_KEY),
        error_handler=lambda code, message: told.append(code),
    )
    message_id = client.track("u1", "Event")
    assert client.flush(None).waiting == 1
    assert told == ["unknown_write_key"]
    stats = client.stats
    client.close(0)
    assert (stats.gave_up, stats.dropped) == (0, 0)
    transport = RecordingTransport()
    with Client("key", spool=spool, transport=transport) as second:
        second.track("u1", "Another")
        second.flush()
        wait_for(transport, message_id)
    wait_until_empty(spool)


def wait_for(transport: RecordingTransport, message_id: str | None) -> None:
    """Wait until an event was sent."""
    wait_until(lambda: message_id in [event["messageId"] for event in transport.events])


def test_an_event_that_spoils_its_request_is_found_and_rejected(spool: str) -> None:
    """One event that the service cannot read is rejected by itself; those around it arrive."""

    class Poisoned(RecordingTransport):
        def send(self, batch: Sequence[Message], timeout_seconds: float | None = None) -> Answer:
            if any(b"poison" in body for _, body in batch):
                return Answer(400, "nesting_too_deep", "Flatten it.")
            return super().send(batch, timeout_seconds)

    transport = Poisoned()
    with Client("key", spool=spool, transport=transport) as client:
        names = ["poison" if number == 61 else f"Event {number}" for number in range(100)]
        ids = [client.track("u1", name) for name in names]
        result = client.flush()
    assert (result.accepted, result.rejected, result.waiting) == (99, 1, 0)
    assert result.receipts[0].message_id == ids[61]
    assert [event["messageId"] for event in transport.events] == ids[:61] + ids[62:]


def test_rejected_events_have_receipts(spool: str) -> None:
    """What the service refuses one by one is told with its code, and leaves the spool."""
    transport = RecordingTransport(Answer(200, rejected=((0, "missing_event", "Give event."),)))
    with Client("key", spool=spool, transport=transport) as client:
        client.track("u1", "Event")
        result = client.flush()
    assert [(receipt.outcome, receipt.code) for receipt in result.receipts] == [("rejected", "missing_event")]
    wait_until_empty(spool)


def test_a_full_disk_is_counted_and_told(spool: str) -> None:
    """Calls return None while the disk is full and the error handler hears why; the others are sent."""
    told: list[str] = []
    transport = RecordingTransport()
    with Client(
        "key", spool=spool, transport=transport, error_handler=lambda code, message: told.append(code)
    ) as client:
        client.track("u1", "before")
        with file_size_limit(300):
            assert client.track("u1", "lost") is None
        client.track("u1", "after")
        client.flush()
    assert [event["event"] for event in transport.events] == ["before", "after"]
    assert (client.stats.dropped, told) == (1, ["spool_failed"])


def test_a_spool_that_cannot_be_made_is_counted_and_told(tmp_path: Path) -> None:
    """A file where the directory should be costs the events, not the application."""
    (tmp_path / "file").touch()
    client = Client("key", spool=str(tmp_path / "file"), transport=RecordingTransport())
    assert client.track("u1", "Event") is None
    assert client.flush().dropped == 1
    client.close()


@pytest.mark.parametrize("batch_size", [1, 100])
@pytest.mark.parametrize("is_written", [True, False], ids=["behind", "before"])
def test_a_call_that_is_ended_at_its_write_holds_up_no_later_event(
    spool: str, monkeypatch: pytest.MonkeyPatch, is_written: bool, batch_size: int
) -> None:
    """Ctrl-C comes just then: an event that was written is sent too, what is tracked afterwards does not wait for more
    events, and nothing counts as lost."""
    write = os.write

    def ended(file: int, data: bytes) -> int:
        if is_written:
            write(file, data)
        monkeypatch.setattr(os, "write", write)
        raise KeyboardInterrupt

    told: list[tuple[str, str]] = []
    transport = RecordingTransport()
    options: dict[str, Any] = {"transport": transport, "flush_after": 3_600, "batch_size": batch_size}
    with Client("key", spool=spool, error_handler=lambda *loss: told.append(loss), **options) as client:
        client.track("u1", "before")
        monkeypatch.setattr(os, "write", ended)
        with pytest.raises(KeyboardInterrupt):
            client.track("u1", "ended")
        client.flush()
        client.track("u1", "after")
        client.flush()
        sent = ["before", "ended", "after"] if is_written else ["before", "after"]
        assert [event["event"] for event in transport.events] == sent
    assert told == []


def test_a_full_spool_refuses_new_events(spool: str) -> None:
    """Beyond ``spool_bytes`` the newest are dropped and counted; what waits is safe."""
    client = Client("key", spool=spool, spool_bytes=500, transport=RecordingTransport(*[AWAY] * 1_000))
    taken = [client.track("u1", f"Event {number}") for number in range(10)]
    result = client.flush(0)
    client.close(0)
    assert taken[0] is not None
    assert taken[-1] is None
    assert (result.waiting, result.dropped) == (sum(map(bool, taken)), taken.count(None))
    assert {receipt.code for receipt in result.receipts} == {"queue_full"}


@pytest.fixture
def syncs(spool: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files of this spool that were brought to the disk; clients of other tests may still end."""
    names: list[str] = []
    fsync = os.fsync

    def recorded(file: int) -> None:
        path = os.readlink(f"/proc/self/fd/{file}")
        if path.startswith(spool):
            names.append(os.path.basename(path))
        fsync(file)

    monkeypatch.setattr(os, "fsync", recorded)
    return names


def test_what_waits_is_brought_to_the_disk(spool: str, syncs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """While the service is away the thread syncs what was written, and so does the end of the client."""
    monkeypatch.setattr(syncer, "SYNC_SECONDS", 0.01)
    client = Client("key", spool=spool, transport=RecordingTransport(*[AWAY] * 1_000))
    client.track("u1", "one")
    wait_until(lambda: "0000000001.log" in syncs)
    syncs.clear()
    monkeypatch.setattr(syncer, "SYNC_SECONDS", 3_600.0)
    client.track("u1", "two")
    client.close(0)
    assert "0000000001.log" in syncs


def test_a_service_that_hangs_does_not_keep_events_from_the_disk(
    spool: str, syncs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one request waits for its answer, what is written meanwhile is brought to the disk in time."""
    monkeypatch.setattr(syncer, "SYNC_SECONDS", 0.01)
    transport = GateTransport()
    client = Client("key", spool=spool, transport=transport, flush_at=1)
    client.track("u1", "one")
    assert transport.entered.wait(30)
    wait_until(lambda: "0000000001.log" in syncs)
    syncs.clear()
    client.track("u1", "two")
    wait_until(lambda: "0000000001.log" in syncs)
    transport.open()
    assert client.flush(30).accepted == 2
    client.close()


def test_what_is_acknowledged_at_once_is_never_synced(
    spool: str, syncs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The usual case costs no sync: the events are on the service's disk already."""
    monkeypatch.setattr(syncer, "SYNC_SECONDS", 3_600.0)
    with Client("key", spool=spool, transport=RecordingTransport()) as client:
        client.track("u1", "Event")
        assert client.flush().accepted == 1
    assert syncs == []


def test_a_sync_that_fails_is_told_and_not_in_the_way(spool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fails is said to the error handler; the events are sent all the same."""
    monkeypatch.setattr(syncer, "SYNC_SECONDS", 0.01)
    told: list[str] = []
    monkeypatch.setattr(os, "fsync", failing_sync)
    client = Client(
        "key", spool=spool, transport=RecordingTransport(AWAY, AWAY), error_handler=lambda c, m: told.append(c)
    )
    client.track("u1", "Event")
    wait_until(lambda: "spool_failed" in told)
    assert client.flush(30).accepted == 1
    client.close()


def test_a_client_that_ends_on_a_disk_that_fails_keeps_no_box(spool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another client of the same process sends what was in its box, and in the one that it had taken over."""
    for name in ("taken over", "own"):
        client = Client("key", spool=spool, transport=RecordingTransport(*[AWAY] * 1_000))
        client.track("u1", name)
        client.flush(0.1)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", failing_sync)
            client.close(0)
    transport = RecordingTransport()
    with Client("key", spool=spool, transport=transport) as client:
        client.flush()
        wait_until(lambda: not files(spool))
    assert [event["event"] for event in transport.events] == ["taken over", "own"]


def failing_sync(file: int) -> None:
    """Take the place of fsync on a disk that fails."""
    raise OSError(5, "Input/output error")


def test_a_forked_child_has_a_box_of_its_own(spool: str) -> None:
    """The child sends its own events and not its parent's; the parent keeps its box, locked."""
    parent = RecordingTransport()
    client = Client("key", spool=spool, transport=parent, flush_after=3_600)
    client.track("u1", "parent")
    child = os.fork()
    if child == 0:
        client.track("u1", "child")
        result = client.flush()
        sent = [event["event"] for event in parent.events]
        client.close()
        wait_until_empty(spool, of=f"-{os.getpid()}-")
        os._exit(0 if sent == ["child"] and result.accepted == 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    client.close()
    assert [event["event"] for event in parent.events] == ["parent"]
    wait_until_empty(spool)


def test_a_child_that_is_made_while_a_box_is_taken_over_does_not_keep_its_lock(
    spool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would keep the box from everybody for as long as it lives, also when its parent is gone."""
    left = Client("key", spool=spool, transport=RecordingTransport(*[AWAY] * 1_000))
    left.track("u1", "left")
    left.close(0)
    is_locked, is_forked = threading.Event(), threading.Event()
    samestat = os.path.samestat

    def slow(*statuses: os.stat_result) -> bool:
        is_locked.set()
        is_forked.wait(1)  # longer than a fork takes that does not wait for the end of this
        return samestat(*statuses)

    monkeypatch.setattr(os.path, "samestat", slow)
    client = Client("key", spool=spool, transport=RecordingTransport(*[AWAY] * 1_000))
    client.track("u1", "own")
    assert is_locked.wait(30)
    child = os.fork()
    if child == 0:
        opened = [os.path.realpath(f"/proc/self/fd/{file}") for file in range(100)]
        os._exit(any(path.startswith(spool) and path.endswith("/lock") for path in opened))
    is_forked.set()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    client.close(0)


def test_an_event_of_the_go_library_with_an_endless_number_is_sent(spool: str) -> None:
    """Python reads no integer of more than 4,300 digits, and Go writes whatever number it is given."""
    first = Client("key", spool=spool, transport=RecordingTransport(*[AWAY] * 1_000))
    first.track("u1", "long", {"number": 0})
    first.close(0)
    (segment,) = (path for path in files(spool) if path.suffix == ".log")
    segment.write_bytes(segment.read_bytes().replace(b'"number":0', b'"number":' + b"9" * 5_000))
    transport = GateTransport(shut=False)
    with Client("key", spool=spool, transport=transport) as client:
        client.flush()
        wait_until(lambda: transport.ids)
    wait_until_empty(spool)


@pytest.mark.parametrize("damage", [b"\0\0\0\0", b"[" * 100_000], ids=["zeros", "brackets"])
def test_a_damaged_line_of_an_ended_process_is_left_out(spool: str, damage: bytes) -> None:
    """Report and skip what a crash of the machine left of a line, once; the events around it arrive."""
    first = Client("key", spool=spool, transport=RecordingTransport(*[AWAY] * 1_000))
    first.track("u1", "one")
    first.close(0)
    (segment,) = (path for path in files(spool) if path.suffix == ".log")
    segment.write_bytes(segment.read_bytes() + damage + b"\n" + segment.read_bytes().replace(b"one", b"two"))
    told: list[str] = []
    transport = RecordingTransport(AWAY, AWAY)
    with Client("key", spool=spool, transport=transport, error_handler=lambda code, _: told.append(code)) as client:
        client.flush()
        wait_until(lambda: not segment.exists())
    assert {event["event"] for event in transport.events} == {"one", "two"}
    assert told.count("spool_damaged") == 1


@pytest.mark.parametrize("bad", ["box that is a file", "lock", "0000000001.log"])
def test_a_box_that_cannot_be_read_keeps_no_other(spool: str, bad: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Report it; the events of a box behind it arrive, and our own do not wait for the pause after a fault."""
    monkeypatch.setattr(spooled, "FAULT_SECONDS", 3_600.0)
    for name in ("in the bad box", "behind it"):
        left = Client("key", spool=spool, transport=RecordingTransport(*[AWAY] * 1_000))
        left.track("u1", name)
        left.close(0)
    first = min(path.parent for path in files(spool))
    if bad in ("lock", "0000000001.log"):
        (first / bad).unlink()
        (first / bad).mkdir()  # a read of it fails, as on a disk that does
    else:
        shutil.rmtree(first)
        first.touch()
    told: list[str] = []
    transport = RecordingTransport()
    client = Client("key", spool=spool, transport=transport, batch_size=1, error_handler=lambda c, _: told.append(c))
    for number in range(5):
        client.track("u1", f"Event {number}")
        assert client.flush(30).accepted == 1
    wait_until(lambda: "behind it" in [event["event"] for event in transport.events])
    wait_until(lambda: "spool_failed" in told)
    client.close()
    assert first.exists()


def test_removed_files_do_not_matter_to_a_living_client(spool: str) -> None:
    """Somebody removes the files under a client: what it has open is sent all the same."""
    transport = RecordingTransport()
    with Client("key", spool=spool, transport=transport, flush_after=3_600) as client:
        client.track("u1", "Event")
        for path in files(spool):
            path.unlink()
        assert client.flush(30).accepted == 1


def test_a_client_whose_folder_was_removed_begins_another(spool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody removes the whole spool: what is open is sent, and the next segment does not fail for ever."""
    monkeypatch.setattr(box_module, "SEGMENT_BYTES", 1)
    transport, away = RecordingTransport(), [AWAY] * 3
    with Client("key", spool=spool, transport=transport, flush_after=3_600, error_handler=lambda *_: None) as client:
        client.track("u1", "sent")
        assert client.flush(30).accepted == 1
        client.track("u1", "open")
        transport._answers += away
        assert client.flush(0.01).waiting == 1
        shutil.rmtree(spool)
        assert client.track("u1", "lost") is None
        assert client.flush(30).accepted == 1
        assert client.track("u1", "later") is not None
        assert len(files(spool)) == 3
        client.flush(30)
    assert {event["event"] for event in transport.events} == {"sent", "open", "later"}
    assert (client.stats.accepted, client.stats.dropped) == (3, 1)
    wait_until_empty(spool)
    wait_until(lambda: open_files(spool) == [])


def test_missing_segments_are_told_and_do_not_hang(spool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment that somebody removed before it was read is told; flush ends, and later events are sent."""
    monkeypatch.setattr(box_module, "SEGMENT_BYTES", 1)
    told: list[str] = []
    transport = RecordingTransport()
    client = Client(
        "key",
        spool=spool,
        transport=transport,
        flush_after=3_600,
        error_handler=lambda code, message: told.append(code),
    )
    for name in ("lost", "lost", "kept"):
        client.track("u1", name)
    for path in sorted(files(spool))[:2]:
        path.unlink()
    assert client.flush(30).waiting == 0
    client.track("u1", "later")
    client.close()
    assert [event["event"] for event in transport.events] == ["kept", "later"]
    assert told == ["spool_damaged"]


def test_close_ends_a_flush_of_another_thread(spool: str) -> None:
    """Nothing more is sent once the client is closed: whoever waits for it without a time goes on."""
    results: list[FlushResult] = []
    transport = RecordingTransport(*[AWAY] * 1_000)
    client = Client("key", spool=spool, transport=transport)
    client.track("u1", "Event")
    flushing = threading.Thread(target=lambda: results.append(client.flush(None)), daemon=True)
    flushing.start()
    wait_until(lambda: transport.batches)
    client.close(0.0)
    flushing.join(5)
    assert results[0].waiting == 1


def test_calls_after_close_are_dropped(spool: str) -> None:
    """A closed client refuses calls; closing again and flushing are nothing."""
    client = Client("key", spool=spool, transport=RecordingTransport())
    client.close()
    client.close()
    assert client.track("u1", "late") is None
    assert client.flush(None).dropped == 1


def test_debug_waits_for_the_answer(spool: str) -> None:
    """With debug a call returns when its event is acknowledged."""
    transport = RecordingTransport()
    with Client("key", spool=spool, transport=transport, debug=True) as client:
        client.track("u1", "Event")
        assert len(transport.events) == 1


@pytest.mark.parametrize("options", [{"on_full": "drop_old"}, {"consumer": "file"}])
def test_options_that_a_spool_cannot_keep_are_refused(spool: str, options: dict[str, str]) -> None:
    """What contradicts a spool is said when the client is made."""
    with pytest.raises(InvalidOption, match="spool"):
        Client("key", spool=spool, **options)  # type: ignore[arg-type]


def test_threads_that_could_not_be_had_are_tried_again(
    spool: str, syncs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither sending nor bringing to the disk ends because the system had no thread to give for a moment."""
    monkeypatch.setattr(syncer, "SYNC_SECONDS", 0.01)
    transport = GateTransport()
    client = Client("key", spool=spool, transport=transport, flush_at=1)
    with no_more_threads():
        client.track("u1", "First")
    client.track("u1", "Second")
    wait_until(lambda: "0000000001.log" in syncs)
    transport.open()
    assert client.flush().accepted == 2


def test_a_thread_that_hangs_lets_go_when_it_ends(spool: str) -> None:
    """A client is closed while its request hangs: what it keeps waits, and is nobody's once the thread has ended."""
    transport = GateTransport(deaf=True)
    client = Client("key", spool=spool, transport=transport, flush_at=1)
    client.track("u1", "Test")
    assert transport.entered.wait(30)
    assert client.close(0.01).waiting == 1
    assert files(spool) != []
    transport.open()
    wait_until(lambda: files(spool) == [])
