"""Half load for hours, with random faults: what is lost or sent twice, and what grows.

``python -m tests.faults.soak --backend embedded --minutes 120``. One machine on its data folder, or machines and a
worker on three brokers and PostgreSQL. A healthy receiver gets every event, two moody ones a tenth each. Faults come
one at a time, in an order that follows from the seed, and end no process, but for one role that is killed after a third
of the time: what the others hold is followed from start to end. State does not grow by design: the events are of
5,000 people, and journal and memory of duplicates go round every few minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, get_args
from urllib.parse import urlencode

import msgspec

from hookline.bench import receiver
from hookline.bench.event import ID_PREFIX, SECRET, WRITE_KEY, Ledger, destination
from hookline.bench.machine import leave_on_sigterm, wait_until
from hookline.bench.service import free_port
from tests.faults.embedded import Embedded
from tests.faults.growth import LIFE_SECONDS_MIN, SLOPE_MB_MAX, Life, Watch
from tests.faults.load import BACK_SECONDS_MAX, ROLES, Load
from tests.faults.moody_receiver import MOOD, Mood
from tests.faults.report import DUPLICATE_SHARE_MAX
from tests.faults.sender import ACKNOWLEDGED, BATCH_EVENTS, DUE, UNEXPECTED
from tests.faults.stage import Stage
from tests.kafka.cluster import Cluster, Place
from tests.postgres import PostgresServer
from tests.service.client import Answer, send
from tests.service.harness import Hookline, is_ready

Backend = Literal["embedded", "kafka"]
RATES: dict[Backend, float] = {"embedded": 2_500.0, "kafka": 700.0}
"""Events per second: half of what goes through on two cores, which sender, receivers and brokers need too."""
SETTINGS = {"deliver.retry_max": "2s", "retention.bytes": "512MB", "dedup.window": "3m", "dedup.bytes": "256MB"}
BROKER_SETTINGS = {"log.initial.task.delay.ms": 10_000, "log.retention.check.interval.ms": 10_000}
"""The topic's segments are small enough already, but for whoever looks for old ones once an hour."""
SPARE_EVENTS = 100_000
TOKEN = "a-token-of-all-machines"
MOODY = {0: "moody-0", 5: "moody-5"}
"""By the last digit of the numbers that they get, which is that of the user id, too."""
DIGITS = 10
BAD_SECONDS = 20.0
PAUSE_SECONDS_MAX = 10.0
"""Between a fault that is over and the next one, at random."""
PAUSED_SECONDS = 10.0
REPLAYED_SECONDS = 30.0
ASKED_AFTER_SECONDS = 60.0
CLIENTS = 60
CLIENTS_HELD_SECONDS = 2.0
KILLED_AT_SHARE = 1 / 3
SOMEBODY = "user-02919"
"""Whose the first event is."""
PAGES = (
    "/",
    "/destinations",
    "/destinations/moody-0",
    "/events",
    "/issues",
    "/notices",
    "/replays",
    "/settings/versions",
    "/usage",
)
READS = (
    "status",
    "destinations/receiver/attempts",
    "events?limit=100",
    f"people?userId={SOMEBODY}",
    "usage",
    "audiences/busy/members",
    "metrics/series?range=1h",
    "audit-log",
)
REPEATING = ("killed", "PostgreSQL")
"""After these some that were under way may arrive twice; after all others, none."""


class Soak(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a soak. ``owed`` are events by destination that gets them, and ``lost`` those of them that never
    arrived; ``twice`` is what the healthy receiver got again. ``missed`` are aims, ``failures`` promises."""

    backend: Backend
    minutes: float
    rate: float
    seed: int
    accepted: int
    owed: int
    lost: int
    twice: int
    faults: dict[str, int]
    processes: list[Life]
    missed: list[str]
    failures: list[str]


class Faults:
    """Every fault, and the moody receivers that some of them need; ``stage`` runs."""

    def __init__(self, stage: Load, moody: dict[int, Ledger], chance: random.Random) -> None:
        self.stage, self.moody, self.chance = stage, moody, chance
        self.done: Counter[str] = Counter()
        self.twice_after: list[tuple[str, int]] = []
        self._cookie: tuple[int, str] = (0, "")

    def play(self, seconds: float) -> None:
        """One fault after another, all of them in each round, until the time is up; one role is killed in it."""
        began = time.monotonic()
        is_killed = False
        for fault in self._rounds():
            past = time.monotonic() - began
            if past >= seconds:
                return
            if not is_killed and past >= seconds * KILLED_AT_SHARE:
                is_killed = True
                self._inject(self.role_killed)
            self._inject(fault)
            time.sleep(self.chance.uniform(0.0, PAUSE_SECONDS_MAX))

    def wait_until_followed(self) -> None:
        """Wait until profiles has come to the first event."""
        path = f"people?userId={SOMEBODY}"
        self._wait_for(lambda: self._control().api("GET", path).status == HTTPStatus.OK, "somebody is known")

    def all(self) -> list[Callable[[], None]]:
        """What is played in each round: a moody receiver is more often at odds than anything else happens."""
        found: list[Callable[[], None]] = [
            *(partial(self.moody_receiver, mood) for mood in Mood if mood is not Mood.WELL),
            self.clients_broken_off,
            self.replay,
            self.person_deleted,
            self.renamed,
            self.paused,
            self.filtered,
            self.looked_at,
        ]
        if isinstance(self.stage, Stage):
            found += [self.broker_restarted, self.postgres_restarted]
        return found

    def moody_receiver(self, mood: Mood) -> None:
        """A receiver is bad for a while, and catches up."""
        digit = self._digit()
        self._begin(f"{mood.name.lower()} receiver", MOODY[digit])
        self.moody[digit].counters[MOOD] = mood
        time.sleep(BAD_SECONDS)
        self.moody[digit].counters[MOOD] = Mood.WELL

    def clients_broken_off(self) -> None:
        """Clients of both ports send a part of a request, wait, and are gone, by turns with a reset."""
        self._begin("clients broken off")
        body = b'{"batch":[{"type":"track","event":"Half","userId":"half"}]}'
        head = b"POST /v1/batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        whole = head % (len(body) + 1) + body
        ports = [port for machine in self.stage.machines for port in (machine.collect_port, machine.control_port)]
        with contextlib.ExitStack() as stack:
            for number in range(CLIENTS):
                with contextlib.suppress(OSError):
                    client = stack.enter_context(socket.create_connection(("127.0.0.1", ports[number % len(ports)])))
                    client.sendall(whole[: self.chance.randrange(len(whole))])
                    if number % 2:
                        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            time.sleep(CLIENTS_HELD_SECONDS)

    def replay(self) -> None:
        """What a moody receiver got lately is sent to it again."""
        self._begin("replay")
        now = datetime.now(UTC)
        asked = {"from": (now - timedelta(seconds=REPLAYED_SECONDS)).isoformat(), "to": now.isoformat()}
        id = self._api("POST", "replays", {"destination": MOODY[self._digit()], **asked})["id"]
        self._wait_for(lambda: self._api("GET", f"replays/{id}")["state"] == "done", "the replay is done")

    def person_deleted(self) -> None:
        """Somebody new comes, and is deleted."""
        self._begin("deletion request")
        user = f"gone-{self.chance.getrandbits(64):x}"
        for number in range(3):
            event = {"userId": user, "event": "Came", "messageId": f"{user}-{number}"}
            self._wait_for(lambda event=event: self._is_taken(event), "an event is taken")  # type: ignore[misc]
        id = self._api("POST", "deletion-requests", {"userId": user, "action": "delete"})["id"]
        self._wait_for(lambda: self._api("GET", f"deletion-requests/{id}")["state"] == "done", "the deletion is done")

    def renamed(self) -> None:
        """The healthy destination gets another name."""
        self._begin("destination renamed")
        self._api("PATCH", "destinations/receiver", {"name": f"Receiver {len(self.stage.injections)}"})

    def paused(self) -> None:
        """A destination is paused for a while."""
        self._begin("destination paused")
        moody = MOODY[self._digit()]
        self._api("POST", f"destinations/{moody}/pause", {})
        time.sleep(PAUSED_SECONDS)
        self._api("POST", f"destinations/{moody}/resume", {})

    def filtered(self) -> None:
        """A destination gets one more filter, for which nothing holds, and loses it again."""
        self._begin("filters changed")
        digit = self._digit()
        more = {"if": 'event = "Nobody does this"', "do": "drop"}
        self._api("PATCH", f"destinations/{MOODY[digit]}", {"filters": [only(digit), more]})
        time.sleep(1.0)
        self._api("PATCH", f"destinations/{MOODY[digit]}", {"filters": [only(digit)]})

    def looked_at(self) -> None:
        """Somebody looks at pages, and programs read the API."""
        self._begin("pages and API read")
        for path in (*READS, f"events/{ID_PREFIX.decode()}{self._number_kept():010}"):
            self._api("GET", path)
        for path in PAGES:
            self._page(path)

    def role_killed(self) -> None:
        """kill -9 of one role, which its supervisor starts again."""
        present = [(m, role) for m in self.stage.machines for role in ROLES if m.role(role, required=False)]
        machine, role = self.chance.choice(present)
        self._begin(f"{role} killed", machine.folder.name)
        pid = machine.role(role)
        os.kill(pid, signal.SIGKILL)
        self._wait_for(lambda: machine.role(role, required=False) not in (0, pid), f"{role} is started again")
        self.stage.wait_until_collecting(machine)

    def broker_restarted(self) -> None:
        """SIGTERM of a broker, which is started again at once."""
        assert isinstance(self.stage, Stage)
        broker = self.chance.choice(self.stage.cluster.brokers)
        self._begin("broker restarted", str(broker.number))
        broker.stop()
        self.stage.cluster.start()

    def postgres_restarted(self) -> None:
        """PostgreSQL is restarted, fast or as by a crash."""
        assert isinstance(self.stage, Stage)
        how = self.chance.choice([signal.SIGINT, signal.SIGQUIT])
        self._begin("PostgreSQL restarted", how.name)
        self.stage.server.stop(how)
        self.stage.server.start()

    def waiting(self) -> int:
        """Events that were acknowledged and have not arrived at a moody receiver."""
        share = int(self.stage.accepted.counters[ACKNOWLEDGED]) // DIGITS
        return max(0, *(share - _came(ledger) for ledger in self.moody.values()))

    def note_twice(self) -> None:
        """Put down to the last fault what has come twice since."""
        if self.done:
            before = sum(number for _, number in self.twice_after)
            what = self.stage.injections[-1].what
            self.twice_after.append((what, int(self.stage.arrivals.counters[receiver.DUPLICATES]) - before))

    def _rounds(self) -> Iterator[Callable[[], None]]:
        while True:
            each = self.all()
            self.chance.shuffle(each)
            yield from each

    def _inject(self, fault: Callable[[], None]) -> None:
        try:
            fault()
            self.stage.go_on()
            limit = self.stage.rate  # of a tenth of the events: more than a moment's worth
            self._wait_for(lambda: self.waiting() <= limit, "moody receivers have caught up")
        except (TimeoutError, AssertionError) as error:  # brokers and databases of tests say it by the latter
            self.stage.failures.append(f"{self.stage.injections[-1].what}: {error}")

    def _begin(self, what: str, which: str = "") -> None:
        self.note_twice()
        self.done[what] += 1
        self.stage.inject(f"{what} ({which})" if which else what)

    def _number_kept(self) -> int:
        """The number of an event that was acknowledged, and not so long ago that it may be kept no more."""
        accepted = self.stage.accepted
        number = int(accepted.counters[DUE] - ASKED_AFTER_SECONDS * self.stage.rate) // BATCH_EVENTS * BATCH_EVENTS + 1
        while number > 1 and not accepted.times[number]:
            number -= BATCH_EVENTS
        return max(1, number)

    def _digit(self) -> int:
        return self.chance.choice(list(MOODY))

    def _wait_for(self, condition: Callable[[], bool], what: str) -> None:
        wait_until(condition, BACK_SECONDS_MAX, what)

    def _control(self) -> Hookline:
        """The machine whose control answers: of several one is not standing by."""

        def found() -> Hookline | None:
            for machine in self.stage.machines:
                with contextlib.suppress(OSError):
                    if machine.api("GET", "status").status == 200:
                        return machine
            return None

        machine = wait_until(found, BACK_SECONDS_MAX, "control answers")
        assert machine is not None
        return machine

    def _api(self, method: str, path: str, body: object = None) -> Any:
        """Return what the admin API answers."""
        return self._asked(f"{method} {path}", lambda machine: machine.api(method, path, body)).json

    def _page(self, path: str) -> None:
        def seen(machine: Hookline) -> Answer:
            port = machine.control_port
            if self._cookie[0] != port:
                form = urlencode({"password": TOKEN}).encode()
                headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://127.0.0.1:{port}"}
                cookie = send(port, "POST", "/login", form, headers).headers.get("set-cookie", "").partition(";")[0]
                self._cookie = (port, cookie)
            return send(port, "GET", path, headers={"Cookie": self._cookie[1]})

        self._asked(path, seen)

    def _asked(self, what: str, ask: Callable[[Hookline], Answer]) -> Answer:
        """Ask the control that answers, again where it is just being started; what it refuses is a failure."""

        def answer() -> Answer | None:
            with contextlib.suppress(OSError):
                found = ask(self._control())
                return found if found.status != HTTPStatus.SERVICE_UNAVAILABLE else None
            return None

        given = wait_until(answer, BACK_SECONDS_MAX, f"an answer to {what}")
        assert given is not None
        if given.status != HTTPStatus.OK and given.status != HTTPStatus.CREATED:
            self.stage.failures.append(f"{what}: {given.status} {given.body[:300]!r}")
        return given

    def _is_taken(self, event: object) -> bool:
        with contextlib.suppress(OSError):
            return self.stage.machines[0].post("/v1/track", event, WRITE_KEY).status == 200
        return False


def play(backend: Backend, minutes: float, rate: float, seed: int) -> Soak:
    """Start everything, let faults come for so long, and count."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="hookline-soak-")))
        events_max = int(rate * minutes * 60) * 2 + SPARE_EVENTS
        stage = _stage(stack, backend, folder, rate=rate, events_max=events_max)
        ports, paths = {digit: free_port() for digit in MOODY}, {digit: folder / name for digit, name in MOODY.items()}
        moody = {digit: Ledger(path, events_max) for digit, path in paths.items()}
        for machine in stage.machines:
            machine.destinations += [
                {**destination(name, ports[digit]), "filters": [only(digit)]} for digit, name in MOODY.items()
            ]
            machine.settings |= SETTINGS
            machine.environment |= {"HOOKLINE_CONTROL_ADMIN_TOKEN": TOKEN}
        stack.enter_context(stage)
        stage.program(
            "tests.faults.moody_receiver", SECRET, *(f for d in MOODY for f in (str(ports[d]), str(paths[d])))
        )
        stage.start_load()
        faults = Faults(stage, moody, random.Random(seed))
        faults.wait_until_followed()
        watch = Watch(lambda: processes(stage))
        with watch:
            faults.play(minutes * 60)
        stage.end_load()
        with contextlib.suppress(TimeoutError):
            wait_until(lambda: faults.waiting() == 0, BACK_SECONDS_MAX, "all is there", lambda: faults.waiting())
        faults.note_twice()
        return _counted(backend, minutes, seed, stage, faults, watch)


def only(digit: int) -> dict[str, str]:
    """The filter that lets only these events through."""
    return {"if": f'not match(userId, "*{digit}")', "do": "drop"}


def processes(stage: Load) -> dict[str, int]:
    """Every process of the service, by what it does and where."""
    found: dict[str, int] = {}
    for machine in stage.machines:
        for pid, line in machine.members().items():
            words = line.split()
            role = next((each for each in ("collect", "deliver", "control", "profiles") if each in words), "")
            if "hookline.people.ingest.ahead" in words:
                role = "profiles' reader"
            elif "hookline.cli.service.supervisor" in words:
                role = "supervisor"
            elif role == "control" and len(stage.machines) > 1 and not is_ready(machine.control_port):
                role = "control, standing by"  # what it takes as it begins to work is no growth
            found[f"{role or line[:60]} of {machine.folder.name}"] = pid
    workers = stage.workers if isinstance(stage, Stage) else []
    return found | {f"worker {number}": worker.pid for number, worker in enumerate(workers) if worker.lives}


def _stage(stack: contextlib.ExitStack, backend: Backend, folder: Path, **given: Any) -> Load:
    if backend == "embedded":
        return Embedded(folder, **given)
    cluster = stack.enter_context(Cluster(folder / "kafka", [Place()] * 3, BROKER_SETTINGS))
    server = PostgresServer({"autovacuum": "on"})
    stack.callback(server.remove)
    own: dict[str, Any] = {"workers": 1, "session": "10s", "has_audience": True}
    return Stage(folder, cluster, server, **own, **given)


def _came(ledger: Ledger) -> int:
    counters = ledger.counters
    return int(counters[receiver.RECEIVED] - counters[receiver.DUPLICATES] - counters[receiver.UNNUMBERED])


def _counted(backend: Backend, minutes: float, seed: int, stage: Load, faults: Faults, watch: Watch) -> Soak:
    accepted, lost = lost_of(stage.accepted, stage.arrivals, faults.moody)
    lives = watch.lives()
    twice = int(stage.arrivals.counters[receiver.DUPLICATES])
    failures = [*stage.failures, *(f"an unexpected error: {trace}" for trace in stage.tracebacks())]
    failures += [f"lost at {name}: {number:,}" for name, number in lost.items() if number]
    failures += [
        f"{number:,} twice after: {what}"
        for what, number in faults.twice_after
        if number and not any(word in what for word in REPEATING)
    ]
    if twice > DUPLICATE_SHARE_MAX * accepted:
        failures.append(f"{twice:,} twice of {accepted:,}")
    failures += [
        f"{each.name}: open files grow from {each.files_first} to {each.files_last}"
        for each in lives
        if each.files_grow
    ]
    if unexpected := int(stage.accepted.counters[UNEXPECTED]):
        failures.append(f"{unexpected:,} unexpected answers")
    ledgers = [stage.arrivals, *faults.moody.values()]
    if wrong := sum(int(each.counters[receiver.WRONG_SIGNATURE]) for each in ledgers):
        failures.append(f"{wrong:,} wrong signatures")
    if not accepted:
        failures.append("nothing was acknowledged")
    if not lives and minutes * 60 > LIFE_SECONDS_MIN:
        failures.append("no process lived for long")
    return Soak(
        backend=backend,
        minutes=minutes,
        rate=stage.rate,
        seed=seed,
        accepted=accepted,
        owed=accepted + len(faults.moody) * (accepted // DIGITS),
        lost=sum(lost.values()),
        twice=twice,
        faults=dict(faults.done),
        processes=lives,
        missed=[
            f"{each.name}: {each.slope_mb_per_hour:+.1f} MB/h"
            for each in lives
            if each.slope_mb_per_hour > SLOPE_MB_MAX
        ],
        failures=failures,
    )


def lost_of(accepted: Ledger, arrivals: Ledger, moody: dict[int, Ledger]) -> tuple[int, dict[str, int]]:
    """How many events were acknowledged, and by destination how many of its own never arrived."""
    acknowledged = 0
    lost = dict.fromkeys(["receiver", *(MOODY[digit] for digit in moody)], 0)
    for first in range(1, int(accepted.counters[DUE]) + 1, BATCH_EVENTS):
        if not accepted.times[first]:
            continue
        acknowledged += BATCH_EVENTS
        end = first + BATCH_EVENTS
        lost["receiver"] += sum(not at for at in arrivals.times[first:end])
        for digit, ledger in moody.items():
            own = first + (digit - first) % DIGITS
            lost[MOODY[digit]] += sum(not at for at in ledger.times[own:end:DIGITS])
    return acknowledged, lost


def show(soak: Soak) -> None:
    """Print it."""
    print(
        f"{soak.backend}, {soak.minutes:g} min at {soak.rate:,.0f}/s, seed {soak.seed}: {soak.accepted:,} accepted,"
        f" {soak.owed:,} owed, {soak.lost:,} lost, {soak.twice:,} twice, {sum(soak.faults.values())} faults"
    )
    print(f"{'process':36} {'min':>6} {'MB/h':>7} {'PSS MB':>13} {'RSS':>6} {'files':>12} {'threads':>7}")
    for each in soak.processes:
        pss, files = f"{each.pss_first_mb} {each.pss_last_mb}", f"{each.files_first} {each.files_last} {each.files_max}"
        print(
            f"{each.name:36} {each.minutes:6.1f} {each.slope_mb_per_hour:+7.2f} {pss:>13} {each.rss_last_mb:6.1f}"
            f" {files:>12} {each.threads_max:7}"
        )
    for line in (f"missed: {each}" for each in soak.missed):
        print(line)
    for line in (f"failed: {each}" for each in soak.failures):
        print(line)


def main() -> int:
    """Read the options and do it; 1 when a promise is broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak", description=__doc__)
    parser.add_argument("--backend", choices=get_args(Backend), default="embedded")
    parser.add_argument("--minutes", type=float, default=30.0, help="of load and faults (%(default)s)")
    parser.add_argument("--rate", type=float, help="events per second, in place of half load on two cores")
    parser.add_argument("--seed", type=int, default=1, help="of the order of the faults (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what came of it")
    options = parser.parse_args()
    leave_on_sigterm()
    soak = play(options.backend, options.minutes, options.rate or RATES[options.backend], options.seed)
    show(soak)
    if options.json is not None:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(soak)) + b"\n")
    return int(bool(soak.failures))


if __name__ == "__main__":
    sys.exit(main())
