"""Starts a data folder that was damaged or put back, does what it asks for, and holds it against three promises: every
newly accepted event is sent, what waited is sent or named, and doctor names the part, stopped and running."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from tests.service.harness import Hookline, Receiver, is_ready

NEW_EVENTS = 20
DECIDED_SECONDS = 120.0
MENDED_MAX = 6
"""Starts of one folder: each but the last one may ask for another part to be renewed."""
NOT_PARTS = ("lock", "run", "*-shm", "admin-token")
"""Made anew at each start, or no part of what is known of events."""
REFUSED = 2
REPLAY = ("had to be made anew has to be replayed", "has to be made anew has to be replayed")
"""What is said of events whose destination is another one now."""
DAMAGED = "events of it cannot be read any more"
"""What doctor says of records that are."""
_ASKED = re.compile(r"hookline renew ([\w-]+(?:\.\w+)?)|\"file\": \"[^\"]*/([\w.-]+)\", \"error\"")
"""What the log says is missing or damaged, by name."""


def judge(hookline: Hookline, away_port: int, waited: Iterable[str], injured: Sequence[str]) -> str:
    """Start the folder, and the receiver that was away; return what is wrong, nothing when all is as it should be.

    ``waited`` was taken for that receiver before the folder was copied; ``injured`` are names of which one stands in
    the sentence when a start is refused.
    """
    with Receiver(port=away_port) as back:
        try:
            return _judge(hookline, back, waited, injured)
        except (AssertionError, OSError) as error:
            return f"{type(error).__name__} {error}"[-300:]
        finally:
            hookline.kill9()


def command(hookline: Hookline, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one on the folder."""
    config, _ = hookline.write_files()
    line = [sys.executable, "-m", "hookline.cli.main", *arguments, "--config", str(config)]
    return subprocess.run(line, capture_output=True, text=True, timeout=60, check=False, cwd=hookline.folder)


def _judge(hookline: Hookline, back: Receiver, waited: Iterable[str], injured: Sequence[str]) -> str:
    sent: list[str] = []
    before = list(waited)
    costs = ""
    for _ in range(MENDED_MAX):
        said, stopped = len(hookline.log), command(hookline, "doctor").stdout
        process = hookline.launch()
        decided = _wait_for_arrival(hookline, back, sent, said)
        asked = _asked(hookline.log[said:])
        if decided == "":
            return _told(hookline, back, sent, before, stopped, costs)
        running = stopped if process.poll() is not None else command(hookline, "doctor").stdout
        if process.poll() not in (None, REFUSED) or not (asked or any(name in hookline.log for name in injured)):
            return decided
        if unnamed := [name for name in asked if not (_names(stopped, name) and _names(running, name))]:
            return f"doctor does not name {', '.join(unnamed)}"
        if not asked:
            return ""  # refused, and named
        costs += _renew(hookline, asked)
        if any(each in costs for each in REPLAY):  # what was taken meanwhile waits for destinations of before, too
            before, sent = before + sent, []
    return f"renewed again and again, {asked} at last"


def _asked(said: str) -> set[str]:
    """Return the parts of which a log says that they are missing or damaged, but for notices: those tell of before."""
    lines = [line for line in said.splitlines() if '"event": "notice_' not in line]
    return {part or file for part, file in _ASKED.findall("\n".join(lines))}


def _names(doctor: str, part: str) -> bool:
    """Return whether doctor says of the part that something is wrong with it."""
    return any(part in line and " fail " in line for line in doctor.splitlines())


def _wait_for_arrival(hookline: Hookline, back: Receiver, sent: list[str], said: int) -> str:
    """Send events, and wait until they are there; return what came in between."""
    ends = time.monotonic() + DECIDED_SECONDS
    fresh = NEW_EVENTS
    while time.monotonic() < ends:
        if hookline.process is None or hookline.process.poll() is not None:
            return f"ended with {hookline.process and hookline.process.returncode}"
        if '"event": "database_damaged"' in hookline.log[said:]:
            return "a database is damaged"
        if fresh and is_ready(hookline.collect_port):
            sent += [hookline.track() for _ in range(fresh)]
            fresh = 0
        elif not fresh and _arrived(back).issuperset(sent) and is_ready(hookline.control_port):
            return ""
        time.sleep(0.05)
    missing = len(set(sent) - _arrived(back))
    return f"{missing} of {len(sent)} new ones are not sent" if sent else f"not ready: {hookline.log[-200:]}"


def _renew(hookline: Hookline, names: Iterable[str]) -> str:
    """Go on without these, as the log says; return what that is said to cost."""
    hookline.kill9()
    costs = ""
    for name in names:
        for path in hookline.data.glob(f"{name}*"):
            path.unlink()
        costs += command(hookline, "renew", name, "--yes").stdout
    return costs


def _told(hookline: Hookline, back: Receiver, sent: list[str], waited: Iterable[str], stopped: str, costs: str) -> str:
    """Hold what it says of a folder that works against what arrived."""
    hookline.wait_ready(DECIDED_SECONDS)
    for message_id in sent:
        if hookline.status_at(message_id, "away").get("status") != "delivered":
            hookline.wait_status(message_id, "away", "delivered")
    running = command(hookline, "doctor").stdout
    lost = (hookline.data / "journal" / "lost.json").exists()
    is_named = "are missing since" in running and ("knows" in stopped or "are missing since" in stopped)
    if lost and not is_named:  # stopped: before the first start that finds it, or between two
        return "doctor does not name what is lost"
    is_to_replay = any(each in costs + running for each in REPLAY)
    missing = sorted(set(waited) - _arrived(back))
    damaged = [each for each in missing if _is_damaged(hookline, each)]
    if damaged and not (lost or all(DAMAGED in each for each in (stopped, running))):
        return f"doctor does not name what is damaged: {damaged[:3]}"
    silent = [
        each
        for each in missing
        if each not in damaged and _is_silent(hookline.event(each), lost=lost, is_to_replay=is_to_replay)
    ]
    return f"{len(silent)} that waited are not sent, and not named: {silent[:3]}" if silent else ""


def _is_silent(event: dict[str, Any] | None, *, lost: bool, is_to_replay: bool) -> bool:
    """Return whether an event that did not arrive is said to have, or is gone although nothing was said of that."""
    if event is None:
        return not lost
    statuses = [each["status"] for each in event["destinations"] if each["id"] == "away"]
    return "delivered" in statuses if statuses else not is_to_replay


def _is_damaged(hookline: Hookline, message_id: str) -> bool:
    """Return whether it is said that its record is, or may be, damaged."""
    answer = hookline.api("GET", f"events/{message_id}")
    return answer.status == 404 and "damaged" in answer.json["detail"]


def _arrived(back: Receiver) -> set[str]:
    return {request.message_id for request in back.requests}
