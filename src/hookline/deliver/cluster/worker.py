"""One of many deliver processes: takes up and gives up partitions as the consumer group says (decision 26).

The group speaks on a thread of its own; everything is done on the event loop, and what waits for the database and for
brokers in another thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import math
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from hookline.database.location import location_of
from hookline.database.sqlite import DatabaseError
from hookline.database.sqlite import engine as sqlite
from hookline.deliver.checkpointer import Checkpointer
from hookline.deliver.cluster.agreement import Agreement
from hookline.deliver.cluster.fence import Fence, now_seconds
from hookline.deliver.cluster.heartbeat import Heartbeat
from hookline.deliver.cluster.shared_ring import SharedIndexStore, SharedRing
from hookline.deliver.cluster.takeover import Claim, Claims, PartitionTakeover
from hookline.deliver.dispatcher import Dispatcher
from hookline.deliver.read.catch_up import SharedReader
from hookline.deliver.read.feeder import Feeder
from hookline.journal.opening import FOLDER, journal_in
from hookline.journal.port import Follower, GroupEvents, JournalError, Lookups
from hookline.outcomes.progress import POSITION_SHIFT
from hookline.settings import Settings
from hookline.telemetry.crashpoints import crash_point
from hookline.telemetry.log import logger

RELEASE_SECONDS = 6.0
"""How long what is in flight of a partition may take to end: a request does within the 5 s of its exchange."""
SWITCH_SECONDS = 0.0005
"""How long a thread that saves or fetches may go on while the event loop wants to: it has to ask after every file and
socket, and with Python's 5 ms a moment's work took many times as long."""
POLL_SECONDS = 0.02
HURRY_SECONDS = 0.5
"""While lanes wait for a larger share of a limit: how often that is said."""
AGAIN_SECONDS = 0.5
"""From one try to take a partition to the next."""
WAIT_LOGGED_SECONDS = 10.0
"""The wait of an assigned partition before the log says for what: requests in flight and giving it up end sooner."""


class Worker:
    """The partitions of this process. ``follow_connections`` brings the lanes up to date."""

    def __init__(
        self,
        settings: Settings,
        fence: Fence,
        engine: Dispatcher,
        feeder: Feeder,
        checkpointer: Checkpointer,
        takeover: PartitionTakeover,
        follower: Follower,
        journal: Lookups,
        follow_connections: Callable[[], None],
    ) -> None:
        self._fence = fence
        self._engine = engine
        self._feeder = feeder
        self._checkpointer = checkpointer
        self._takeover = takeover
        self._follower = follower
        self._journal = journal
        self._follow_connections = follow_connections
        self._loop = asyncio.get_running_loop()
        self.shelf = SharedIndexStore(location_of(settings, "deliver"))
        self._ring = SharedRing(location_of(settings, "deliver"), engine.ring)
        self._claims = Claims(settings, self.shelf, engine.clock.steady_ms)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="claims")
        self._agreement = Agreement(
            self._claims.worker,
            engine,
            feeder,
            fence,
            settings.deliver.session_timeout,
            settings.deliver.timeout,
            self._loop.call_soon_threadsafe,
        )
        engine.on_lane = self._agreement.join
        self._heartbeat = Heartbeat(location_of(settings, "deliver"), self._claims.worker, self._agreement)
        self._hurried_seconds = 0.0
        self._wanted: dict[int, object] = {}
        """Partitions that the group has assigned; the mark tells one assignment from the next."""
        self._doubtful: dict[int, int] = {}
        """Assigned partitions that somebody else has taken, with the positions that were saved last."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closing = False
        self._failure: JournalError | None = None
        self._log = logger()
        self._data_path = settings.data_path
        self._membership = journal_in(settings.data_path / FOLDER).join(
            settings.deliver.session_timeout,
            GroupEvents(
                positions=lambda: {**self._doubtful, **self._checkpointer.positions},
                clock=now_seconds,
                on_assigned=lambda partitions: self._call(self._assigned, partitions),
                on_revoked=self._revoked,
                on_lost=lambda partitions: self._call(self._lost, partitions),
                on_confirmed=fence.confirm,
                on_failed=self._failed,
            ),
        )
        checkpointer.on_fenced = self._fenced

    def start(self) -> None:
        """Join the group."""
        sys.setswitchinterval(SWITCH_SECONDS)
        self._ring.publish()
        self._membership.start()
        self._heartbeat.start()

    def check(self) -> None:
        """Raise what ended the membership, if that has ended; called several times a second."""
        if self._failure is not None:
            raise self._failure
        now = self._loop.time()
        if now - self._hurried_seconds >= HURRY_SECONDS and self._agreement.is_waited_for:
            self._hurried_seconds = now
            self._heartbeat.beat_soon()

    def close(self) -> None:
        """Leave the group. Everything is to be saved before; whoever gets the partitions goes on from there."""
        self._is_closing = True
        self._ring.hand_over()
        self._membership.close()
        for task in self._tasks:
            task.cancel()
        self._heartbeat.close()
        self._thread.submit(self._claims.close)
        self._thread.shutdown(wait=False)
        self.shelf.close()

    # what the group says, on its thread

    def _call(self, work: Callable[[frozenset[int]], None], partitions: frozenset[int]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(work, partitions)

    def _revoked(self, partitions: frozenset[int]) -> Future[Mapping[int, int]]:
        done: Future[Mapping[int, int]] = Future()
        if self._is_closing:
            done.set_result({})
        else:
            self._call(lambda these: self._begin(self._answer(these, done)), partitions)
        return done

    def _failed(self, failure: JournalError) -> None:
        self._fence.shut()
        self._failure = failure

    # what is done about it, on the loop

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _assigned(self, partitions: frozenset[int]) -> None:
        for partition in sorted(partitions):
            mark = self._wanted[partition] = object()
            self._begin(self._take(partition, mark, now_seconds()))

    async def _take(self, partition: int, mark: object, since_seconds: float) -> None:
        """Take a partition as soon as that can be done, as long as it is wanted."""
        logged, log_wait_at = "", self._loop.time() + WAIT_LOGGED_SECONDS
        while self._is_wanted(partition, mark):
            try:
                awaited = self._awaited_before(partition, since_seconds)
                if not awaited:
                    await self._try_to_take(partition, mark)
                    return
                if self._loop.time() >= log_wait_at:
                    log_wait_at = math.inf  # once
                    self._log.warning("partition_not_taken", partition=partition, reason=f"waits for {awaited}")
                await asyncio.sleep(POLL_SECONDS)
            except Exception as error:  # noqa: BLE001 - whatever it is, nobody else takes the partition
                if str(error) != logged:
                    logged = str(error)
                    self._log_not_taken(partition, error)
                await asyncio.sleep(AGAIN_SECONDS)

    def _log_not_taken(self, partition: int, error: Exception) -> None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            next_step = f"free space on the disk of {self._data_path}; the partition is then taken"
            self._log.error("partition_not_taken", partition=partition, reason=str(error), next_step=next_step)
        elif isinstance(error, (JournalError, sqlite.Error, DatabaseError, OSError)):
            self._log.warning("partition_not_taken", partition=partition, reason=str(error))
        else:
            self._log.error("partition_not_taken", partition=partition, reason=repr(error), exc_info=error)

    def _is_wanted(self, partition: int, mark: object) -> bool:
        return not self._is_closing and self._wanted.get(partition) is mark

    def _awaited_before(self, partition: int, since_seconds: float) -> str:
        """Return what a partition waits for before it can be taken, empty where it need not wait."""
        if partition in self._feeder.shared:
            return "this process to have given it up"
        destinations = self._in_flight_to((partition,))
        if destinations:
            return f"what is in flight of it to {', '.join(destinations)}"
        if partition in self._doubtful and not self._fence.is_confirmed_since(since_seconds):
            return "brokers to confirm that this process is a member of the group"
        return ""

    async def _try_to_take(self, partition: int, mark: object) -> None:
        """Take a partition that waits for nothing, unless it is not wanted any more; raise what keeps it from that."""
        claim = await self._loop.run_in_executor(
            self._thread, self._claims.take, partition, lambda: self._is_wanted(partition, mark)
        )
        if claim is None:
            return
        self._follow_connections()
        if not self._is_wanted(partition, mark):
            claim.duplicates.close()
            return
        if claim.then.version > self._checkpointer.version:
            claim.duplicates.close()
            raise DatabaseError(f"connections version {claim.then.version} cannot be read yet")
        try:
            self._adopt(claim)
        except BaseException:
            self._leave(partition)  # half of it would be worse than nothing
            raise

    def _adopt(self, claim: Claim) -> None:
        partition = claim.partition
        self._engine.batch.leave_out(partition.__eq__)
        self._doubtful.pop(partition, None)
        claim.duplicates.read_by(self._journal)
        self._follower.follow(partition, claim.end)
        shared = SharedReader(partition, self._follower, claim.duplicates, claim.next_offset)
        self._fence.epochs[partition] = claim.epoch
        self._checkpointer.take(partition, claim.next_offset)
        self._takeover.take_over(claim, shared, self._checkpointer.version)
        self._feeder.wake()
        self._heartbeat.beat_soon()
        self._log.info("partition_taken", partition=partition, epoch=claim.epoch, offset=claim.next_offset)
        crash_point("worker.partition_taken")

    async def _answer(self, partitions: frozenset[int], done: Future[Mapping[int, int]]) -> None:
        try:
            done.set_result(await self._release(partitions))
        except BaseException as error:
            done.set_exception(error)
            raise

    async def _release(self, partitions: frozenset[int]) -> dict[int, int]:
        """Give partitions up: what is in flight ends, everything is saved; return the last positions."""
        self._unwant(partitions)
        epochs = {each: epoch for each, epoch in self._fence.epochs.items() if each in partitions}
        held = sorted(epochs)
        self._fence.leaving.update(held)
        for partition in held:
            self._feeder.freeze(partition)
        deadline = self._loop.time() + RELEASE_SECONDS
        while self._in_flight_to(held):
            if self._loop.time() > deadline:
                break
            await asyncio.sleep(POLL_SECONDS)
        is_saved = await self._checkpointer.save()
        positions = {each: position for each, position in self._checkpointer.positions.items() if each in held}
        for partition in held:
            if self._fence.epochs.get(partition) == epochs[partition]:  # or it was lost, and taken again, meanwhile
                self._leave(partition)
        self._log.info("partitions_given_up", partitions=held, saved=is_saved)
        crash_point("worker.partition_given_up")
        return positions

    def _lost(self, partitions: frozenset[int]) -> None:
        """The group has given them to others, or may have: nothing of them is sent or written any more."""
        self._fence.shut()
        self._unwant(partitions)
        self._drop(partitions)

    def _unwant(self, partitions: frozenset[int]) -> None:
        for partition in partitions:
            self._wanted.pop(partition, None)
            self._doubtful.pop(partition, None)
        if not self._is_closing:
            self._thread.submit(self._claims.forget, partitions)  # there, so that no try under way comes after it

    def _fenced(self, partitions: frozenset[int]) -> None:
        """Others have taken them. Where the group still says that they are ours, that was a mistake of theirs: they are
        taken again as soon as the group has said so once more."""
        positions = {each: self._checkpointer.positions.get(each, 0) for each in partitions}
        self._drop(partitions)
        for partition in partitions & self._wanted.keys():
            self._doubtful[partition] = positions[partition]
        self._assigned(partitions & self._wanted.keys())

    def _drop(self, partitions: Iterable[int]) -> None:
        held = sorted(self._fence.epochs.keys() & set(partitions))
        for partition in held:
            self._leave(partition)
        if held:
            self._log.warning("partitions_lost", partitions=held)

    def _leave(self, partition: int) -> None:
        if partition not in self._feeder.shared:
            return
        self._fence.leave(partition)
        self._feeder.leave(partition)
        self._follower.leave(partition)
        self._checkpointer.leave(partition)
        self._engine.batch.leave_out(partition.__eq__)
        self._heartbeat.beat_soon()

    def _in_flight_to(self, partitions: Iterable[int]) -> list[str]:
        """Return the destinations to which something of these partitions is in flight."""
        some = set(partitions)
        lanes = self._engine.lanes.values()
        return sorted(
            {
                lane.destination.id
                for lane in lanes
                if any(position >> POSITION_SHIFT in some for position in lane.in_flight)
            }
        )
