"""Power cuts: the disk under the data folder is cut off at a random moment, comes back, and the ledger is balanced.

The control run is the same with synchronisation turned off: ``strace`` answers every fsync and fdatasync with success
and does nothing. It has to lose, or the cut proves nothing.

An event that was delivered before the cut would not be missed. So the receiver hangs when the power goes: always in the
control run, else every second time.

A process lives some microseconds on after the cut, so only what the sender had been told *before* the cut counts. What
it was told from then until the processes were dead is counted apart.

How much a cut repeats is measured while a backlog is delivered as fast as the receiver takes it: what came a second
time after the cut had come the first time so many milliseconds before it.
"""

from __future__ import annotations

import os
import signal
import statistics
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.crash import loop_disk, strace
from bench.crash.scene import BACK_SECONDS, Scene, Score
from hookline.bench.machine import wait_until

KIND = "power cut"
CONTROL_KIND = "power cut without fsync (control, has to lose)"
DRAIN_KIND = "power cut while catching up"
DRAIN_EVENTS = 60_000
DRAIN_FILL_PER_SECOND = 20_000
DRAIN_FILL_SECONDS_MAX = 120.0
DRAIN_BEGUN_SHARE = 0.1
DRAIN_SECONDS_MAX = 0.5
UPTIME_SECONDS_MAX = 1.0
EVENTS_BETWEEN = 50
LYING = ("fdatasync:retval=0", "fsync:retval=0", "msync:retval=0")
LYING_ROLES = ("collect", "deliver")
CONTROL_SETTLE_SECONDS = 10.0


def power_cuts(cycles: int, rate: float) -> Score:
    """Cut the power so many times under load."""
    if (reason := loop_disk.unavailable()) is not None:
        return Score(kind=KIND, not_run=reason)
    return _cut(KIND, cycles, rate, synchronised=True)


def control_cuts(cycles: int, rate: float) -> Score:
    """The same with synchronisation turned off."""
    if (reason := loop_disk.unavailable() or strace.unavailable()) is not None:
        return Score(kind=CONTROL_KIND, not_run=reason, loses_on_purpose=True)
    return _cut(CONTROL_KIND, cycles, rate, synchronised=False)


def drain_cuts(cycles: int, events: int = DRAIN_EVENTS) -> Score:
    """Cut the power while ``deliver`` works off a backlog at full speed."""
    if (reason := loop_disk.unavailable()) is not None:
        return Score(kind=DRAIN_KIND, not_run=reason)
    with ExitStack() as entered:
        folder = Path(entered.enter_context(TemporaryDirectory(prefix="hookline-bench-")))
        disk = entered.enter_context(loop_disk.LoopDisk(folder))
        scene = entered.enter_context(Scene(DRAIN_FILL_PER_SECOND, data=disk.folder / "data", receivers=1))
        scene.service.start()
        cuts = [_one_drain_cut(scene, disk, events) for _ in range(cycles)]
        scene.service.stop()
        rates, ages = zip(*cuts, strict=True)
        remark = (
            f"at {statistics.median(rates):,.0f} events/s; what came again had come at most"
            f" {', '.join(f'{age * 1000:.0f}' for age in sorted(ages))} ms before the cut"
        )
        return scene.score(DRAIN_KIND, cycles, repeated_seconds=ages, remark=remark)


def _one_drain_cut(scene: Scene, disk: loop_disk.LoopDisk, events: int) -> tuple[float, float]:
    """Fill, cut, start again; return the rate before the cut and how far before it the oldest repeat had come first."""
    sink, deliver = scene.ledger.sinks[0], scene.pid("deliver")
    os.kill(deliver, signal.SIGSTOP)
    scene.start_load()
    scene.ledger.more(events, DRAIN_FILL_SECONDS_MAX)
    scene.ledger.stop_load()
    before = sink.received
    os.kill(deliver, signal.SIGCONT)
    begun = before + int(events * DRAIN_BEGUN_SHARE)
    wait_until(lambda: sink.received >= begun, BACK_SECONDS, "the backlog is being delivered")
    scene.wait_at_random(DRAIN_SECONDS_MAX)
    cut_at = time.monotonic()
    disk.cut()
    scene.service.kill()
    disk.power_on()
    scene.restart()
    scene.ledger.settled()
    arrivals = sink.arrivals()
    drained = [at for _, at in arrivals[before:] if at < cut_at]
    return len(drained) / (drained[-1] - drained[0]), _oldest_repeat(arrivals, cut_at)


def _oldest_repeat(arrivals: list[tuple[str, float]], cut_at: float) -> float:
    """Return how long before the cut that had come which came again after it: the longest time."""
    last = {message_id: at for message_id, at in arrivals if at < cut_at}
    return max((cut_at - last[each] for each, at in arrivals if at >= cut_at and each in last), default=0.0)


def _cut(kind: str, cycles: int, rate: float, *, synchronised: bool) -> Score:
    doubtful: set[str] = set()
    with ExitStack() as entered:
        folder = Path(entered.enter_context(TemporaryDirectory(prefix="hookline-bench-")))
        disk = entered.enter_context(loop_disk.LoopDisk(folder))
        scene = entered.enter_context(Scene(rate, data=disk.folder / "data", receivers=1))
        scene.service.start()
        scene.start_load()
        for cycle in range(cycles):
            if cycle % 2 == 0 or not synchronised:
                scene.ledger.sinks[0].hang()
            doubtful |= _one_cut(scene, disk, synchronised)
            scene.ledger.sinks[0].wake()
        scene.ledger.more(EVENTS_BETWEEN)
        scene.ledger.stop_load()
        if synchronised:
            scene.ledger.settled(besides=doubtful)
        else:
            scene.ledger.settled(CONTROL_SETTLE_SECONDS)
        scene.service.stop()
        lost = {entry.partition(" ")[0] for entry in scene.ledger.balance().lost}
        remark = f"{len(doubtful):,} acknowledged in the moment of a cut, {len(lost & doubtful)} of them lost"
        return scene.score(
            kind,
            cycles,
            lost=len(lost - doubtful),
            in_doubt=len(doubtful),
            remark=remark,
            loses_on_purpose=not synchronised,
        )


def _one_cut(scene: Scene, disk: loop_disk.LoopDisk, synchronised: bool) -> set[str]:
    """One cut and the start after it; return what was acknowledged in its moment."""
    with ExitStack() as attached:
        if not synchronised:
            for role in LYING_ROLES:
                attached.enter_context(strace.injecting(scene.pid(role), LYING, scene.folder / f"trace-{role}"))
        scene.ledger.more(EVENTS_BETWEEN)
        scene.wait_at_random(UPTIME_SECONDS_MAX)
        before = scene.ledger.acknowledged
        disk.cut()
        scene.service.kill()
    disk.power_on()
    doubtful = set(scene.ledger.acknowledged_ids()[before:])
    scene.restart()
    return doubtful
