"""Reading ahead: where there is much to read, another process decodes and matches the records while this one writes.

It ends by itself once it has come to the journal's end, or when nobody can take its pages any more. They come through a
pipe and are nowhere else. Whatever it has read and this process did not write is read again.

``python -m hookline.people.ingest.ahead`` is that process: it takes a ``_Task`` from its input and writes pages to its
output, each behind its length, an empty one behind each turn.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, BinaryIO

import msgspec

from hookline.journal.opening import open_reader
from hookline.people.definitions.feature import Feature
from hookline.people.ingest.extraction import Matcher, Page, position_in, turn
from hookline.people.store.batch import ReadPosition

PAGES_BYTES_MAX = 16 << 20
"""Of pages that wait to be taken; one more may come in."""
PATIENCE_SECONDS = 10.0
"""How long to wait for a page."""
PIPE_BYTES = 1 << 20
_LENGTH_BYTES = 4
_END_OF_TURN = b""

_encode = msgspec.msgpack.Encoder().encode
_page = msgspec.msgpack.Decoder(Page).decode


class NotReadAhead(OSError):
    """The process that reads ahead has ended, or says nothing."""


class _Task(msgspec.Struct, array_like=True):
    """Which journal to read from where, for which features."""

    folder: str
    positions: dict[int, ReadPosition]
    features: dict[int, Feature]
    batch_records: int


class Ahead:
    """The process and what it has read; used from one thread. Raises OSError where no process can be started."""

    def __init__(
        self, folder: Path, positions: Mapping[int, ReadPosition], features: Mapping[int, Feature], batch_records: int
    ) -> None:
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._ended = False
        self._change = threading.Condition()
        command = [sys.executable, "-P", "-m", "hookline.people.ingest.ahead"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._thread = threading.Thread(target=self._take_pages, name="profiles-ahead", daemon=True)
        self._thread.start()
        task = _Task(str(folder), dict(positions), dict(features), batch_records)
        with suppress(BrokenPipeError):  # it has ended, which the first turn tells
            _input(self._process).write(_encode(task))
            _input(self._process).close()

    def turn(self) -> Iterator[Page]:
        """Yield the pages of the next turn, none once the journal's end is reached; raise NotReadAhead when the process
        has ended before it or says nothing for too long."""
        while page := self._next():
            yield _page(page)

    def close(self) -> None:
        """End the process; idempotent."""
        with self._change:
            self._ended = True
            self._change.notify_all()
        self._process.kill()
        self._process.wait()
        self._thread.join()
        _output(self._process).close()

    def _next(self) -> bytes:
        with self._change:
            if not self._change.wait_for(lambda: self._waiting or self._ended, PATIENCE_SECONDS):
                raise NotReadAhead("the process that reads the journal ahead for profiles does not go on")
            if not self._waiting:
                raise NotReadAhead("the process that reads the journal ahead for profiles has ended")
            page = self._waiting.popleft()
            self._waiting_bytes -= len(page)
            self._change.notify_all()
            return page

    def _take_pages(self) -> None:
        """Bring pages into memory, as far as there is room for them."""
        output = _output(self._process)
        with suppress(OSError):
            while len(head := output.read(_LENGTH_BYTES)) == _LENGTH_BYTES:
                length = int.from_bytes(head, "little")
                page = output.read(length)
                if len(page) < length:  # killed while it wrote
                    break
                with self._change:
                    self._change.wait_for(lambda: self._waiting_bytes < PAGES_BYTES_MAX or self._ended)
                    if self._ended:
                        return
                    self._waiting.append(page)
                    self._waiting_bytes += len(page)
                    self._change.notify_all()
        with self._change:
            self._ended = True
            self._change.notify_all()


def main() -> None:
    """Read what the task says to the journal's end, however long nobody takes the pages."""
    for number in (signal.SIGINT, signal.SIGTERM):  # meant for the process that takes the pages, which ends this one
        signal.signal(number, signal.SIG_IGN)
    task = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=_Task)
    output = sys.stdout.buffer
    _widen(output)
    with suppress(BrokenPipeError):
        for page in _all_turns(task):
            output.write(len(page).to_bytes(_LENGTH_BYTES, "little") + page)
            output.flush()
    os._exit(0)  # whatever is left for a pipe that nobody reads


def _all_turns(task: _Task) -> Iterator[bytes]:
    """Yield the pages of one turn after the other, an empty text behind each: the last turn but one came to where all
    partitions ended before it, for transactions should not become small, and the last has none."""
    journal, matcher, positions = open_reader(Path(task.folder)), Matcher(task.features), task.positions
    is_near = False
    while not is_near:
        ends, is_near = {partition: journal.end(partition) for partition in journal.partitions()}, True
        for page in turn(journal, positions, matcher, task.batch_records):
            yield _encode(page)
            positions[page.partition] = page.position
            is_near = False
        is_near = is_near or all(
            position_in(journal, positions, partition).next_offset >= end for partition, end in ends.items()
        )
        yield _END_OF_TURN
    yield _END_OF_TURN


def _widen(pipe: BinaryIO) -> None:
    """Let more wait in the pipe where the system can: each time it is emptied costs the reader a moment."""
    if sys.platform == "linux":
        import fcntl

        with suppress(OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)


def _input(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdin is not None
    return process.stdin


def _output(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdout is not None
    return process.stdout


if __name__ == "__main__":
    main()
