"""The deliver role on a manual clock and a network whose answers the test decides; everything else is real.

Journal, control.db, deliver.db, index and progress ring are files of a temporary folder. ``kill`` drops the role as
kill -9 would: nothing is closed, nothing is saved.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterable, Set
from pathlib import Path

import msgspec

from hookline.connections.edits import Delete, Edit, Put
from hookline.connections.model import Destination, Source, Webhook, WebhookSettings
from hookline.connections.receiver_url import ReceiverUrl
from hookline.connections.store import Store
from hookline.database.connect import connect
from hookline.database.location import location_of
from hookline.deliver.event import Event
from hookline.deliver.lanes.delivery import Delivery
from hookline.deliver.lanes.lane import Lane, Target
from hookline.deliver.lanes.mapped import Parcel
from hookline.deliver.retry.policy import RetrySchedule
from hookline.deliver.role import DeliverRole
from hookline.deliver.send.port import Answer, Failure, Route, Sender, Sink
from hookline.journal.local.appender import LocalAppender
from hookline.journal.local.disk import Disk
from hookline.journal.local.partition_reader import LocalReader
from hookline.journal.port import Lookups
from hookline.journal.record import Record, fingerprint
from hookline.limits import LIMITS
from hookline.outcomes.event_status import EventStatus, EventStatuses
from hookline.outcomes.outcome import Outcome, of_status, to_number
from hookline.outcomes.progress import OFFSET_MASK, POSITION_SHIFT
from hookline.replays.model import Replay, ReplayRequest, State
from hookline.replays.offset_set import OffsetSet, span_of
from hookline.replays.store import ReplayStore
from hookline.settings import Deliver, Journal, Settings

START_MS = 1_795_158_000_000
TURNS_MAX = 100_000
SEGMENT_BYTES = 64 * 1024


class ManualClock:
    """A clock that moves when the test says so, and whose wall time it can set."""

    def __init__(self) -> None:
        self.seconds = 1_000.0
        self.set_by_ms = 0

    def now_ms(self) -> int:
        return self.steady_ms() + self.set_by_ms

    def steady_ms(self) -> int:
        return START_MS + int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds


class QuickDisk(Disk):
    """A disk that is not waited for: these tests kill processes, not machines."""

    def fdatasync(self, fd: int) -> None:
        pass

    def sync_folder(self, folder: Path) -> None:
        pass


class Request:
    """A request on its way, as the receiver has it."""

    def __init__(self, token: object, target: Target, data: bytes, answer_bytes_max: int = 0) -> None:
        self.token = token
        self.answer_bytes_max = answer_bytes_max
        """How much of its answer's body is read; 0: its status only."""
        if isinstance(token, Parcel):
            token = token.tokens[0]
        if not isinstance(token, Delivery):
            assert isinstance(token, Event)
            token = Delivery(target.lane, token, target.lane.in_flight[token.position])
        self.delivery = token
        self.target = target
        self.data = data
        self.lane = token.lane.number
        self.destination = token.lane.destination.id
        self.partition = token.event.position >> POSITION_SHIFT
        self.offset = token.event.position & OFFSET_MASK


class FakeRoute(Route):
    """Hands requests to the network instead of sending them."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def send(self, target: Target, batch: Iterable[tuple[object, bytes]]) -> None:
        for token, request in batch:
            self._network.take(Request(token, target, request))

    def ask(self, target: Target, batch: Iterable[tuple[object, bytes]], body_bytes_max: int) -> None:
        for token, request in batch:
            self._network.take(Request(token, target, request, body_bytes_max))


class Network(Sender):
    """The requests that wait for an answer, oldest first, and everything ever sent."""

    def __init__(self) -> None:
        self.waiting: list[Request] = []
        self.sent: list[Request] = []
        self.on_send: Callable[[Request], None] = lambda request: None

    def of(self, url: ReceiverUrl, pair: tuple[str, str] | None = None) -> Route:
        return FakeRoute(self)

    def take(self, request: Request) -> None:
        self.waiting.append(request)
        self.sent.append(request)
        self.on_send(request)

    def sweep(self, timeout_seconds: float) -> None:
        pass

    def keep_only(self, used: Set[Route]) -> None:
        pass

    def close(self) -> None:
        self.waiting.clear()

    @property
    def connections(self) -> int:
        return 0


class Rig:
    """One data folder with a journal to append to, connections to change, and a deliver role to start and kill."""

    def __init__(self, folder: Path, partitions: int = 1, deliver: Deliver | None = None, **given: object) -> None:
        self.settings = Settings(
            data_dir=str(folder), deliver=deliver or Deliver(), journal=Journal(partitions=partitions)
        )
        self.settings = msgspec.structs.replace(self.settings, **given)
        self.folder = folder
        self.limits = LIMITS
        """What the role is started with; ``limit`` makes some of it smaller."""
        self.lookups: Lookups | None = None
        """What the role looks records up by, where that is not the journal itself."""
        self.clock = ManualClock()
        self.rng = random.Random(1)
        self.network = Network()
        self.loop = asyncio.new_event_loop()
        self.appender = LocalAppender(
            folder / "journal",
            partitions,
            retention_seconds=1e6,
            retention_bytes=1 << 40,
            segment_bytes=SEGMENT_BYTES,
            disk=QuickDisk(),
        )
        self.store = Store(
            location_of(self.settings, "control"), now_ms=self.clock.now_ms, steady_ms=self.clock.steady_ms
        )
        self.replays = ReplayStore(location_of(self.settings, "control"), self.clock.now_ms, self.clock.steady_ms)
        self._turns: deque[Callable[[], None]] = deque()
        self._role: DeliverRole | None = None

    # the role's life

    @property
    def role(self) -> DeliverRole:
        assert self._role is not None
        return self._role

    def limit(self, **limits: float) -> None:
        """Have other limits from the next start of the role on, which is now where it runs."""
        self.limits = msgspec.structs.replace(self.limits, **limits)
        if self._role is not None:
            self.restart()

    def start(self, *, recovers: bool = True) -> None:
        """Start the role as the program does; without ``recovers`` as one of many, which owns nothing at first."""
        network = self.network

        def connect(sink: Sink, settings: Settings) -> Sender:
            return network

        self._turns = deque()
        self._role = DeliverRole(
            self.settings, self.clock, connect, self._turns.append, lookups=self.lookups, limits=self.limits
        )
        self._role.engine.schedule = RetrySchedule(self.settings.deliver, self.rng, self.limits)
        if recovers:
            self._role.recover()

    def kill(self) -> None:
        """Drop everything that is only in the role's memory."""
        self._role = None
        self.network.waiting.clear()

    def restart(self) -> None:
        self.kill()
        self.start()

    def close(self) -> None:
        if self._role is not None:
            self._role.close()
        self.store.close()
        self.replays.close()
        self.loop.run_until_complete(self.appender.close())
        self.loop.close()

    # what the world does

    def record(self, message_id: str, source: str = "website", **given: object) -> Record:
        """A track call received now."""
        base = Record(
            1,
            False,
            self.clock.now_ms(),
            source,
            "track",
            message_id,
            fingerprint(source, message_id),
            "u1",
            "2026-11-20T07:00:00.000Z",
            "sdk",
            b'{"type":"track","event":"Order","userId":"u1"}',
        )
        return msgspec.structs.replace(base, **given)

    def append(self, *records: Record | str) -> None:
        """Store records, and let the role read them if it runs."""
        made = [record if isinstance(record, Record) else self.record(record) for record in records]
        self.loop.run_until_complete(self.appender.append(made))
        if self._role is not None:
            self._role.feeder.wake()

    def change(self, *edits: Source | Destination | Edit) -> int:
        """Change the connections as control does; the role learns of it at ``follow``."""
        made = [Put(edit) if isinstance(edit, Source | Destination) else edit for edit in edits]
        return self.store.change(made, "test", None, self.appender.ends)

    def replay(
        self, destination: str = "crm", *, positions: dict[int, list[int]] | None = None, **given: object
    ) -> Replay:
        """Ask for a replay as control does, of what the journal holds now; the role learns of it at ``follow``."""
        request = msgspec.convert({"destination": destination, **given}, ReplayRequest)
        reader = LocalReader(self.folder / "journal")
        starts, ends = span_of(reader, reader.partitions(), request)
        reader.close()
        state: State = "running" if positions is None else "preparing"
        made = self.replays.create(request, self.store.version, starts, ends, "test", state)
        if positions is not None:
            self.replays.prepare(made.lane, {partition: OffsetSet(each) for partition, each in positions.items()})
        return made

    def want(self, replay: Replay, state: State, rate: float | None = None) -> None:
        """Pause, resume or cancel a replay, and let the role hear of it."""
        self.replays.want(replay.lane, state, rate)
        self.follow()

    def follow(self) -> None:
        self.role.follow_connections()
        self.turn()

    def turn(self) -> None:
        """Let the readers work until they wait for something."""
        for _ in range(TURNS_MAX):
            if not self._turns:
                return
            self._turns.popleft()()
        raise AssertionError("the readers never come to rest")

    def one_turn(self) -> None:
        """Let the readers take a single turn."""
        if self._turns:
            self._turns.popleft()()

    def pass_time(self, seconds: float) -> None:
        """Move the clock, then let the role do what is due. Rows that come with a checkpoint are waited for, but by
        tests that are about that, and bring ``lookups`` of their own."""
        self.clock.seconds += seconds
        self.role.beat()
        self.turn()
        late_rows = self.role.checkpointer._late_rows
        if self.lookups is None and late_rows is not None and late_rows.wanted:
            self.checkpoint()
            self.role.beat()
            self.turn()

    def checkpoint(self) -> None:
        self.loop.run_until_complete(self.role.checkpointer.tick())
        self.turn()

    def checkpoint_while(self, action: Callable[[], None]) -> None:
        """Let something happen between the moment a checkpoint is of and the end of its commit."""
        task = self.loop.create_task(self.role.checkpointer.tick())
        self.loop.run_until_complete(asyncio.sleep(0))
        try:
            action()
        finally:
            self.loop.run_until_complete(asyncio.wait([task]))
        task.result()
        self.turn()

    def answer(
        self,
        request: Request,
        how: int | Outcome = 200,
        *,
        retry_after: bytes | None = None,
        milliseconds: int = 1,
        text: str = "no",
        head: str = "HTTP/1.1 x",
    ) -> None:
        """Give one request its answer: a status, with a text where it is a failure, or an outcome that has none."""
        self.network.waiting.remove(request)
        failure: Failure | None = None
        if request.answer_bytes_max and isinstance(how, int):
            body = text.encode() if text != "no" else b""
            self.role.engine.answered_whole(request.token, request.target, Answer(how, head, body), milliseconds)
            return
        if isinstance(how, Outcome):
            is_unsent = how is Outcome.NAME_NOT_RESOLVED  # without an address no connection is made
            failure, result = Failure(how, None, how.value, is_unsent=is_unsent), to_number(how, None)
        else:
            result = how
            if not 200 <= how < 300:
                failure = Failure(of_status(how), how, text, retry_after)
        engine = self.role.engine
        if failure is None:
            engine.succeeded([([request.token], request.target, result, milliseconds)])
            engine.go_on()
        else:
            engine.answered(request.token, request.target, result, milliseconds, failure)
        if engine.turn in self._turns:
            self._turns.remove(engine.turn)
            engine.turn()

    def answer_all(self, how: int | Outcome = 200, destination: str | None = None) -> int:
        """Answer what waits now, and what is sent because of it; return how many requests that were."""
        count = 0
        while found := [each for each in self.network.waiting if destination in (None, each.destination)]:
            self.answer(found[0], how)
            self.turn()
            count += 1
            assert count < TURNS_MAX, "requests never end"
        return count

    def come_to_rest(self, seconds: float = 5.0, rounds: int = 400) -> None:
        """Everything succeeds from now on: go on until nothing is left to do."""
        for _ in range(rounds):
            self.answer_all()
            self.checkpoint()
            if self.at_rest():
                return
            self.pass_time(seconds)
        raise AssertionError("the role does not come to rest")

    def at_rest(self) -> bool:
        role = self.role
        behind = any(self.appender.ends()[p] > shared.next_offset for p, shared in role.feeder.shared.items())
        lanes = role.engine.lanes.values()
        open_work = any(
            lane.busy or lane.retry_count or (lane.detached and not lane.is_drained) or lane.pending_rows
            for lane in lanes
        )
        return not (behind or open_work or self.network.waiting or not role.engine.batch.empty)

    # what can be seen

    def replay_row(self, replay: Replay) -> tuple[str, int, int]:
        """State, delivered and failed as they are saved."""
        connection = connect(location_of(self.settings, "deliver"), read_only=True)
        row = connection.execute(
            "SELECT state, delivered, failed FROM replays WHERE lane = ?", (replay.lane,)
        ).fetchone()
        connection.close()
        return tuple(row) if row else ("", 0, 0)

    def dead_letters(self) -> list[tuple[str, int, str]]:
        """messageId, lane and status of every dead letter."""
        connection = connect(location_of(self.settings, "deliver"), read_only=True)
        rows = connection.execute("SELECT message_id, lane, status FROM dead_letters ORDER BY id").fetchall()
        connection.close()
        return [tuple(row) for row in rows]

    def replayed(self, replay: Replay) -> list[int]:
        """Offsets that a replay has sent, in the order of sending."""
        return [request.offset for request in self.network.sent if request.lane == replay.lane]

    def lane(self, destination: str) -> Lane:
        return next(lane for lane in self.role.engine.lanes.values() if lane.destination.id == destination)

    def offsets(self, destination: str) -> list[int]:
        """Offsets sent to a destination so far, in the order of sending."""
        return [request.offset for request in self.network.sent if request.destination == destination]

    def event(self, message_id: str, source: str | None = None) -> EventStatus:
        """What ``why`` answers, asked afresh."""
        statuses = EventStatuses(self.settings)
        try:
            found = statuses.of_message(message_id, source)
        finally:
            statuses.close()
        assert found is not None
        return found

    def status_at(self, message_id: str, destination: str) -> str:
        return next(each.status for each in self.event(message_id).destinations if each.id == destination)


def source(id: str = "website") -> Source:
    return Source(id=id, name=id, write_keys=(f"wk_{id}",))


def destination(
    id: str = "crm", *, sources: tuple[str, ...] = ("website",), urls: int = 1, **given: object
) -> Destination:
    """A destination with so many URLs; ``secret`` is its shared secret."""
    secret = given.pop("secret", None)
    assert secret is None or isinstance(secret, str)
    webhooks = tuple(Webhook(url=f"https://{id.replace('_', '-')}.example.com/{n}") for n in range(urls))
    settings = WebhookSettings(webhooks=webhooks, shared_secret=secret)
    made = Destination(id=id, name=id, sources=sources, settings=settings)
    return msgspec.structs.replace(made, **given)


__all__ = ["Delete", "ManualClock", "Network", "Request", "Rig", "destination", "source"]
