"""kill -9 at every named crash point on the event's way: what must be so for it to be passed, and the crash itself.

The points are those of ``telemetry/crashpoints.py``. Most are passed by any load; for the others their conditions are
made here. Those of ``profiles``, which reads the journal beside delivery, lose no event and have tests of their own, as
have those of ``files``, ``transfer`` and ``warehouse``.
"""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from bench.crash import erase_one
from bench.crash.scene import ENOUGH_EVENTS, Scene, Score
from hookline.bench.machine import wait_until
from hookline.telemetry.crashpoints import CRASH_POINTS, ENVIRONMENT_NAME

REACHED_SECONDS = 300.0
RESTARTS_MAX = 20
REPLAYED = timedelta(seconds=1)
SEGMENTS_WANTED = 4
KILLED = -9
ERASE_POINTS = [name for name in CRASH_POINTS if name.startswith("journal.erase_")]
RETENTION_POINT = "journal.retention_between_segments"
APART = ("files.", "profiles.", "worker.", "transfer.", "warehouse.")
"""Points that have tests of their own."""
POINTS = [name for name in CRASH_POINTS if not name.startswith(APART)]
ROWS = (
    (
        "journal.after_write_before_sync",
        "journal.after_sync_before_publish",
        "journal.after_publish_before_answer",
        "journal.recovery_before_publish",
    ),
    ("journal.segment_filled", "journal.segment_created_before_rename", "journal.segment_renamed_before_sync"),
    ("deliver.answered_before_mark", "deliver.before_checkpoint", "deliver.after_checkpoint", "deliver.replay_opened"),
    (
        "deliver.erased_before_answer",
        "privacy.looked_up",
        "privacy.sent",
        "privacy.journal_erased",
        "privacy.ids_forgotten",
    ),
)
"""Points at which one life after the other may end, with no time between them to make good what is missing."""
LIVES = (*ROWS, *((name,) for name in POINTS if not any(name in row for row in ROWS)))
"""Every point once: those rows, and each of the others by itself."""


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
    (scene.service.data / "run" / "metrics-deliver.json").unlink(missing_ok=True)


def wake_once_detached(scene: Scene) -> None:
    """Let the receiver go on when its lane has been detached, so that it catches up."""
    scene.service.wait_ready()
    wait_until(lambda: scene.service.metric("hookline_deliver_detached_total") > 0, REACHED_SECONDS, "lane detached")
    scene.ledger.sinks[0].wake()


def ask_for_replay(scene: Scene) -> None:
    """Send what came in a moment ago once more."""
    scene.service.wait_ready()
    since = datetime.now(UTC) - REPLAYED
    scene.service.api("POST", "replays", {"destination": "crm1", "from": since.isoformat()})


def ask_to_delete(scene: Scene) -> None:
    """Delete somebody whom nobody knows."""
    scene.service.wait_ready()
    with suppress(ConnectionError, http.client.HTTPException):  # one of the life before may lead to the point first
        scene.service.api("POST", "deletion-requests", {"userId": "nobody", "action": "both"})


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
    "deliver.erased_before_answer": ask_to_delete,
    "privacy.looked_up": ask_to_delete,
    "privacy.sent": ask_to_delete,
    "privacy.journal_erased": ask_to_delete,
    "privacy.ids_forgotten": ask_to_delete,
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


def point_kills(rounds: int, rate: float) -> Score:
    """Every point in turn, so many times; a point that was not reached is a failure."""
    failures: list[str] = []
    with Scene(rate) as scene:
        scene.service.start()
        for point in POINTS * rounds:
            try:
                crash_at_points(scene, (point,))
            except TimeoutError as error:
                failures.append(f"{point}: {error}")
            lost = len(scene.ledger.balance().lost)
            if lost and not any(failure.startswith("lost") for failure in failures):
                failures.append(f"lost {lost} at {point} or before")
        scene.service.stop()
        remark = f"{len(POINTS)} points, {rounds} × each"
        return scene.score("at every named point", len(POINTS) * rounds, remark=remark, failures=failures)


def crash_at_points(scene: Scene, points: Sequence[str]) -> None:
    """Let a process die exactly there under load, at one point after the other, and kill everything each time; then
    start again and wait for what is missing."""
    scene.ledger.sinks[0].wake()
    if not scene.service.running:
        scene.service.start()
    if points[0] in ERASE_POINTS:
        _crash_while_erasing(scene, points[0])
    elif points[0] == RETENTION_POINT:
        _crash_while_dropping_segments(scene)
    else:
        _crash_under_load(scene, points)


def _crash_under_load(scene: Scene, points: Sequence[str]) -> None:
    padding = next((size for prefix, size in PADDING_BYTES.items() if points[0].startswith(prefix)), 100)
    scene.start_load(padding)
    scene.ledger.more(ENOUGH_EVENTS)
    scene.service.kill()
    for point in points:
        if point in BEFOREHAND:
            BEFOREHAND[point](scene)
        _crash(scene, f"{point}:{PASSAGE.get(point, 1)}", AFTER_START.get(point))
    scene.ledger.sinks[0].wake()
    scene.restart()
    _settle(scene)


def _crash_while_erasing(scene: Scene, point: str) -> None:
    _load_and_settle(scene)
    scene.service.stop()
    number = ERASE_POINTS.index(point)  # another record each time: what is erased already costs no step
    command = [sys.executable, "-P", erase_one.__file__, str(scene.journal), str(number)]
    died = subprocess.run(command, env={**os.environ, ENVIRONMENT_NAME: point}, check=False, timeout=120)
    scene.restart()
    if died.returncode != KILLED:
        raise TimeoutError("not reached")
    if list(scene.journal.glob("**/erase.intent")):
        raise TimeoutError("the start did not complete it")
    _load_and_settle(scene)


def _crash_while_dropping_segments(scene: Scene) -> None:
    """Everything is delivered before a segment expires, so nothing wanted goes."""
    service = scene.service
    scene.ledger.settled()
    service.settings["retention.events"] = "32s"  # a start closes a segment that spans an eighth of it
    for _ in range(RESTARTS_MAX):
        if len(list(scene.journal.glob("0/*.seg"))) >= SEGMENTS_WANTED:
            break
        service.stop()
        service.start()
        _load_and_settle(scene)
    service.stop()
    service.settings["retention.events"] = "1s"
    try:
        _crash(scene, f"{RETENTION_POINT}:1", None)
    finally:
        del service.settings["retention.events"]
        scene.restart()
    _load_and_settle(scene)


def _load_and_settle(scene: Scene) -> None:
    scene.start_load()
    _settle(scene)


def _settle(scene: Scene) -> None:
    scene.ledger.more(ENOUGH_EVENTS)
    scene.ledger.stop_load()
    scene.ledger.settled()


def _crash(scene: Scene, setting: str, after_start: Callable[[Scene], None] | None) -> None:
    """Start with the point armed, wait until its process has died there, then kill everything."""
    service = scene.service
    deaths = service.log.count("SIGKILL")
    service.environment[ENVIRONMENT_NAME] = setting
    service.launch()
    try:
        if after_start is not None:
            after_start(scene)
        wait_until(lambda: service.log.count("SIGKILL") > deaths, REACHED_SECONDS, f"{setting} reached")
    finally:
        del service.environment[ENVIRONMENT_NAME]
        service.kill()
