"""The crash report: every kind of damage, its score in the ledger, and the aims, as a page and as data."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from bench.crash import clock_jumps, failed_calls, full_disk, kills, points, power_cut
from bench.crash.scene import Score
from bench.page import Check, Page, Section
from hookline.bench import machine

CYCLES = 20
FULL_SECONDS = 10.0
RATE_PER_SECOND = 1_000.0
RESTART_SECONDS_MAX = 2.0
REPEATED_SECONDS_MAX = 0.05
ERROR_CHARACTERS = 2_500
ROUNDS_SHARE = 0.05
"""Of the cycles: so often every crash point has its turn; the smaller kinds have five times as many cycles."""
POWER_CUTS_SHARE = 0.4
"""Of the cycles: so often the power is cut."""

PROSE = """\
Under load at a fixed rate the service is damaged in one way after another, in cycles: damage, start, go on. The sender
and the receivers are processes of their own. The sender writes down what was acknowledged and sends what was not again,
as an SDK does; the receivers write down what they get. At the end these files are joined. **Lost** is what was
acknowledged and never arrived; **twice** is what arrived more than once. Hookline promises at least once: a crash may
repeat what was on the wire when it struck, and a power cut what was delivered in the last moment before it, which had
not reached the disk. Restart is the time from the start of the command until all roles are ready.

The power is cut by having the kernel shut down the file system under the data folder (ext4 on a loop device), so that
nothing more is written back; what was acknowledged before that call counts. In the control run every fsync is answered
with success and not done, by `strace`, which also makes calls fail. The full disk is a small tmpfs, filled again
whenever something gives back room. The clock that jumps is that of the service alone, by `libfaketime`."""

BOUNDS = """\
No loss in *n* cycles is no proof that there is never one; it says, with 95 % confidence, that fewer than 3 / *n* of the
cycles lose anything: for {cycles} power cuts, fewer than {share:.1%}."""


def run_crash(asked: Asked) -> int:
    """Damage, count, show, and write what is asked for; 0 when every aim is met."""
    scores = []
    for name, amount in asked.amounts().items():
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        try:
            scores.append(KINDS[name](amount, asked.rate))
        except (
            RuntimeError,
            TimeoutError,
            OSError,
            subprocess.SubprocessError,
        ) as error:  # the other kinds still count
            scores.append(Score(kind=name, failures=(f"given up: {str(error)[:ERROR_CHARACTERS]}",)))
    page = crash_page(scores, asked)
    page.print()
    if asked.json is not None:
        report = {"machine": machine.describe(), "cycles": asked.cycles, "scores": scores, "checks": page.checks}
        asked.json.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    if asked.write is not None:
        page.write(asked.write)
    return int(not page.passed)


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what to damage, and where to write what came of it."""

    cycles: int = CYCLES
    seconds: float = FULL_SECONDS
    """How long the disk is full."""
    rate: float = RATE_PER_SECOND
    only: str | None = None
    json: Path | None = None
    write: Path | None = None

    def amounts(self) -> dict[str, int]:
        """Cycles of each kind in the order of the report, but seconds of a full disk; with ``only``, of that kind
        alone."""
        if self.only is not None:
            return {self.only: self.cycles}
        rounds = max(1, round(self.cycles * ROUNDS_SHARE))
        cuts = max(1, round(self.cycles * POWER_CUTS_SHARE))
        own = {
            "random-kills": self.cycles,
            "points": rounds,
            "power-cuts": cuts,
            "power-cuts-catching-up": cuts,
            "full-disk": round(self.seconds),
            "clock-jumps": 1,
        }
        return {name: own.get(name, 5 * rounds) for name in KINDS}


KINDS: dict[str, Callable[[int, float], Score]] = {
    "random-kills": kills.random_kills,
    "kills-with-backlog": kills.kills_with_backlog,
    "kills-recovering": kills.kills_in_recovery,
    "kills-of-collect": lambda cycles, rate: kills.role_kills(cycles, rate, "collect"),
    "kills-of-deliver": lambda cycles, rate: kills.role_kills(cycles, rate, "deliver"),
    "points": points.point_kills,
    "power-cuts": power_cut.power_cuts,
    "power-cuts-catching-up": lambda cycles, _: power_cut.drain_cuts(cycles),
    "power-cuts-without-fsync": power_cut.control_cuts,
    "full-disk": full_disk.full_disk,
    "failed-calls-of-collect": lambda cycles, _: failed_calls.failed_calls("collect", cycles),
    "failed-calls-of-deliver": lambda cycles, _: failed_calls.failed_calls("deliver", cycles),
    "clock-jumps": lambda _, rate: clock_jumps.clock_jumps(rate, clock_jumps.library()),
}
"""Every kind of damage, by how much of it and at which rate."""


def crash_page(scores: Sequence[Score], asked: Asked) -> Page:
    """The report of these scores."""
    run = [score for score in scores if score.not_run is None]
    left_out = [score for score in scores if score.not_run is not None]
    options = f"--cycles {asked.cycles} --seconds {asked.seconds:g} --rate {asked.rate:g}"
    power = next((score.cycles for score in run if score.kind == power_cut.KIND), 0)
    sections = [
        Section(
            title="Losses and duplicates",
            prose=BOUNDS.format(cycles=power, share=3 / power) if power else "",
            columns=(
                "damage",
                "cycles",
                "deliveries owed",
                "lost",
                "twice",
                "share",
                "restart p50",
                "longest",
                "remarks",
            ),
            rows=tuple(_row(score) for score in run),
        )
    ]
    if left_out:
        rows = tuple((score.kind, str(score.not_run)) for score in left_out)
        sections.append(Section(title="Not run on this machine", columns=("damage", "why"), rows=rows))
    return Page(
        title="Crash report",
        prose=PROSE,
        command=f"python -m bench.crash {options} --write docs/reports/crash.md",
        sections=tuple(sections),
        checks=tuple(check for score in run for check in checks(score)),
    )


def checks(score: Score) -> list[Check]:
    """The aims of one kind of damage."""
    if score.loses_on_purpose:
        return [Check(name=f"{score.kind}: lost", aim="> 0", measured=f"{score.lost:,}", passed=score.lost > 0)]
    found = [
        Check(
            name=f"{score.kind}: lost",
            aim="0",
            measured=f"{score.lost:,}" if score.expected else "nothing was sent",
            passed=score.lost == 0 and score.expected > 0,
        )
    ]
    if score.restart_seconds:
        middle = statistics.median(score.restart_seconds)
        found.append(
            Check(
                name=f"{score.kind}: restart, p50",
                aim=f"≤ {RESTART_SECONDS_MAX:g} s",
                measured=f"{middle:.2f} s",
                passed=middle <= RESTART_SECONDS_MAX,
            )
        )
    if score.repeated_seconds:
        middle = statistics.median(score.repeated_seconds)
        found.append(
            Check(
                name=f"{score.kind}: delivered again, the oldest of a cut, p50",
                aim=f"≤ {REPEATED_SECONDS_MAX * 1000:g} ms",
                measured=f"{middle * 1000:.0f} ms",
                passed=middle <= REPEATED_SECONDS_MAX,
            )
        )
    return found + [
        Check(name=f"{score.kind}", aim="as promised", measured=failure, passed=False) for failure in score.failures
    ]


def _row(score: Score) -> tuple[str, ...]:
    restarts = score.restart_seconds
    times = (f"{statistics.median(restarts):.2f} s", f"{max(restarts):.2f} s") if restarts else ("–", "–")
    share = f"{score.duplicates / max(1, score.expected):.3%}"
    counts = f"{score.cycles:,}", f"{score.expected:,}", f"{score.lost:,}", f"{score.duplicates:,}", share
    return (score.kind, *counts, *times, score.remark)
