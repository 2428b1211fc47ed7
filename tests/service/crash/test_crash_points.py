"""kill -9 at every named point between two durable steps, under load: nothing acknowledged is lost.

One service and one ledger live through all of it; each test arms one point, waits until it killed its process, kills
everything else as well, starts again and balances the ledger.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hookline.telemetry.crashpoints import CRASH_POINTS, ENVIRONMENT_NAME
from hookline.bench.crash.ledger import Ledger
from tests.service.harness import Hookline, wait_until, webhook

REACHED_SECONDS = 90.0
RESTARTS_MAX = 20
ERASE_POINTS = [name for name in CRASH_POINTS if name.startswith("journal.erase_")]
RETENTION_POINT = "journal.retention_between_segments"
SERVICE_POINTS = [name for name in CRASH_POINTS if name not in (*ERASE_POINTS, RETENTION_POINT)]


@dataclass
class Scene:
    """The service and the ledger that outlive all crashes."""

    hookline: Hookline
    ledger: Ledger

    @property
    def journal(self) -> Path:
        """The journal's folder."""
        return self.hookline.data / "journal"


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A service with two destinations, so that one may hang; at the end duplicates are counted and printed."""
    folder = tmp_path_factory.mktemp("crash")
    with Ledger(folder, receivers=2) as ledger:
        destinations = [webhook(f"crm{n}", sink.url, secret="s") for n, sink in enumerate(ledger.sinks)]
        with Hookline(folder / "h", destinations) as hookline:
            yield Scene(hookline, ledger)
        print(f"\n{len(CRASH_POINTS)} crash points: {ledger.balance()}")


def tear_the_tail(scene: Scene) -> None:
    """Write half a group behind the last one, as a machine does that loses power in mid-write."""
    last = max((scene.journal / "0").glob("*.seg"))
    data = last.read_bytes()
    with last.open("r+b") as file:
        file.seek(len(data.rstrip(b"\0")))
        file.write(b"\x01\x02\x03\x04" * 500)


def hang(scene: Scene) -> None:
    """Let one receiver hang, so that its lane fills and is detached; forget what deliver reported before."""
    scene.ledger.sinks[0].hang()
    (scene.hookline.data / "run" / "metrics-deliver.json").unlink(missing_ok=True)


def wake_once_detached(scene: Scene) -> None:
    """Let the receiver go on when its lane has been detached, so that it catches up."""
    scene.hookline.wait_ready()
    wait_until(lambda: scene.hookline.metric("hookline_deliver_detached_total") > 0, 60, "lane detached")
    scene.ledger.sinks[0].wake()


def ask_for_replay(scene: Scene) -> None:
    """Send what came in a moment ago once more."""
    scene.hookline.wait_ready()
    since = datetime.now(UTC) - timedelta(seconds=1)
    scene.hookline.api("POST", "replays", {"destination": "crm1", "from": since.isoformat()})


# What must be so, and what must happen after the start, for a point to be passed; the others are passed by any load.
BEFOREHAND: dict[str, Callable[[Scene], None]] = {
    "journal.recovery_cut_saved": tear_the_tail,
    "deliver.detached": hang,
    "deliver.catching_up": hang,
    "deliver.attached_again": hang,
}
AFTER_START: dict[str, Callable[[Scene], None]] = {
    "deliver.catching_up": wake_once_detached,
    "deliver.attached_again": wake_once_detached,
    "deliver.replay_opened": ask_for_replay,
}
PASSAGE = {
    "journal.after_write_before_sync": 40,
    "journal.after_sync_before_publish": 40,
    "journal.after_publish_before_answer": 40,
    "deliver.answered_before_mark": 300,
    "deliver.before_checkpoint": 5,
    "deliver.after_checkpoint": 5,
}
PADDING_BYTES = {"journal.segment": 4_000}


@pytest.mark.parametrize("point", SERVICE_POINTS)
def test_a_crash_there_loses_nothing(scene: Scene, point: str) -> None:
    """The process dies exactly there, everything is killed, and after the start all acknowledged events arrive."""
    hookline, ledger = running(scene), scene.ledger
    padding = next((size for prefix, size in PADDING_BYTES.items() if point.startswith(prefix)), 100)
    ledger.start_load(hookline.collect_port, padding_bytes=padding)
    ledger.more(300)
    hookline.kill9()
    if point in BEFOREHAND:
        BEFOREHAND[point](scene)
    crash_at(scene, f"{point}:{PASSAGE.get(point, 1)}", AFTER_START.get(point))
    ledger.sinks[0].wake()
    hookline.start()
    ledger.more(300)
    ledger.stop_load()
    assert ledger.settled().lost == ()


@pytest.mark.parametrize("point", ERASE_POINTS)
def test_a_crash_while_erasing_is_finished_later(scene: Scene, point: str) -> None:
    """Killed in the middle of erasing a record: the next start completes it and serves everything else."""
    hookline, ledger = running(scene), scene.ledger
    ledger.start_load(hookline.collect_port)
    ledger.more(300)
    ledger.stop_load()
    ledger.settled()
    hookline.stop()
    number = ERASE_POINTS.index(point)  # another record each time: what is erased already costs no step
    command = [sys.executable, "-m", "hookline.bench.crash.erase_one", str(scene.journal), str(number)]
    died = subprocess.run(command, env={**os.environ, ENVIRONMENT_NAME: point}, check=False, timeout=120)
    assert died.returncode == -9
    hookline.start()
    assert not list(scene.journal.glob("**/erase.intent"))
    ledger.start_load(hookline.collect_port)
    ledger.more(300)
    ledger.stop_load()
    assert ledger.settled().lost == ()


def test_a_crash_while_dropping_old_segments(scene: Scene) -> None:
    """Killed between two of several expired segments: the next start drops the others and serves what is kept."""
    hookline, ledger = running(scene), scene.ledger
    assert ledger.settled().lost == ()
    hookline.settings["retention.events"] = "32s"  # a start closes a segment that spans an eighth of it
    for _ in range(RESTARTS_MAX):
        if len(list(scene.journal.glob("0/*.seg"))) >= 4:
            break
        hookline.restart()
        ledger.start_load(hookline.collect_port)
        ledger.more(300)
        ledger.stop_load()
        assert ledger.settled().lost == ()  # delivered, so that nothing wanted expires
    hookline.stop()
    hookline.settings["retention.events"] = "1s"
    crash_at(scene, f"{RETENTION_POINT}:1", None)
    del hookline.settings["retention.events"]
    hookline.start()
    ledger.start_load(hookline.collect_port)
    ledger.more(300)
    ledger.stop_load()
    assert ledger.settled().lost == ()


def running(scene: Scene) -> Hookline:
    """The service, started again when a failed test left it down; the receiver awake."""
    scene.ledger.sinks[0].wake()
    if not scene.hookline.members():
        scene.hookline.start()
    return scene.hookline


def crash_at(scene: Scene, setting: str, after_start: Callable[[Scene], None] | None) -> None:
    """Start with the point armed, wait until its process has died there, then kill everything."""
    hookline = scene.hookline
    deaths = hookline.log.count("SIGKILL")
    hookline.environment[ENVIRONMENT_NAME] = setting
    hookline.launch()
    try:
        if after_start is not None:
            after_start(scene)
        wait_until(lambda: hookline.log.count("SIGKILL") > deaths, REACHED_SECONDS, f"{setting} reached")
    finally:
        del hookline.environment[ENVIRONMENT_NAME]
        hookline.kill9()
