"""Each call that stores something failed in turn: the first of a scripted run, then the second, and so on to the last.

Each fails once alone, and once from then on.

The script is a row of single calls, one after the other; the calls are first counted, then failed one per run, in the
role that stores events and in the one that stores what became of them.
"""

from __future__ import annotations

import subprocess

from bench.crash import strace
from bench.crash.scene import Scene, Score

STORING = "write,pwrite64,pwritev,pwritev2,fsync,fdatasync,ftruncate,fallocate,rename,renameat2,unlink,openat"
FAILED = ("pwrite64", "pwritev", "pwritev2", "fdatasync", "fsync", "ftruncate", "fallocate", "rename")
"""Those that are failed; the others are looked at, so that one sees what is not covered."""

SCRIPT_EVENTS = 12
SCRIPT_RATE = 200.0
INJECTED = "(INJECTED)"
LOG_CHARACTERS = 1_000
ONCE, FOR_EVER = "", "+"
"""What ``strace`` wants behind the number of the call."""


def failed_calls(role: str, turns_max: int) -> Score:
    """Fail each call of a scripted run of one role in turn, at most so many of each kind."""
    kind = f"a failing disk under {role}"
    if (reason := strace.unavailable()) is not None:
        return Score(kind=kind, not_run=reason)
    with Scene(SCRIPT_RATE) as scene:
        scene.service.start()
        counts = _counted(scene, role)
        turns = [
            (call, f"{turn}{lasting}")
            for call in FAILED
            for turn in range(1, min(counts.get(call, 0), turns_max) + 1)
            for lasting in (ONCE, FOR_EVER)
        ]
        failures: list[str] = []
        struck = 0
        for call, turn in turns:
            try:
                struck += _fail(scene, role, call, turn)
            except (TimeoutError, subprocess.TimeoutExpired) as error:
                failures.append(f"{call} number {turn}: {error}; the log ends: {scene.service.log[-LOG_CHARACTERS:]}")
        scene.ledger.settled()
        scene.service.stop()
        made = ", ".join(f"{counts[call]} {call}" for call in FAILED if counts.get(call))
        covered = sum(counts.get(call, 0) for call in FAILED)
        remark = (
            f"the script made {made}; {len(turns) // 2} of {covered} in turn, once and for ever; {struck} runs failed"
        )
        return scene.score(kind, struck, remark=remark, failures=failures)


def _counted(scene: Scene, role: str) -> dict[str, int]:
    trace = scene.folder / "counted"
    with strace.injecting(scene.pid(role), [], trace, STORING):
        _script(scene)
    return strace.counted(trace)


def _fail(scene: Scene, role: str, call: str, turn: str) -> bool:
    """One run with one failure, or with all from it on; the role may end of it, and is back afterwards.

    True when a call did fail: no two runs make quite the same ones.
    """
    trace = scene.folder / f"trace-{call}-{turn}"
    with strace.injecting(scene.pid(role), [f"{call}:error=EIO:when={turn}"], trace):
        _script(scene)
    scene.service.wait_ready()
    scene.pid(role)
    return INJECTED in trace.read_text(errors="replace")


def _script(scene: Scene) -> None:
    """Some events, sent until each is acknowledged, and delivered."""
    scene.start_load()
    scene.ledger.more(SCRIPT_EVENTS)
    scene.ledger.stop_load()
    scene.ledger.settled()
