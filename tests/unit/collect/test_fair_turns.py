"""Fair shares of the loop: who floods waits for itself, in bounded memory, and nothing of it is lost."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from functools import wraps
from ipaddress import ip_network
from math import inf

import pytest

from hookline.collect import fair_turns
from hookline.collect.batch import BATCH, records_in_steps
from hookline.collect.counters import Counters
from hookline.collect.decode import PIPELINED_MAX
from hookline.collect.fair_turns import FairTurns, PatientAppends
from hookline.collect.http.clients import Address, ClientNetworks
from hookline.collect.http.downloads import Downloads
from hookline.collect.intake import Intake
from hookline.collect.item import Arrival
from hookline.journal.port import JournalFull
from hookline.journal.record import FORMAT_VERSION, Record
from hookline.settings import Collect, Settings
from tests.unit.collect.wire import KEY, OTHER_KEY, TRACK, WAIT_SECONDS, Memory, Running, request

STEP_SECONDS = fair_turns.SLICE_SECONDS
SECONDS_MAX = 5.0
"""Of CPU, for what takes a tenth of a second, on a slow and busy machine too."""
RECORD = Record(FORMAT_VERSION, False, 0, "web", "track", "m1", b"", "u", "", "sdk", b"{}" * 1_000)


def on_a_loop(test: Callable[[], Coroutine[None, None, None]]) -> Callable[[], None]:
    """Run a test on an event loop, which turns are scheduled on."""

    @wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


class Turns:
    """Fair turns on a clock that every step moves; ``done`` says whose steps ran, in order, and ``begun_most`` how much
    work had begun at once."""

    def __init__(self, **bounds: int) -> None:
        self.now = 1_000.0
        self.done: list[str] = []
        self.begun = self.begun_most = 0
        self.appended: list[str] = []
        self.fair = FairTurns(lambda records, done: self.appended.append(records[0].source), lambda: self.now, **bounds)

    def add(self, who: str, steps: int, body_bytes: int = 1_000) -> bool:
        """Put work of so many steps into somebody's queue."""
        return self.fair.add(who, self._work(who, steps), body_bytes)

    def _work(self, who: str, steps: int) -> Iterator[None]:
        self.begun += 1
        self.begun_most = max(self.begun, self.begun_most)
        for _ in range(steps):
            self.done.append(who)
            self.now += STEP_SECONDS
            yield
        self.begun -= 1


@on_a_loop
async def test_one_source_alone_never_waits() -> None:
    """Whatever it sends is taken at once; the first request of another one ends that."""
    fair = Turns().fair
    assert [fair.must_wait("a", inf) for _ in range(3)] == [False] * 3
    assert [fair.must_wait("b", 500), fair.must_wait("a", inf), fair.must_wait("b", 500)] == [False, True, False]


@on_a_loop
async def test_one_source_alone_waits_for_what_would_make_a_turn_long() -> None:
    """Once its batches took so much of a turn, whatever else it sends waits, until nothing does any more."""
    turns = Turns()
    turns.fair.must_wait("a", inf)
    turns.fair.count(fair_turns.ALONE_TURN_SECONDS)
    assert not turns.fair.contended
    turns.fair.count(STEP_SECONDS)
    assert turns.fair.contended
    assert turns.fair.must_wait("a", inf)
    turns.add("a", 1)
    while turns.fair.run_turn():
        pass
    assert not turns.fair.contended


@on_a_loop
async def test_a_share_of_a_turn_is_bounded() -> None:
    """Small requests of one source are taken until its share is spent, those of others all the same, and then anew."""
    fair = Turns().fair
    fair.must_wait("b", 500)
    taken = [not fair.must_wait("a", 500) for _ in range(100)]
    assert 5 < sum(taken) < 20
    assert not fair.must_wait("c", 500)
    await asyncio.sleep(0)  # the end of the turn
    assert not fair.must_wait("a", 500)


@on_a_loop
async def test_requests_keep_their_order_behind_one_that_waits() -> None:
    """While anything of a source waits, whatever else it sends waits behind it, however small."""
    turns = Turns()
    turns.fair.must_wait("b", 500)
    turns.add("a", 3)
    assert turns.fair.must_wait("a", 1)


@on_a_loop
async def test_queues_take_turns() -> None:
    """Two sources that wait get step for step, whoever has more."""
    turns = Turns()
    turns.fair.must_wait("b", 500)
    turns.fair.must_wait("a", 500)
    turns.add("a", 50)
    turns.add("b", 3)
    while "b" not in turns.done or turns.done.count("b") < 3:
        turns.fair.run_turn()
    assert turns.done.count("a") <= 4


@on_a_loop
async def test_few_batches_have_begun_at_once() -> None:
    """However many wait: each that has begun may take a hundred times what was sent. A source whose first is done waits
    for the first of all others; single calls, done in one step, do not count."""
    turns = Turns()
    clients = [f"client {number}" for number in range(3 * fair_turns.BEGUN_MAX)]
    for who in clients:
        assert [turns.add(who, steps) for steps in (0, 5, 5)] == [True] * 3
    while turns.fair.run_turn():
        pass
    assert turns.begun_most == fair_turns.BEGUN_MAX
    assert sorted(turns.done) == sorted(clients * 10)
    assert set(turns.done[: len(clients) * 5]) == set(clients)
    assert turns.fair.waiting_bytes == 0


@on_a_loop
async def test_a_turn_is_short_while_others_send_and_long_when_it_is_quiet() -> None:
    """Others never wait for more than a step or two; where there are none, turns are few and long."""
    turns = Turns()
    turns.fair.must_wait("b", 500)
    turns.fair.must_wait("a", 500)
    turns.add("a", 1_000)
    turns.fair.run_turn()
    assert 1 <= len(turns.done) <= 2
    turns.now += fair_turns.QUIET_SECONDS + 1
    turns.fair.run_turn()
    whole = fair_turns.QUIET_TURN_SECONDS / STEP_SECONDS
    assert whole <= len(turns.done) <= whole + 4


@on_a_loop
async def test_a_turn_is_left_to_whoever_was_taken_at_once() -> None:
    """The commit that they wait for comes first, and yet what waits comes to its end."""
    turns = Turns()
    turns.fair.must_wait("b", 500)
    turns.fair.must_wait("a", 500)
    turns.add("a", 5)
    turns.fair.step_aside()
    assert turns.fair.run_turn()
    assert turns.done == []
    for _ in range(20):
        turns.fair.step_aside()
        turns.fair.run_turn()
    assert len(turns.done) == 5


@on_a_loop
async def test_what_waits_is_bounded_and_the_rest_of_the_room_is_others() -> None:
    """A flood is refused at three quarters of the room; another source still has some."""
    turns = Turns(waiting_bytes_max=100_000)
    taken = [turns.add("a", 1, 9_000) for _ in range(20)]
    assert taken == [True] * 7 + [False] * 13
    assert turns.add("b", 1, 9_000)
    while turns.fair.run_turn():
        pass
    assert turns.fair.waiting_bytes == 0


def test_what_is_kept_of_heads_that_wait_is_counted(start: Callable[..., Running]) -> None:
    """A head weighs as much as a body, and needs no key: what is beyond the bound is refused."""
    edge = start()
    assert edge.post("/v1/track", TRACK, OTHER_KEY).status == 200
    wire = edge.wire().send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    wire.answer()
    (client,) = (each for each in edge.edge._clients._open if each.is_idle)
    flood = request("/v1/track", TRACK, None, X_Forwarded_For="1" * 60_000) * (PIPELINED_MAX - 1)
    fair = edge.edge._intake._fair
    waiting_bytes = edge.call(lambda: client.data_received(flood) or fair.waiting_bytes)
    assert waiting_bytes > 60_000 * (PIPELINED_MAX // 2)
    assert {wire.answer().status for _ in range(PIPELINED_MAX - 1)} == {401}
    assert fair.waiting_bytes == 0


@on_a_loop
async def test_patient_records_go_with_others_or_a_little_later() -> None:
    """They are handed over when somebody else's are appended; what the disk has not taken holds back the rest."""
    appended: list[Callable[[BaseException | None], None]] = []
    relieved: list[int] = []
    patient = PatientAppends(
        lambda _, done: appended.append(done), lambda: relieved.append(1), asyncio.get_running_loop
    )
    answers: list[BaseException | None] = []
    for _ in range(100):
        patient.hold([RECORD], answers.append)
    assert (patient.is_full, appended) == (True, [])
    patient.hand_over()
    first = len(appended)
    assert 20 < first < 100
    patient.hand_over()
    assert len(appended) == first
    while len(answers) < 100:
        appended.pop(0)(None)
        patient.hand_over()
    assert not patient.is_full


@on_a_loop
async def test_patient_records_go_at_once_when_somebody_is_suppressed() -> None:
    """However busy the disk is: they may be of that person, whose last events are looked for behind the list."""
    memory = Memory()
    memory.hold = True
    intake = Intake(memory, Counters(), time.monotonic, Downloads(Settings()))
    for _ in range(100):
        intake._fair.patient.hold([RECORD], lambda error: None)
    intake.suppress(None)
    assert len(memory.records) == 100


def _batch(number: int, events: int = 300, **envelope: str) -> bytes:
    items = [{**TRACK, "type": "track", "messageId": f"b{number}-{index}"} for index in range(events)]
    return gzip.compress(json.dumps({"batch": [*items, {"type": "track"}], **envelope}).encode(), mtime=0)


@on_a_loop
async def test_many_who_wait_cost_each_other_nothing() -> None:
    """With thousands of clients in the queues one more is put there as quickly as the first."""
    turns = Turns()
    begun = time.process_time()
    assert all(turns.add(f"client {number}", 1, 100) for number in range(12_000))
    assert time.process_time() - begun < SECONDS_MAX


def test_batches_that_wait_are_stored_whole_and_in_order(start: Callable[..., Running]) -> None:
    """In steps, beside another source, each is answered as ever: accepted, rejected by index, and every event there."""
    edge = start()
    assert edge.post("/v1/track", TRACK, OTHER_KEY).status == 200
    wire = edge.wire()
    for number in range(5):
        wire.send(request("/v1/batch", _batch(number), Content_Encoding="gzip"))
    for _ in range(5):
        answer = wire.answer().json
        assert (answer["accepted"], [item["index"] for item in answer["rejected"]]) == (300, [300])
    ids = [record.message_id for record in edge.memory.records if record.rejection is None and record.source == "web"]
    assert ids == [f"b{number}-{index}" for number in range(5) for index in range(300)]


def test_batches_of_one_source_do_not_make_one_long_turn(
    start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many that arrive together, a few bytes each, are taken apart in many turns, and answered in their order."""
    monkeypatch.setattr(fair_turns, "ALONE_TURN_SECONDS", 0.0)
    edge = start()
    wire = edge.wire().send(request("/v1/track", TRACK))
    assert wire.answer().status == 200
    (client,) = edge.edge._clients._open
    batches = [request("/v1/batch", _batch(number), Content_Encoding="gzip") for number in range(5)]
    taken_in_one_turn = edge.call(lambda: client.data_received(b"".join(batches)) or len(edge.memory.records))
    assert taken_in_one_turn == 1 + 301
    assert [wire.answer().json["accepted"] for _ in batches] == [300] * 5
    ids = [record.message_id for record in edge.memory.records[1:] if record.rejection is None]
    assert ids == [f"b{number}-{index}" for number in range(5) for index in range(300)]


def test_large_events_are_checked_one_by_one() -> None:
    """A step looks for nesting in as many events as a part has, but in one alone where so many are large."""
    small, large = {**TRACK, "type": "track"}, {**TRACK, "type": "track", "properties": {"pad": "x" * 2_000}}
    body = json.dumps({"batch": [small] * 20 + [large] * 20}).encode()
    parts = list(records_in_steps(BATCH.decode(body), body, Arrival("web", 0), lambda: None, 10, 4_000))
    assert parts.count(None) == 2 + 20
    assert [len(part.records) for part in parts if part is not None] == [10] * 4


def test_no_part_of_a_batch_overtakes_another(start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that wait to be stored with others' are not passed by later ones that would not have to wait."""
    greedy = itertools.cycle([True, False, False])
    monkeypatch.setattr(FairTurns, "serves_greedy", property(lambda _: next(greedy), lambda *_: None), raising=False)
    edge = start()
    assert edge.post("/v1/track", TRACK, OTHER_KEY).status == 200
    assert edge.post("/v1/batch", _batch(0, 2_000), Content_Encoding="gzip").json["accepted"] == 2_000
    ids = [record.message_id for record in edge.memory.records if record.rejection is None and record.source == "web"]
    assert ids == [f"b0-{index}" for index in range(2_000)]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"no gzip", "invalid_gzip"),
        (_batch(1)[:-10], "invalid_gzip"),
        (gzip.compress(b" " * 600_000, mtime=0), "batch_too_large"),
        (gzip.compress(b'{"batch": 5}', mtime=0), "invalid_body"),
        (gzip.compress(b'{"batch":[' + b"{}," * 2_500 + b"{}]}", mtime=0), "too_many_events"),
        (gzip.compress(b'{"batch":[{}],"writeKey":"wk"}', mtime=0), "unknown_write_key"),
    ],
)
def test_what_is_wrong_with_a_batch_that_waited_is_told_all_the_same(
    start: Callable[..., Running], body: bytes, code: str
) -> None:
    """The same codes as ever, and nothing of it can be delivered."""
    edge = start()
    assert edge.post("/v1/track", TRACK, OTHER_KEY).status == 200
    edge.memory.records.clear()
    key = None if code == "unknown_write_key" else KEY
    assert edge.reason(edge.post("/v1/batch", body, key, Content_Encoding="gzip")) == code


def test_what_is_kept_of_a_refused_batch_is_what_was_sent(start: Callable[..., Running]) -> None:
    """A batch that waited keeps the half of an emoji as the sender wrote it, like one that was taken at once."""
    edge = start()
    body = b'{"batch":[{"name":"\\ud83d","nested":' + b"[" * 400 + b"]" * 400 + b"}]}"
    assert edge.reason(edge.post("/v1/batch", body)) == "nesting_too_deep"
    at_once = edge.memory.records.pop().body
    assert edge.post("/v1/track", TRACK, OTHER_KEY).status == 200
    edge.memory.records.clear()
    assert edge.reason(edge.post("/v1/batch", body)) == "nesting_too_deep"
    waited = edge.memory.records.pop().body
    assert waited == at_once
    assert json.loads(waited)["start"].startswith('{"batch":[{"name":"\\ud83d"')


def test_a_full_journal_ends_a_batch_in_steps(start: Callable[..., Running]) -> None:
    """It is 503 as a whole, to be sent again."""
    edge = start()
    assert edge.post("/v1/track", TRACK, OTHER_KEY).status == 200
    edge.memory.error = JournalFull("full")
    assert edge.post("/v1/batch", _batch(1), Content_Encoding="gzip").code == "journal_full"


def _place_of_a_call(edge: Running, batch: dict[str, str], call: dict[str, str], **key: str | None) -> int:
    """Have eight large batches and another source's call there at once, with these headers; return among which events
    the call is stored. Without a ``key`` of the head, each has its own in the body."""
    edge.until(lambda: edge.edge.counters.open_connections == 0)
    flood, other = [edge.wire() for _ in range(8)], edge.wire()
    edge.until(lambda: edge.edge.counters.open_connections == 9)
    stands, gate = threading.Event(), threading.Event()
    edge.loop.call_soon_threadsafe(lambda: (stands.set(), gate.wait(WAIT_SECONDS)))
    assert stands.wait(WAIT_SECONDS)
    for number, wire in enumerate(flood):
        body = _batch(number, 2_000, writeKey=KEY)
        wire.send(request("/v1/batch", body, key.get("flood"), Content_Encoding="gzip", **batch))
    passing = {**TRACK, "messageId": "passing", "writeKey": OTHER_KEY}
    other.send(request("/v1/track", passing, key.get("other"), **call))
    gate.set()
    assert other.answer().status == 200
    assert [wire.answer().json["accepted"] for wire in flood] == [2_000] * 8
    return [record.message_id for record in edge.memory.records].index("passing")


def test_a_call_passes_the_batches_that_wait(start: Callable[..., Running]) -> None:
    """Eight large batches and another source's call are there at once: the call is stored among the first events."""
    edge = start()
    assert edge.post("/v1/track", TRACK, OTHER_KEY).status == 200
    assert _place_of_a_call(edge, {}, {}, flood=KEY, other=OTHER_KEY) < 1_000


def test_a_call_passes_the_batches_of_another_client_of_a_proxy(start: Callable[..., Running]) -> None:
    """Behind a trusted proxy whose a request is, while its write key stands in the body, is what the proxy says."""
    edge = start(settings=Settings(collect=Collect(trusted_proxies=("127.0.0.1/32",))))
    assert edge.post("/v1/track", TRACK, OTHER_KEY).status == 200
    flooding, calling = ({"X_Forwarded_For": address} for address in ("203.0.113.1", "198.51.100.2"))
    assert _place_of_a_call(edge, flooding, calling) < 1_000


def test_one_client_of_a_proxy_alone_is_one() -> None:
    """Whatever path it came by, and as long as it is remembered: nobody else is there to take turns with."""
    networks = ClientNetworks([ip_network("10.0.0.0/8")])
    proxy = Address("10.0.0.1", "10.0.0.1", trusted=True)

    def of(said: bytes) -> str:
        return networks.of(proxy, {b"x-forwarded-for": said})

    assert of(b"2001:db8::1") is of(b"2001:db8::2") is of(b"203.0.113.1, 2001:db8::2, 10.0.0.2")
    assert of(b"203.0.113.1") == "203.0.113.1" != of(b"203.0.113.2")
    assert [of(b"198.51.%d.%d" % divmod(n, 256)) for n in range(2_000)][-1] == "198.51.7.207"
