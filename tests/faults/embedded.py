"""What is damaged where journal and databases are in the data folder: bytes of the journal, files that are put back
from an older copy, locked by another program, or closed to whoever runs the service."""

from __future__ import annotations

import os
import pwd
import random
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, get_args

from hookline.bench.event import ID_PREFIX, source
from hookline.bench.machine import wait_until
from hookline.database.location import Which
from hookline.database.sqlite import connect
from hookline.journal.local.segment import GROUP_HEADER_BYTES, SEGMENT_HEADER_BYTES, decode_header
from tests.faults.load import AUDIENCE, Load, Scenario
from tests.service.harness import COMMAND, Hookline

USER = "nobody"
"""Who runs the service when root runs the faults: modes bind everybody else."""
WAITING_SECONDS = 2.0
"""Of events that wait when a byte of one of them is changed."""
LATER_SECONDS = 3.0
"""Between an older copy and what it is put back beside."""
LOCK_SECONDS = 60.0
CLOSED_SECONDS = 10.0
NOTICED_SECONDS_MAX = 60.0
EVENTS_PER_SECOND = 200.0
NOT_PUT_BACK = ("lock", "run", "admin-token")
"""Made anew at each start, or no part of what is known of events."""
ID = re.compile(re.escape(ID_PREFIX) + rb"(\d{10})")


class Group(NamedTuple):
    """What one checksum of the journal is of: a stretch of a segment, and the numbers of its events."""

    path: Path
    begin: int
    end: int
    numbers: frozenset[int]


class Embedded(Load):
    """One machine that runs everything on its own folder, as an ordinary user."""

    def __init__(self, folder: Path, **given: Any) -> None:
        super().__init__(folder, **given)
        command: tuple[str, ...] = COMMAND
        if os.getuid() == 0:
            account = pwd.getpwnam(USER)
            command = ("setpriv", f"--reuid={USER}", f"--regid={account.pw_gid}", "--clear-groups", *COMMAND)
        settings = {"log.format": "json", "deliver.retry_max": "1s"}
        self.machine = Hookline(
            folder / "machine",
            self._receiving(),
            sources=[source()],
            definitions={"audiences": [AUDIENCE]},
            settings=settings,
            command=command,
        )
        self.machines = [self.machine]
        self._flipped: dict[tuple[Path, int], int] = {}

    def _start(self) -> None:
        self.folder.chmod(0o755)
        self.machine.data.mkdir(parents=True)
        self.hand_over(self.machine.data)
        super()._start()
        self.wait_until_following(self.machine)

    def hand_over(self, path: Path) -> None:
        """Let a file, or a folder with what is in it, be the service's."""
        if os.getuid() == 0:
            account = pwd.getpwnam(USER)
            for each in (path, *path.rglob("*")):
                os.chown(each, account.pw_uid, account.pw_gid)

    @contextmanager
    def stopped(self) -> Iterator[Path]:
        """Inside the service is stopped; its folder."""
        self.machine.stop()
        yield self.machine.data
        self.start(self.machine)

    def groups(self) -> list[Group]:
        """Every group of the only partition, the oldest first."""
        found = []
        for path in sorted((self.machine.data / "journal" / "0").glob("*.seg")):
            data, position = path.read_bytes(), SEGMENT_HEADER_BYTES
            while position + GROUP_HEADER_BYTES <= len(data) and (header := decode_header(data, position)).length:
                end = self._flipped.get((path, position), position + header.size_bytes)
                found.append(Group(path, position, end, frozenset(map(int, ID.findall(data[position:end])))))
                position = end
        return found

    def flip_in(self, each: Group, chance: random.Random) -> None:
        """Change a bit of a group; what has not arrived of it may be missing from now on."""
        self.damaged |= {number for number in each.numbers if not self.arrivals.times[number]}
        self._flipped[each.path, each.begin] = each.end
        flip(each.path, chance.randrange(each.begin, each.end))

    def noted_damage(self) -> int:
        """The events that the service says it cannot read."""
        items = self.machine.api("GET", "notices?state=open&kind=journal_damaged").json["items"]
        return sum(int(each["count"]) for each in items)


def flip(path: Path, position: int) -> None:
    """Change one bit where it stands, as a disk does."""
    with path.open("r+b", buffering=0) as file:
        (byte,) = os.pread(file.fileno(), 1, position)
        os.pwrite(file.fileno(), bytes([byte ^ 4]), position)


def flipped_delivered(stage: Embedded, chance: random.Random) -> None:
    """Somewhere in what has been delivered, while the service runs."""
    stage.flip_in(chance.choice([each for each in stage.groups() if _arrived(stage, each)]), chance)


def flipped_waiting(stage: Embedded, chance: random.Random) -> None:
    """Somewhere in what waits, while the service is stopped."""
    stage.stop_receiver()
    stage.go_on_for(WAITING_SECONDS)
    with stage.stopped():
        stage.flip_in(chance.choice([each for each in stage.groups() if not _arrived(stage, each)]), chance)
        stage.start_receiver()


def flipped_head(stage: Embedded, chance: random.Random) -> None:
    """In a segment's own head, while the service is stopped."""
    with stage.stopped() as data:
        path = chance.choice(sorted((data / "journal" / "0").glob("*.seg")))
        flip(path, chance.randrange(SEGMENT_HEADER_BYTES))


def flipped_end(stage: Embedded, chance: random.Random) -> None:
    """In the note of where the journal ends, while the service runs, and it is killed."""
    end = stage.machine.data / "journal" / "0" / "end"
    flip(end, chance.randrange(end.stat().st_size))
    stage.machine.kill9()
    stage.start(stage.machine)


FLIPS: tuple[Callable[[Embedded, random.Random], None], ...] = (
    flipped_waiting,
    flipped_delivered,
    flipped_head,
    flipped_end,
)


def flipped_bytes(stage: Embedded, times: int) -> None:
    """A bit is changed in what is delivered, in what waits, in a segment's head, or in the note of the journal's end;
    what waited in the damaged group of events may be missing, and a notice counts it."""
    for number, how in enumerate(stage.in_turn(FLIPS, times)):
        stage.inject(how.__name__)
        how(stage, random.Random(number))
        stage.go_on()
    missing = sum(not stage.arrivals.times[number] for number in stage.damaged)
    wait_until(
        lambda: stage.noted_damage() >= missing, NOTICED_SECONDS_MAX, f"a notice counts {missing} damaged events"
    )


def old_files_put_back(stage: Embedded, times: int) -> None:
    """The service is stopped, one part of its folder is put back from a copy some seconds older, and it is started; all
    had been delivered by then."""
    older = stage.folder / "older"
    for part in stage.in_turn(_parts(stage.machine.data), times, stage.injected_before):
        with stage.stopped() as data:
            shutil.rmtree(older, ignore_errors=True)
            shutil.copytree(data, older, ignore=shutil.ignore_patterns(*NOT_PUT_BACK))
        stage.go_on_for(LATER_SECONDS)
        stage.inject(f"{part} put back")
        with stage.nothing_comes(), stage.stopped() as data:
            for name in (part, f"{part}-wal", f"{part}-shm"):
                _put_back(older / name, data / name)
            stage.hand_over(data)
        stage.go_on()


def files_locked(stage: Embedded, times: int) -> None:
    """Another program holds one database file after another, and then all of them at once, against whoever writes."""
    each: list[tuple[str, ...]] = [*((which,) for which in get_args(Which)), get_args(Which)]
    for files in stage.in_turn(each, times, stage.injected_before):
        with stage.trouble(f"{', '.join(files)} locked"), ExitStack() as held:
            for which in files:
                holder = held.enter_context(closing(connect(stage.machine.data / f"{which}.db")))
                holder.execute("BEGIN EXCLUSIVE")
            stage.last(LOCK_SECONDS)


def modes_taken_away(stage: Embedded, times: int) -> None:
    """One database file after another, the index, and the folder of what roles tell one another is closed to the user
    who runs the service, and opened again."""
    data = stage.machine.data
    parts = [*(f"{which}.db" for which in get_args(Which)), "index", "run"]
    for part in stage.in_turn(parts, times, stage.injected_before):
        with stage.trouble(f"no rights on {part}"), _closed(data / part), _closed(data / f"{part}-wal"):
            stage.last(CLOSED_SECONDS)


def journal_closed(stage: Embedded, times: int) -> None:
    """The journal's folder, that of its partition, or the whole data folder is closed to the user who runs the service,
    and opened again: calls may be refused meanwhile, and roles be started again."""
    parts = ["journal/0", "journal", "."]
    for part in stage.in_turn(parts, times, stage.injected_before):
        stage.inject(f"no rights on {part}")
        with _closed(stage.machine.data / part):
            stage.last(CLOSED_SECONDS)
        stage.go_on()


@contextmanager
def _closed(path: Path) -> Iterator[None]:
    if not path.exists():
        yield
        return
    mode = stat.S_IMODE(path.stat().st_mode)
    path.chmod(0)
    yield
    path.chmod(mode)


def _arrived(stage: Embedded, each: Group) -> bool:
    return all(stage.arrivals.times[number] for number in each.numbers)


def _parts(data: Path) -> list[str]:
    logs = ("-wal", "-shm")
    return sorted(
        each.name for each in data.iterdir() if each.name not in NOT_PUT_BACK and not each.name.endswith(logs)
    )


def _put_back(old: Path, there: Path) -> None:
    if there.is_dir():
        shutil.rmtree(there)
    else:
        there.unlink(missing_ok=True)
    if old.is_dir():
        shutil.copytree(old, there)
    elif old.exists():
        shutil.copy2(old, there)


def _scenario(name: str, title: str, times: int, play: Callable[[Embedded, int], None], refuses_none: bool) -> Scenario:
    return Scenario(name, title, times, play, rate=EVENTS_PER_SECOND, is_embedded=True, refuses_none=refuses_none)


EMBEDDED = (
    _scenario("flipped-bytes", "a bit of the journal changed", 16, flipped_bytes, refuses_none=False),
    _scenario("old-files-put-back", "a part of the folder put back from an older copy", 16, old_files_put_back, False),
    _scenario("files-locked", f"one database file after another locked for {LOCK_SECONDS:g} s", 6, files_locked, True),
    _scenario("modes-taken-away", f"a database file closed for {CLOSED_SECONDS:g} s", 7, modes_taken_away, True),
    _scenario("journal-closed", f"the journal's folder closed for {CLOSED_SECONDS:g} s", 3, journal_closed, False),
)
