"""The two pages: what the ledger has, and all reports on one screen."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence

from bench.long.ledger import ROOT, Piece
from bench.long.runs import LOSES_ON_PURPOSE, RUNS, Codes, Run, made, unfinished
from bench.page import Page, Section

COMMAND = "python -m bench.long"
REPORTS = ROOT / "docs/reports"
SUMMARY, LONG_RUNS = REPORTS / "summary.md", REPORTS / "long-runs.md"
MADE = re.compile(r"(?:Made|on) (?:on )?(\d{4}-\d\d-\d\d)")
TITLES = {
    "crash": "kills, power cuts, failing disks and clocks",
    "faults": "faults of brokers, PostgreSQL and the embedded folder",
    "isolation": "what unhealthy receivers do to healthy ones",
    "edges": "balancers in front, unusual receivers behind",
    "scale": "many workers and destinations",
    "upgrades": "rolling upgrade under load",
    "peers": "beside Svix and Outpost",
    "compared": "beside an earlier version of Hookline",
    "packages": "packages and images on bare systems",
}

LONG_PROSE = """\
Runs that take too long for CI, made piece by piece. Each piece is a line of [long-runs.jsonl](long-runs.jsonl), with a
digest of the code that it tried, the load of the machine and how long its disk takes to flush. **On this code** counts
the pieces of the code as it is now: all that an event passes, without docstrings and comments; for the embedded backend
the journal on Kafka is no part of it, and a test that stays within its own process passes what it imports. **In all**
counts every piece; the older ones name a commit. Deliveries owed, lost and twice are of all pieces. A delivery comes
twice when its answer was under way as something was killed or cut.

Before there was a ledger, on 20 and 21 November 2026, 1,608 kills, 200 power cuts, ten minutes of a full disk and a
backlog of ten million events that was killed and drained lost nothing. One of 6,000 simulated seeds found a defect."""

SUMMARY_PROSE = """\
One line for each report: how many of its aims were met, and which were not. A report says itself how it was made and
on what machine; all were made on two cores of one virtual machine."""

NOT_SHOWN = """\
- **Other machines.** Two cores, one kind of disk, Linux. Nothing was measured on ARM, on macOS, or on a network disk.
- **Long time.** The longest run is of hours, not of months. What grows by a megabyte a week is not seen.
- **Real clusters.** Kafka's brokers and PostgreSQL run on the same machine as Hookline: a network between them is cut
  and slowed down only in the reports that say so.
- **Real disks that die.** A power cut is a file system that the kernel shuts down. A disk that lies about its flushes
  loses events (that is what the control run shows), and no test here finds such a disk for you.
- **Receivers of others.** The receivers are ours, or nginx; those of vendors are stand-ins made from their documents.
- **Proof.** No loss in n kills says, with 95 % confidence, that fewer than 3 / n of such kills lose anything."""


def write(pieces: Sequence[Piece], codes: Codes) -> None:
    """Write both pages."""
    long_runs(pieces, codes).write(LONG_RUNS)
    summary(pieces, codes).write(SUMMARY)


def long_runs(pieces: Sequence[Piece], codes: Codes) -> Page:
    """The ledger as a table, and what failed."""
    failed = [(piece.run, piece.began, piece.code, failure) for piece in pieces for failure in piece.failures]
    sections = [
        Section(
            title="How far they are",
            columns=(
                "run",
                "wanted",
                "on this code",
                "in all",
                "owed",
                "lost",
                "twice",
                "restart p50",
                "the last piece",
            ),
            rows=tuple(_row(run, [piece for piece in pieces if piece.run == run.name], codes) for run in RUNS),
        )
    ]
    if failed:
        rows = tuple((*where, _one_line(failure)) for *where, failure in failed)
        sections.append(Section(title="What failed", columns=("run", "began", "code", "what"), rows=rows))
    return Page(title="Long runs", prose=LONG_PROSE, command=f"{COMMAND} --write", sections=tuple(sections), checks=())


def summary(pieces: Sequence[Piece], codes: Codes) -> Page:
    """All reports on one screen."""
    rows = [_report(name, title) for name, title in TITLES.items() if (REPORTS / f"{name}.md").exists()]
    open_ = unfinished(pieces, codes)
    lost = sum(piece.lost for piece in pieces if piece.run != LOSES_ON_PURPOSE)
    kills = sum(piece.amount for piece in pieces if piece.run.startswith(("random-kills", "kills-")))
    rows.append(
        (
            "[long runs](long-runs.md)",
            max((piece.began[:10] for piece in pieces), default="–"),
            f"{len(RUNS) - len(open_)} of {len(RUNS)} complete on this code",
            f"{kills:,.0f} kills so far, {lost:,} lost",
        )
    )
    sections = (
        Section(title="The reports", columns=("report", "made", "aims met", "not met"), rows=tuple(rows)),
        Section(title="What they do not show", prose=NOT_SHOWN),
    )
    return Page(title="Reports", prose=SUMMARY_PROSE, command=f"{COMMAND} --write", sections=sections, checks=())


def _row(run: Run, pieces: Sequence[Piece], codes: Codes) -> tuple[str, ...]:
    restarts = [seconds for piece in pieces for seconds in piece.restarts]
    return (
        run.title,
        f"{run.aim:,g} {run.unit}",
        f"{made(run, pieces, codes):,g}",
        f"{sum(piece.amount for piece in pieces):,g}",
        *(f"{sum(getattr(piece, name) for piece in pieces):,}" for name in ("owed", "lost", "twice")),
        f"{statistics.median(restarts):.2f} s" if restarts else "–",
        pieces[-1].remark if pieces else "not begun",
    )


def _report(name: str, title: str) -> tuple[str, ...]:
    text = (REPORTS / f"{name}.md").read_text()
    day = MADE.search(text)
    met = text.count("| yes |")
    missed = [line.split("|")[1].strip() for line in text.splitlines() if "**no**" in line and line.startswith("|")]
    aims = f"{met} of {met + len(missed)}" if met or missed else "measures, has no aims"
    return f"[{title}]({name}.md)", day[1] if day else "–", aims, "; ".join(missed) or "–"


def _one_line(text: str) -> str:
    return " ".join(text.replace("|", "/").split())[:300]
