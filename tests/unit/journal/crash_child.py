"""A process to kill: ``python crash_child.py FOLDER FIRST`` appends, erases and retains, and prints what is certain.

Prints ``acked N`` when record N is durable and ``erased OFFSET`` when that record's content is gone. It ends by
itself only if nothing killed it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from hookline.journal.conformance import a_record
from hookline.journal.local.appender import LocalAppender
from hookline.journal.local.disk import Disk
from hookline.journal.local.partition_reader import LocalReader

SEGMENT_BYTES = 64 * 1024
BODY_BYTES = 3_000
ROUNDS = 60
PER_ROUND = 4


class DiesInWriting(Disk):
    """Kills the process when a write is half done."""

    def __init__(self, writes_left: int) -> None:
        self._writes_left = writes_left

    def pwritev(self, fd: int, buffers: Sequence[bytes | memoryview], position: int) -> int:
        self._writes_left -= 1
        if self._writes_left == 0:
            data = b"".join(bytes(buffer) for buffer in buffers)
            os.pwrite(fd, data[: len(data) // 2], position)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().pwritev(fd, buffers, position)


async def work(folder: Path, first: int, disk: Disk) -> None:
    """Append round by round; every fifth round erase an old record, every tenth drop what is too much."""
    appender = LocalAppender(
        folder, retention_seconds=1e6, retention_bytes=12 * SEGMENT_BYTES, segment_bytes=SEGMENT_BYTES, disk=disk
    )
    reader = LocalReader(folder)
    for number in range(ROUNDS):
        numbers = range(first + number * PER_ROUND, first + (number + 1) * PER_ROUND)
        await asyncio.gather(*(appender.append([a_record(n, received_at=n, body=b"x" * BODY_BYTES)]) for n in numbers))
        _say("".join(f"acked {n}\n" for n in numbers))
        if number % 5 == 4:
            offset = reader.start(0) + number
            appender.erase(0, [offset])
            _say(f"erased {offset}\n")
        if number % 20 == 19:
            appender.retain(1_000)
    await appender.close()


def _say(lines: str) -> None:
    """In one system call: a kill may come between two."""
    os.write(1, lines.encode())


if __name__ == "__main__":
    writes_left = int(os.environ.get("HOOKLINE_TEST_WRITES", "0"))
    asyncio.run(work(Path(sys.argv[1]), int(sys.argv[2]), DiesInWriting(writes_left) if writes_left else Disk()))
