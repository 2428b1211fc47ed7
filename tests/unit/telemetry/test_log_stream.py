"""The stream of log lines, over real pipes and files."""

from __future__ import annotations

import os
import resource
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline.telemetry import log_stream
from hookline.telemetry.log_stream import WAITING_BYTES_MAX, LogStream
from tests.service.waiting import wait_until

LINE = "x" * 999 + "\n"
LINES_MAX = (WAITING_BYTES_MAX + log_stream.PIPE_BYTES_MIN) // len(LINE) + 1
"""More than pipe and stream together can hold."""


@pytest.fixture
def pipe() -> Iterator[tuple[int, LogStream]]:
    """The end to read, and a stream to the other one."""
    reading, writing = os.pipe()
    yield reading, LogStream(writing)
    os.close(reading)
    os.close(writing)


def test_whole_lines_are_written_at_once(pipe: tuple[int, LogStream]) -> None:
    """The ordinary way: no thread, nothing kept but a line that has no end yet."""
    reading, stream = pipe
    stream.write("one\ntw")
    assert os.read(reading, 100) == b"one\n"
    stream.write("o\n")
    assert os.read(reading, 100) == b"two\n"
    assert not stream._has_thread


def test_a_full_pipe_drops_lines_and_says_how_many(pipe: tuple[int, LogStream]) -> None:
    """Nobody reads: writing returns; who reads again gets what was kept, in order, and the number that was not."""
    reading, stream = pipe
    for number in range(LINES_MAX):
        stream.write(f"{number:4}{LINE[4:]}")
    seen = b""
    while b"log_lines_dropped" not in seen:
        seen += os.read(reading, 65_536)
    *lines, told = seen.splitlines()
    kept = [int(line[:4]) for line in lines]
    assert kept[0] == 0
    assert len(kept) > WAITING_BYTES_MAX // len(LINE)
    assert kept == sorted(set(kept))
    assert f" {LINES_MAX - len(lines)} lines" in told.decode()
    wait_until(lambda: not stream._has_thread, what="the thread is gone")
    stream.write("after\n")
    assert os.read(reading, 100) == b"after\n"


def test_a_reader_that_is_gone_is_no_error() -> None:
    """EPIPE, as after `| head`: lines are dropped, at once and without an exception."""
    reading, writing = os.pipe()
    stream = LogStream(writing)
    os.close(reading)
    stream.write(LINE)
    stream.write(LINE)
    assert stream._dropped == 2
    os.close(writing)


def test_a_disk_with_room_again_is_told_what_it_missed(tmp_path: Path) -> None:
    """A log file that cannot grow: the first line that fits again comes after the number of those that did not."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    log = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    try:
        stream = LogStream(log)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
        stream.write("a\n")
        stream.write("b\n")
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        stream.write("c\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
        os.close(log)
    told, last = (tmp_path / "log").read_text().splitlines()
    assert (last, " 2 lines" in told) == ("c", True)


def test_an_end_does_not_wait_for_a_reader(pipe: tuple[int, LogStream]) -> None:
    """A process that ends gives what waits a moment and no more; with a reader everything is written by then."""
    reading, stream = pipe
    for _ in range(LINES_MAX):
        stream.write(LINE)
    stream.drain(0.01)
    assert stream._has_thread
    reader = threading.Thread(target=read_until, args=(reading, b"end\n"))
    reader.start()
    stream.drain(30)
    assert not stream._has_thread
    stream.write("end\n")
    reader.join()


def read_until(reading: int, last: bytes) -> None:
    """Read until these bytes have come last."""
    seen = b""
    while not seen.endswith(last):
        seen = os.read(reading, 65_536)
