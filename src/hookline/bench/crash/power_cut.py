"""Power cuts: the disk under the data folder is cut off at a random moment, comes back, and the ledger is balanced.

The control run is the same with synchronisation turned off: ``strace`` answers every fsync and fdatasync with success
and does nothing. It has to lose, or the cut proves nothing.

An event that was delivered before the cut would not be missed. So the receiver hangs when the power goes: always in the
control run, else every second time.

A process lives some microseconds on after the cut, so only what the sender had been told *before* the cut counts. What
it was told from then until the processes were dead is counted apart.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from hookline.bench.crash import loop_disk, strace
from hookline.bench.crash.scene import Scene, Score

KIND = "power cut"
CONTROL_KIND = "power cut without fsync (control, has to lose)"
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
