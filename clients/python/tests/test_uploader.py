"""The uploader: what it sends, what it sets aside, how it ends, and that the next run goes on where one ended."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gate_transport import GateTransport
from hookline_client.answer import Answer
from hookline_client.batch import BATCH_BYTES_MAX, batch_body
from hookline_client.line_reader import LineReader
from hookline_client.receipts import Message
from hookline_client.testing import RecordingTransport
from hookline_client.transport import Transport
from hookline_client.uploader.exit_code import ExitCode
from hookline_client.uploader.instance_lock import InstanceLock
from hookline_client.uploader.line_batch import batches
from hookline_client.uploader.report import Report
from hookline_client.uploader.uploader import Uploader
from limits import file_size_limit

AWAY = Answer(503, "overloaded", "Too much.", retry_after_seconds=1.0)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The log file."""
    return tmp_path / "app.log"


def upload(log: Path, transport: Transport, retry_seconds: float = 0.0) -> ExitCode:
    """One run that does not wait between tries."""
    return Uploader(str(log), transport, Report(), retry_seconds, sleep=lambda seconds: None).run()


def event(number: int, **more: object) -> str:
    """A line as the consumer writes it."""
    return json.dumps({"type": "track", "event": "e", "userId": "u", "messageId": f"m{number}", **more})


def names(log: Path) -> set[str]:
    """What stands beside the log."""
    return {path.name for path in log.parent.iterdir()}


def aside(log: Path) -> list[dict[str, object]]:
    """The entries of the side file."""
    return [json.loads(line) for line in log.with_name("app.log.rejected").read_text().splitlines()]


class Poisoned(RecordingTransport):
    """A service that refuses a whole request when one event in it holds the word poison."""

    def send(self, batch: Sequence[Message], timeout_seconds: float | None = None) -> Answer:
        """Refuse or take."""
        if any(b"poison" in body for _, body in batch):
            return Answer(400, "nesting_too_deep", "Flatten it.")
        return super().send(batch, timeout_seconds)


def test_no_log_and_an_empty_log_are_nothing_to_do(log: Path) -> None:
    """A run before the first event ends well and takes nothing away."""
    transport = RecordingTransport()
    assert upload(log, transport) is ExitCode.DONE
    log.touch()
    assert upload(log, transport) is ExitCode.DONE
    assert transport.batches == []
    assert log.exists()


def test_all_lines_go_out_in_order_and_the_file_is_removed(log: Path) -> None:
    """Lines are sent as they are, in order; afterwards only the lock file is left."""
    log.write_text("".join(event(number) + "\n" for number in range(5_001)))
    transport = RecordingTransport()
    assert upload(log, transport) is ExitCode.DONE
    assert [sent["messageId"] for sent in transport.events] == [f"m{number}" for number in range(5_001)]
    assert max(map(len, transport.batches)) == 2_500
    assert names(log) == {"app.log.lock"}


def test_no_batch_is_larger_than_the_service_takes(log: Path) -> None:
    """Large events make batches of fewer: never more than 512,000 bytes, and not much less."""
    sizes: list[int] = []

    class Measuring(RecordingTransport):
        def send(self, batch: Sequence[Message], timeout_seconds: float | None = None) -> Answer:
            sizes.append(len(batch_body([body for _, body in batch])))
            return super().send(batch)

    log.write_text("".join(event(number, filler="x" * 32_000) + "\n" for number in range(40)))
    assert upload(log, Measuring()) is ExitCode.DONE
    assert max(sizes) <= BATCH_BYTES_MAX
    assert len(sizes) == 3


def test_a_failure_keeps_the_place(log: Path) -> None:
    """When the service goes away after two batches, the next run sends the rest and nothing twice."""
    log.write_text("".join(event(number) + "\n" for number in range(6_000)))
    first, second = RecordingTransport(Answer(200), Answer(200), AWAY), RecordingTransport()
    assert upload(log, first) is ExitCode.LATER
    log.write_text(event(6_000) + "\n")  # what is written meanwhile is sent in the same next run, after the rest
    assert upload(log, second) is ExitCode.DONE
    assert len(first.events) == 6_000
    assert [sent["messageId"] for sent in second.events] == [f"m{number}" for number in range(5_000, 6_001)]


def test_a_busy_service_is_tried_again_for_a_while(log: Path) -> None:
    """Within the retry time a batch is repeated, no sooner than the service asks; then it goes on."""
    log.write_text(event(1) + "\n")
    pauses: list[float] = []
    transport = RecordingTransport(AWAY, Answer(0, "timed_out", "No answer."))
    assert Uploader(str(log), transport, Report(), 60.0, sleep=pauses.append).run() is ExitCode.DONE
    assert len(transport.batches) == 3
    assert pauses[0] >= 1.0


@pytest.mark.parametrize("answer", [Answer(401, "unknown_write_key", "Copy it."), Answer(404, "not_found", "No.")])
def test_a_refusal_keeps_everything(log: Path, answer: Answer) -> None:
    """A wrong key or address ends the run at once with a code of its own; nothing is lost or set aside."""
    log.write_text(event(1) + "\n")
    assert upload(log, RecordingTransport(answer), 60.0) is ExitCode.REFUSED
    transport = RecordingTransport()
    assert upload(log, transport) is ExitCode.DONE
    assert [sent["messageId"] for sent in transport.events] == ["m1"]


def test_lines_that_are_no_events_are_set_aside_once(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be sent is kept with its reason, the rest is sent, and the run says so in its code."""
    bad = [b'{"half":', b"[1]", b'{"n":NaN}', b'{"a":"\xff"}', b"\0\0\0", b"[" * 100_000]
    log.write_bytes(b"\n".join([event(1).encode(), *bad, b"", event(2).encode()]) + b"\n")
    transport = RecordingTransport()
    assert upload(log, transport) is ExitCode.SET_ASIDE
    assert [sent["messageId"] for sent in transport.events] == ["m1", "m2"]
    reasons = ["invalid_json", "invalid_item", "invalid_json", "invalid_utf8", "invalid_json", "event_too_large"]
    assert [entry["reason"] for entry in aside(log)] == reasons
    assert aside(log)[0]["line"] == '{"half":'
    assert "lines that cannot be uploaded: 6;" in capsys.readouterr().err
    assert upload(log, transport) is ExitCode.DONE


def test_a_number_that_python_does_not_read_is_no_reason_to_set_a_line_aside(log: Path) -> None:
    """An integer of thousands of digits is JSON, and PHP's uploader sends it too."""
    log.write_text(f'{{"messageId":"m1","n":{"9" * 5_000}}}\n')
    transport = GateTransport(shut=False)
    assert upload(log, transport) is ExitCode.DONE
    assert transport.ids == ["m1"]


def test_what_the_service_rejects_is_set_aside_with_its_reason(log: Path) -> None:
    """Events that the service refuses one by one are kept beside the log, the others count as acknowledged."""
    log.write_text("".join(event(number) + "\n" for number in range(3)))
    transport = RecordingTransport(Answer(200, rejected=((1, "missing_event", "Give event."),)))
    assert upload(log, transport) is ExitCode.SET_ASIDE
    (entry,) = aside(log)
    assert (entry["reason"], json.loads(str(entry["line"]))["messageId"]) == ("missing_event", "m1")


def test_a_line_that_spoils_its_request_is_found(log: Path) -> None:
    """When a request is refused because of one event, exactly that one is set aside."""
    lines = [event(number, word="poison" if number == 613 else "") + "\n" for number in range(1_000)]
    log.write_text("".join(lines))
    transport = Poisoned()
    assert upload(log, transport) is ExitCode.SET_ASIDE
    assert [sent["messageId"] for sent in transport.events] == [f"m{n}" for n in range(1_000) if n != 613]
    assert [entry["line"] for entry in aside(log)] == [lines[613].rstrip()]


def test_a_line_set_aside_is_not_set_aside_again(log: Path) -> None:
    """A run that ended behind a bad line but before its batch was acknowledged does not keep the line twice."""
    log.write_text("rubbish\n" + event(1) + "\n")
    Uploader._keep_place, keep = fail_once(), Uploader._keep_place  # type: ignore[method-assign]
    try:
        assert upload(log, RecordingTransport()) is ExitCode.DISK
        assert upload(log, RecordingTransport()) is ExitCode.SET_ASIDE
    finally:
        Uploader._keep_place = keep  # type: ignore[method-assign]
    assert len(aside(log)) == 1


def fail_once() -> Callable[..., None]:
    """A disk that fails at the first place that is written."""
    failures = [OSError(5, "Input/output error")]

    def keep_place(self: object, taken: object) -> None:
        if failures:
            raise failures.pop()

    return keep_place


def test_a_long_line_is_gone_through_in_pieces(log: Path) -> None:
    """A line of megabytes is set aside whole, in pieces, and never held in memory at once."""
    long = "y" * 3_000_000
    log.write_text(event(1) + "\n" + long + '{"a":1}\n' + event(2) + "\n")
    transport = RecordingTransport()
    assert upload(log, transport) is ExitCode.SET_ASIDE
    assert [sent["messageId"] for sent in transport.events] == ["m1", "m2"]
    assert "".join(str(entry["line"]) for entry in aside(log)) == long + '{"a":1}'


def test_short_lines_that_are_no_events_are_not_all_held_in_memory(log: Path) -> None:
    """Each takes hundreds of bytes: a file of them is gone through in parts."""
    log.write_text("x\n" * 15_000)
    with log.open() as file:
        held = [len(batch.aside) for batch in batches(LineReader(file.fileno(), 0), "upload")]
    assert (max(held), sum(held)) == (10_000, 15_000)


def test_the_last_line_may_lack_its_end(log: Path) -> None:
    """A whole event without a line end is sent; half of one, of a killed process, is set aside."""
    log.write_text(event(1) + "\n" + event(2))
    transport = RecordingTransport()
    assert upload(log, transport) is ExitCode.DONE
    log.write_text(event(3)[:-5])
    assert upload(log, transport) is ExitCode.SET_ASIDE
    assert [sent["messageId"] for sent in transport.events] == ["m1", "m2"]


def test_an_event_without_message_id_gets_one_that_a_repeat_repeats(log: Path) -> None:
    """Lines of other libraries may lack a messageId; a batch that is sent again has the same ones."""
    log.write_text('{"type":"page","userId":"u"}\n{ }\n{"type":"page","messageId":""}\n')
    transport = RecordingTransport(Answer(0, "timed_out", "No answer."))
    assert upload(log, transport) is ExitCode.LATER
    assert upload(log, transport) is ExitCode.DONE
    ids = [[sent["messageId"] for sent in batch] for batch in transport.batches]
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 3


def test_two_logs_with_the_same_lines_have_different_message_ids(log: Path) -> None:
    """Ids that are made up belong to one upload: the same line an hour later is another event."""
    transport = RecordingTransport()
    for _ in range(2):
        log.write_text('{"type":"page","userId":"u"}\n')
        assert upload(log, transport) is ExitCode.DONE
    first, second = transport.events
    assert first["messageId"] != second["messageId"]


def test_a_second_uploader_leaves_the_file_alone(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """While one is at a file another ends at once, with the code for later, and without a word to the scheduler."""
    log.write_text(event(1) + "\n")
    lock = InstanceLock(f"{log}.lock")
    assert lock.take()
    transport = RecordingTransport()
    assert upload(log, transport) is ExitCode.LATER
    assert capsys.readouterr().err == ""
    assert Uploader(str(log), transport, Report(is_verbose=True)).run() is ExitCode.LATER
    assert "another uploader" in capsys.readouterr().err
    lock.release()
    assert transport.batches == []
    assert upload(log, transport) is ExitCode.DONE


def test_what_a_writer_without_locks_adds_is_sent(log: Path) -> None:
    """A line that PHP's library appends to the taken file while it is uploaded is not removed with it."""

    class Growing(RecordingTransport):
        def send(self, batch: Sequence[Message], timeout_seconds: float | None = None) -> Answer:
            if not self.batches:
                with log.with_name("app.log.uploading").open("a") as taken:
                    taken.write(event(2) + "\n")
            return super().send(batch)

    log.write_text(event(1) + "\n")
    transport = Growing()
    assert upload(log, transport) is ExitCode.DONE
    assert [sent["messageId"] for sent in transport.events] == ["m1", "m2"]


def test_a_full_disk_does_not_keep_the_log_from_being_uploaded(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No room for the place: the run goes on, because only its end makes room, and says so once."""
    log.write_text("".join(event(number) + "\n" for number in range(6_000)))
    transport = RecordingTransport()
    with file_size_limit(0):
        assert upload(log, transport) is ExitCode.DONE
    assert len(transport.events) == 6_000
    assert capsys.readouterr().err.count("no room") == 1
    assert names(log) == {"app.log.lock"}


def test_lines_are_not_dropped_when_the_side_file_cannot_be_written(log: Path) -> None:
    """A bad line that cannot be set aside ends the run; the line is still there for the next."""
    log.write_text("rubbish\n")
    with file_size_limit(4):
        assert upload(log, RecordingTransport()) is ExitCode.DISK
    assert upload(log, RecordingTransport()) is ExitCode.SET_ASIDE
    assert [entry["line"] for entry in aside(log)] == ["rubbish"]


@pytest.mark.parametrize("place", [{"upload": 5}, {"upload": "abc", "offset_bytes": 10**6}])
def test_a_damaged_place_begins_the_file_anew(log: Path, place: dict[str, object]) -> None:
    """Rubbish in the place file, or a place beyond the end, repeats events rather than leave any out."""
    log.write_text(event(1) + "\n")
    upload(log, RecordingTransport(AWAY))
    log.with_name("app.log.uploading.place").write_text(json.dumps(place))
    transport = RecordingTransport()
    assert upload(log, transport) is ExitCode.DONE
    assert len(transport.events) == 1


def test_another_users_file_is_not_uploaded(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder for all, somebody else's file in the place of a taken one is not sent with our write key."""
    log.parent.chmod(0o1777)
    taken = log.with_name("app.log.uploading")
    taken.write_text(event(1) + "\n")
    if os.geteuid() == 0:
        os.chown(taken, 1234, 1234)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 1234)
    transport = RecordingTransport()
    assert upload(log, transport) is ExitCode.DISK
    assert transport.batches == []


def test_a_link_is_not_renamed(log: Path, tmp_path: Path) -> None:
    """A log that is a link is refused: renaming would take the link away and leave the file."""
    (tmp_path / "real").write_text(event(1) + "\n")
    log.symlink_to(tmp_path / "real")
    assert upload(log, RecordingTransport()) is ExitCode.DISK
    assert log.is_symlink()
