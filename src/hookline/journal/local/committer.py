"""Group commit: everything appended in a turn or a few of the event loop shares one write and one synchronisation.

It holds what waits, decides when and where the commit runs (on the loop while the disk is quick, in one thread while
it is slow), and answers the callers in order. How records reach the disk is the function it is given.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from hookline.journal.local.segment import encode_groups
from hookline.journal.port import GROUP_BYTES_MAX, Done, JournalBusy, JournalError, JournalFailed
from hookline.journal.record import Record
from hookline.telemetry.crashpoints import crash_point

Waiting = tuple[Sequence[Record], Done]

SLOW_SECONDS = 0.002
"""A synchronisation slower than this on average would hold up the loop: commits go to a thread."""
QUICK_SECONDS = 0.001
"""Below this average they come back."""
_AVERAGE_WEIGHT = 0.1

GATHER_TURNS_MAX = 3
"""While more keeps coming, a commit waits for so many further turns: under load they are far fewer, and fuller."""
GATHER_SECONDS = 0.001
"""Turns that take long are not waited for: who appended in the first one would pay for all of them."""
GATHER_APPENDS = 64
GATHER_BYTES = 1024 * 1024
"""Enough for one commit: what it costs by itself is then small beside what each event costs."""


class Committer:
    """Collects appends, commits them together in order, and answers each caller once."""

    def __init__(
        self,
        commit: Callable[[list[Record]], float],
        would_wait: Callable[[int], bool],
        committed: Callable[[], None],
        failed: Callable[[JournalFailed], None],
        pending_bytes_max: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``commit`` stores records and returns the seconds the disk took; ``committed`` is called after each."""
        self._commit = commit
        self._would_wait = would_wait
        self._committed = committed
        self._failed = failed
        self._pending_bytes_max = pending_bytes_max
        self._pending: list[Waiting] = []
        self._pending_bytes = 0
        self._in_flight_bytes = 0
        self._scheduled = False
        self._gathered = 0
        self._gather_turns = 0
        self._gather_ends = 0.0
        self._clock = clock
        self._threads: ThreadPoolExecutor | None = None
        self._average_seconds = 0.0
        self._in_thread = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def is_slow(self) -> bool:
        """Return whether commits run in the thread at present."""
        return self._in_thread

    @property
    def pending_bytes(self) -> int:
        """About how much waits for the disk."""
        return self._pending_bytes + self._in_flight_bytes

    def add(self, records: Sequence[Record], size_bytes: int, done: Done) -> None:
        """Have the records committed within a few turns of the loop; raise JournalBusy when too much waits."""
        if self._pending_bytes + self._in_flight_bytes + size_bytes > self._pending_bytes_max:
            raise JournalBusy("the disk is slower than what arrives: try again in a moment")
        self._pending.append((records, done))
        self._pending_bytes += size_bytes
        if not self._scheduled:
            self._scheduled = True
            self._idle.clear()
            self._loop = asyncio.get_running_loop()
            self._loop.call_soon(self._flush)

    async def close(self) -> None:
        """Commit what waits, then stop."""
        await self._idle.wait()
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None

    def _flush(self) -> None:
        if self._gathers():
            return
        batch, self._pending = self._pending, []
        self._in_flight_bytes, self._pending_bytes = self._pending_bytes, 0
        records = [record for records, _ in batch for record in records]
        if self._in_thread or self._would_wait(self._in_flight_bytes):
            self._flush_in_thread(batch, records)
        else:
            self._finish(batch, self._try_commit(records))

    def _gathers(self) -> bool:
        """Put the commit off by a turn of the loop when several appends came in the last one."""
        count, before = len(self._pending), self._gathered
        enough = count >= GATHER_APPENDS or self._pending_bytes >= GATHER_BYTES
        if self._gather_turns == 0:
            self._gather_ends = self._clock() + GATHER_SECONDS
        is_late = self._gather_turns >= GATHER_TURNS_MAX or self._clock() > self._gather_ends
        if enough or is_late or count <= max(before, 1):
            self._gathered = self._gather_turns = 0
            return False
        self._gathered = count
        self._gather_turns += 1
        assert self._loop is not None
        self._loop.call_soon(self._flush)
        return True

    def _flush_in_thread(self, batch: list[Waiting], records: list[Record]) -> None:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(1, thread_name_prefix="journal-commit")
        loop = self._loop
        assert loop is not None

        def finish(future: Future[BaseException | None]) -> None:
            loop.call_soon_threadsafe(self._finish, batch, future.result())

        self._threads.submit(self._try_commit, records).add_done_callback(finish)

    def _try_commit(self, records: list[Record]) -> BaseException | None:
        try:
            seconds = self._commit(records)
        except (JournalError, ValueError, TypeError) as error:
            return error
        except Exception as error:  # noqa: BLE001 - the border of the commit loop: callers must hear of it
            return JournalFailed(f"storing events failed unexpectedly ({error!r}): start again")
        self._average_seconds += (seconds - self._average_seconds) * _AVERAGE_WEIGHT
        return None

    def _finish(self, batch: list[Waiting], error: BaseException | None) -> None:
        if isinstance(error, ValueError | TypeError):
            batch, error = self._without_unstorable(batch)
        self._in_thread = self._average_seconds > (QUICK_SECONDS if self._in_thread else SLOW_SECONDS)
        self._in_flight_bytes = 0
        if isinstance(error, JournalFailed):
            self._failed(error)
        elif error is None:
            crash_point("journal.after_publish_before_answer")
        for _, done in batch:
            self._answer(done, error)
        if error is None:
            self._committed()
        if self._pending:
            assert self._loop is not None
            self._loop.call_soon(self._flush)
        else:
            self._scheduled = False
            self._idle.set()

    def _without_unstorable(self, batch: list[Waiting]) -> tuple[list[Waiting], BaseException | None]:
        """Answer the callers whose records cannot be encoded, and commit the others: one must not fail all."""
        good: list[Waiting] = []
        for records, done in batch:
            try:
                deque(encode_groups(records, 0, GROUP_BYTES_MAX), maxlen=0)
            except (ValueError, TypeError) as error:
                self._answer(done, error)
            else:
                good.append((records, done))
        return good, self._try_commit([record for records, _ in good for record in records]) if good else None

    def _answer(self, done: Done, error: BaseException | None) -> None:
        try:
            done(error)
        except Exception as raised:  # noqa: BLE001 - one caller's callback must not drop the others' answers
            assert self._loop is not None
            context = {"message": "a journal append's callback raised", "exception": raised}
            self._loop.call_exception_handler(context)
