"""One simulated machine: a data folder with a journal, connections, and a deliver process that lives, dies and returns.

The journal's writer, its recovery, the databases and the whole deliver role are the real ones. A kill takes the
process's memory; a power cut also takes what was not synchronised.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hookline.connections.edits import Edit
from hookline.connections.model import Offsets
from hookline.connections.store import Store
from hookline.database.sqlite import engine as sqlite
from hookline.deliver.retry.policy import RetrySchedule
from hookline.deliver.role import DeliverRole
from hookline.deliver.store.batch import Batch
from hookline.journal.local.disk import END_NAME, EndFile
from hookline.journal.local.erase import erase_records
from hookline.journal.local.partition import PartitionWriter
from hookline.journal.local.partition_reader import LocalReader
from hookline.journal.local.recovery import recover
from hookline.journal.local.segment import NextSegment
from hookline.journal.port import JournalError, partition_of
from hookline.journal.record import Record
from hookline.settings import Settings
from hookline.simulation.scheduler import Call, Crashed, Scheduler, SimulatedLoop, SimulatedPools, Traffic
from tests.worlds.arrivals import message_id_of
from tests.worlds.disk import SimulatedDisk, cut_log, mix_pages
from tests.worlds.limits import SMALL

SEGMENT_BYTES = 16 * 1024
COMMIT_SECONDS = (0.0005, 0.004)
SLOW_COMMIT_SECONDS = (0.2, 1.5)


class Inline(ThreadPoolExecutor):
    """A pool whose work is done by the caller."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Do the work now."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - the border of a thread: whoever waits gets it
            future.set_exception(error)
        return future


class Machine:
    """Life and death of one installation.

    ``on_error`` is told of errors that no crash explains, ``on_ended`` when the process has ended by itself.
    """

    def __init__(
        self,
        settings: Settings,
        scheduler: Scheduler,
        traffic: Traffic,
        seed: str,
        on_error: Callable[[BaseException | str], None],
        on_ended: Callable[[], None],
    ) -> None:
        self.settings = settings
        self.scheduler = scheduler
        self.lives = 0
        self.role: DeliverRole | None = None
        self.slow_commits = False
        self.saved_at = scheduler.clock.seconds
        """What the role knew before this moment is in the database; kept up by commits."""
        self._commits = [(0, self.saved_at)]
        """(size of the log, saved_at) when it was on the disk last, and after each commit since."""
        self._committing: tuple[Batch | None, float] = None, 0.0
        """The checkpoint being saved and the moment it is of: one that fails is tried again as it is, later."""
        self._traffic = traffic
        self._seed = seed
        self._on_error = on_error
        self._on_ended = on_ended
        self._rng = random.Random(f"{seed}/machine")
        self._data = settings.data_path
        self._loop: SimulatedLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ring_before = b""
        (self._data / "run").mkdir(parents=True, exist_ok=True)
        self.disk = SimulatedDisk(self._rng)
        self._writers: list[PartitionWriter] = []
        self._ends_before: Offsets = {}
        self.open_journal()
        self.store = Store(
            self._data / "control.db", now_ms=scheduler.clock.now_ms, steady_ms=scheduler.clock.steady_ms
        )
        self.reader = LocalReader(self._data / "journal")

    # the journal and the connections

    def ends(self) -> Offsets:
        """The durable end of every partition."""
        return {number: writer.next_offset for number, writer in enumerate(self._writers)}

    def open_journal(self) -> None:
        """Open every partition after whatever happened to it."""
        for writer in self._writers:
            writer.close()
        self._writers = []
        for number in range(self.settings.journal.partitions):
            folder = self._data / "journal" / str(number)
            folder.mkdir(parents=True, exist_ok=True)
            tail, _ = recover(folder, number, self.disk)
            following = NextSegment(folder, self.disk, Inline(1), 0, self.scheduler.clock.monotonic)
            self._writers.append(PartitionWriter(folder, self.disk, following, tail, SEGMENT_BYTES))
        self._ends_before = self.ends()

    def append(self, records: Iterable[Record]) -> bool:
        """Store records as collect does; return whether they may be acknowledged."""
        shares: dict[int, list[Record]] = {}
        for record in records:
            shares.setdefault(partition_of(record.user_key, len(self._writers)), []).append(record)
        try:
            for number, share in shares.items():
                self._writers[number].write(share)
        except JournalError:
            return False
        return True

    def erase(self, partition: int, offsets: Sequence[int]) -> None:
        """Overwrite records as collect does; raise OSError when the disk refuses it."""
        folder = self._data / "journal" / str(partition)
        erase_records(folder, self.disk, self.reader.locate(partition, offsets))

    def poke(self) -> None:
        """Collect's datagram after a commit."""
        if self._loop is not None and not self._loop.dead:
            self._loop.wake()

    def change(self, edits: Iterable[Edit]) -> int:
        """Change the connections as control does."""
        return self.store.change(list(edits), "simulation", None, self.ends)

    # the deliver process

    @property
    def up(self) -> bool:
        """Whether the deliver process lives."""
        return self.role is not None

    def start(self) -> None:
        """Start the deliver process as the program does."""
        if self.role is not None:
            return
        self.lives += 1
        loop = self._loop = SimulatedLoop(self.scheduler, self._work, self._on_error)
        self.scheduler.soon(Call(loop, self._begin, (loop,)))

    def _begin(self, loop: SimulatedLoop) -> None:
        rng = random.Random(f"{self._seed}/schedule/{self.lives}")
        role = DeliverRole(
            self.settings,
            self.scheduler.clock,
            lambda sink, settings: SimulatedPools(sink, loop, self._traffic, message_id_of=message_id_of),
            loop.call_soon,
            limits=SMALL,
        )
        self.role = role
        self._commits = [(_size(self._data / "deliver.db-wal"), self.saved_at)]
        self._ring_before = role.engine.ring.everything()
        role.engine.schedule = RetrySchedule(self.settings.deliver, rng, SMALL)
        self._stop = asyncio.Event()
        role.recover()
        loop.run(role.run(self._stop)).add_done_callback(lambda task: self._gone())

    def stop(self) -> None:
        """Ask the process to end, as SIGTERM does."""
        if self._stop is not None:
            self._stop.set()

    def _gone(self) -> None:
        """The process has ended by itself."""
        self.role = self._loop = self._stop = None
        self._on_ended()

    def freeze(self) -> None:
        """Let nothing more happen in the process: its end is under way."""
        if self._loop is not None:
            self._loop.dead = True

    def kill(self) -> None:
        """End the process as kill -9 does: its memory is gone, what it wrote stays."""
        role, self.role = self.role, None
        if self._loop is not None:
            self._loop.die()
        self._loop = self._stop = None
        if role is not None:
            role.close()

    def cut_power(self) -> None:
        """End the machine: what was not synchronised may be gone, too."""
        if self.role is None:
            self.kill()
        else:
            self._cut_files(self.role)
        self.disk.cut()
        self._take_back_ends()
        self.open_journal()

    def _cut_files(self, role: DeliverRole) -> None:
        """The log keeps a beginning of what was appended, the ring of each page an earlier or the last state."""
        database, log = self._data / "deliver.db", self._data / "deliver.db-wal"
        ring = mix_pages(self._ring_before, role.engine.ring.everything(), self._rng)
        written = log.read_bytes() if log.exists() else b""
        safe = self._commits[0][0]
        left = written[:safe] + cut_log(written[safe:], self._rng)
        content = database.read_bytes()
        self.saved_at = [saved_at for size, saved_at in self._commits if size <= len(left)][-1]
        self.kill()
        if written:
            database.write_bytes(content)
            log.write_bytes(left)
        (self._data / "progress.ring").write_bytes(ring)

    def _take_back_ends(self) -> None:
        """The files that say how far readers may read are never synchronised: they may be older than the journal."""
        for number, writer in enumerate(self._writers):
            end = EndFile(writer.folder / END_NAME, writable=True)
            end.publish(self._rng.randint(self._ends_before[number], end.value))
            end.close()

    def _work(self, work: Callable[[], object], future: asyncio.Future[Any]) -> None:
        """What the checkpoint's thread does: takes a moment, and may fail."""
        now = self.scheduler.clock.seconds
        batch = self.role.checkpointer.committing if self.role is not None else None
        if batch is not self._committing[0]:
            self._committing = batch, now
        gathered_at = self._committing[1]
        loop = self._loop
        seconds = self._rng.uniform(*(SLOW_COMMIT_SECONDS if self.slow_commits else COMMIT_SECONDS))

        def commit() -> None:
            answer: Callable[..., None] = future.set_result
            given: object = None
            try:
                if self.disk.full:
                    raise sqlite.OperationalError("database or disk is full")
                given = work()
                self._committed(gathered_at)
                if self.role is not None and self.role.checkpointer.is_synced:
                    self._commits = self._commits[-1:]
            except Crashed as crash:
                if crash.committed:
                    self._committed(gathered_at)
                raise
            except sqlite.Error as error:
                answer, given = future.set_exception, error
            self.scheduler.at(self.scheduler.clock.seconds + seconds / 10, Call(loop, answer, (given,)))

        self.scheduler.at(now + seconds, Call(loop, commit))

    def _committed(self, gathered_at: float) -> None:
        self.saved_at = gathered_at
        size = _size(self._data / "deliver.db-wal")
        if size < self._commits[-1][0]:  # an erasure has emptied the log: all before is in the database
            self._commits.clear()
        self._commits.append((size, gathered_at))

    def close(self) -> None:
        """Let go of everything."""
        self.kill()
        self.reader.close()
        self.store.close()
        for writer in self._writers:
            writer.close()
        self.disk.close()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
