"""``python -m bench paired --other PROGRAM``: ``hookline bench all`` of another version and of this one, in turn.

PROGRAM is the other version's ``bin/hookline``, in an environment of its own. Each pair is kept as it is made, so a run
that was ended goes on; the page has the median of each figure, and of its ratio within a pair.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from bench.page import Page, Section
from hookline.bench.machine import leave_on_sigterm
from hookline.bench.run import FAULTS, SECONDS

Round = dict[str, float]
"""The figures of one ``hookline bench all``."""

PAIRS = 8
PAUSE_SECONDS = 3
RESAMPLES = 2_000
CPU_MAX, RATE_MIN = 1.03, 0.95
PROSE = """\
Everything that `hookline bench all` measures, of {name} and of this version in turn on one machine, {pairs} times.
*Ratio* is the median of the ratios within a pair, with the interval that holds it in 95 % of 2,000 resamplings: speed
of the machine that changes from minute to minute meets both. A figure of CPU or time is better when it is less, a rate
when it is more. *Worse* says that the whole interval is beyond 3 % more CPU, or below 5 % less throughput."""


class Pair(msgspec.Struct, frozen=True):
    """Hold what the two measured one after the other."""

    other: Round
    this: Round


def main(arguments: Sequence[str]) -> int:
    """Measure what is missing and write the page."""
    parser = argparse.ArgumentParser(prog="python -m bench paired", description=__doc__)
    parser.add_argument("--other", type=Path, required=True, metavar="PROGRAM", help="the other version's hookline")
    parser.add_argument("--name", required=True, help="what the page calls it: a version or a commit")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="in all, those kept included (%(default)s)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="length of each measurement")
    parser.add_argument("--kept", type=Path, default=Path("build/paired.json"), help="where pairs are kept")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page to this file")
    asked = parser.parse_args(arguments)
    leave_on_sigterm()
    kept = asked.kept.read_bytes() if asked.kept.exists() else b"{}"
    known = msgspec.json.decode(kept, type=dict[str, list[Pair]])
    pairs = known.setdefault(asked.name, [])
    this = Path(sys.executable).with_name("hookline")
    while len(pairs) < asked.pairs:
        # Who comes first meets a cooler machine: they take turns.
        order = (asked.other, this) if len(pairs) % 2 else (this, asked.other)
        found = {program: _measured(program, asked.seconds) for program in order}
        pairs.append(Pair(found[asked.other], found[this]))
        asked.kept.parent.mkdir(parents=True, exist_ok=True)
        asked.kept.write_bytes(msgspec.json.encode(known))
        print(f"{len(pairs)} of {asked.pairs} pairs", file=sys.stderr, flush=True)
    found_page = page(asked.name, pairs)
    found_page.print()
    if asked.write is not None:
        found_page.write(asked.write)
    return 0


def page(name: str, pairs: Sequence[Pair]) -> Page:
    """The table of all figures that both have, faults aside unless there were any."""
    names = [each for each in pairs[0].this if all(each in pair.other and each in pair.this for pair in pairs)]
    counted = [each for each in names if not each.endswith(FAULTS)]
    faults = {
        each: sum(pair.this[each] for pair in pairs)
        for each in pairs[0].this
        if each.endswith(FAULTS) and any(pair.this.get(each) for pair in pairs)
    }
    rows = tuple(_row(each, pairs) for each in counted if all(pair.other[each] > 0 for pair in pairs))
    columns = ("figure", name, "this version", "ratio", "95 % of resamplings", "")
    sections = [Section(title="Figures", columns=columns, rows=rows)]
    sections.append(Section(title="Lost, twice, wrongly signed or refused", prose=_said(faults)))
    return Page(
        title=f"Compared with {name}",
        prose=PROSE.format(name=name, pairs=len(pairs)),
        command=f"python -m bench paired --other PROGRAM --name {name}",
        sections=tuple(sections),
        checks=(),
    )


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """Return the bounds between which the median lies in 95 % of resamplings; the same for the same ratios."""
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    return medians[RESAMPLES // 40], medians[-RESAMPLES // 40]


def verdict(figure: str, low: float, high: float) -> str:
    """Return ``worse`` or ``better`` where the whole interval says so."""
    if "per_second" in figure:
        return "worse" if high < RATE_MIN else "better" if low > 1 / RATE_MIN else ""
    return "worse" if low > CPU_MAX else "better" if high < 1 / CPU_MAX else ""


def _row(figure: str, pairs: Sequence[Pair]) -> tuple[str, ...]:
    ratios = [pair.this[figure] / pair.other[figure] for pair in pairs]
    low, high = interval(ratios)
    middle = [statistics.median(getattr(pair, side)[figure] for pair in pairs) for side in ("other", "this")]
    said = "" if figure.startswith(("wrk", "nginx")) or figure.endswith("ratio") else verdict(figure, low, high)
    return (
        figure,
        *(f"{value:,.0f}" if value >= 1000 else f"{value:.3g}" for value in middle),
        f"{statistics.median(ratios):.2f}",
        f"{low:.2f} to {high:.2f}",
        said,
    )


def _said(faults: Mapping[str, float]) -> str:
    return ", ".join(f"{name}: {count:,.0f}" for name, count in faults.items()) or "None, in no run of this version."


def _measured(program: Path, seconds: float) -> Round:
    with TemporaryDirectory(prefix="hookline-paired-") as folder:
        figures = Path(folder) / "figures.json"
        words = [str(program), "bench", "all", "--seconds", f"{seconds:g}", "--json", str(figures)]
        # What was lost or refused is among the figures; it ends with 1 then.
        time.sleep(PAUSE_SECONDS)
        subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        found: dict[str, Round] = msgspec.json.decode(figures.read_bytes())["figures"]
        return {name: value for scenario in found.values() for name, value in scenario.items()}
