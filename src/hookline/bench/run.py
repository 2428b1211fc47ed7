"""``hookline bench``: runs the scenarios, repeats them, and reports medians as a table and as JSON."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from hookline.bench import machine, scenarios
from hookline.bench.rig import Figures
from hookline.cli.admin_api import CommandFailed

Measure = Callable[[float], Figures]
"""Measures for about so many seconds."""

SCENARIOS: dict[str, Measure] = {
    "idle": scenarios.idle,
    "collect": scenarios.collect,
    "deliver": scenarios.deliver,
    "e2e": scenarios.e2e,
    "backlog": scenarios.backlog,
}
SECONDS = 5.0
"""Length of a measurement when nobody says otherwise."""

FAULTS = ("lost", "duplicates", "wrong_signatures", "not_stored", "refused", "faults")
"""A figure whose name ends so counts something that should not happen."""


def run_bench(scenario: str, *, seconds: float, repeat: int, events: int | None = None, json_file: Path | None) -> int:
    """Measure one scenario, or all of them, and report."""
    measures = dict(SCENARIOS)
    if events is not None:
        measures["backlog"] = partial(scenarios.backlog, events=events)
    chosen = measures if scenario == "all" else {scenario: measures[scenario]}
    return measure(chosen, seconds=seconds, repeat=repeat, json_file=json_file)


def measure(measures: Mapping[str, Measure], *, seconds: float, repeat: int, json_file: Path | None) -> int:
    """Measure and report; 1 when something was lost, refused or wrongly signed, else 0 (speed decides nothing)."""
    if json_file is not None:
        try:
            json_file.touch()
        except OSError as error:
            raise CommandFailed(f"cannot write {json_file}: {error.strerror}") from None
    runs: dict[str, list[Figures]] = {name: [] for name in measures}
    for _ in range(max(1, repeat)):
        for name, run in measures.items():  # interleaved, so that a slow minute of the machine meets all of them
            print(f"measuring {name} …", file=sys.stderr, flush=True)
            runs[name].append(run(seconds))
    figures = {name: _medians(repeats) for name, repeats in runs.items()}
    if "deliver" in figures and "e2e" in figures and figures["deliver"].get("wrk_post_per_second"):
        figures["e2e"]["e2e_to_wrk_ratio"] = (
            figures["e2e"]["e2e_per_second"] / figures["deliver"]["wrk_post_per_second"]
        )
    _print_table(figures)
    if json_file is not None:
        report = {"machine": machine.describe(), "seconds": seconds, "repeat": repeat, "figures": figures}
        json_file.write_text(json.dumps(report, indent=2) + "\n")
    return int(any(_is_fault(name) and value > 0 for found in figures.values() for name, value in found.items()))


def _medians(repeats: list[Figures]) -> Figures:
    """Return the median of each figure; of faults the worst, since one loss is a loss."""
    return {
        name: (max if _is_fault(name) else statistics.median)([figures[name] for figures in repeats])
        for name in repeats[0]
    }


def _is_fault(name: str) -> bool:
    return name.endswith(FAULTS)


def _print_table(figures: dict[str, Figures]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="hookline bench", title_justify="left")
    table.add_column("scenario")
    table.add_column("figure")
    table.add_column("value", justify="right")
    for scenario, found in figures.items():
        for index, (name, value) in enumerate(found.items()):
            style = "bold red" if _is_fault(name) and value > 0 else "bold" if name.endswith("ratio") else ""
            table.add_row("" if index else scenario, name, _number(name, value), style=style)
        table.add_section()
    Console(width=None if sys.stdout.isatty() else 100).print(table)


def _number(name: str, value: float) -> str:
    if name.endswith("ratio"):
        return f"{value:.2f}"
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:,.2f}"
