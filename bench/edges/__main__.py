"""``python -m bench.edges``: play the balancers and the receivers, print one table, and with ``--write`` the report.

``--only WORD`` plays what has the word in its name (``front``, ``receiver``, ``rested`` are words of all of each).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from bench.edges import before, behind, report, rested
from bench.edges.receivers import RECEIVERS

REPORT = Path(__file__).parents[2] / "docs" / "reports" / "edges.md"


def main(arguments: list[str]) -> int:
    """Play what was asked for; exit code 1 when an aim was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.edges")
    parser.add_argument("--only", default="", metavar="WORD", help="play only what has it in its name")
    parser.add_argument("--write", action="store_true", help=f"write {REPORT.name}")
    parser.add_argument("--events", type=int, default=20, help="events of each receiver")
    parser.add_argument("--restarts", type=int, default=10, help="restarts behind each front")
    parser.add_argument("--rate", type=float, default=1_000.0, help="calls a second meanwhile")
    asked = parser.parse_args(arguments)
    fronts = [cell for cell in before.cells(asked.restarts, asked.rate) if asked.only in f"front {cell.name}"]
    odds = [odd for odd in RECEIVERS if asked.only in f"receiver {odd.name}"]
    kinds = [kind for kind in rested.KINDS if asked.only in f"rested {kind.name}"]
    with tempfile.TemporaryDirectory(prefix="hookline-edges-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # Apache's workers are another user
        rows = [_told(cell.play(folder / f"front{number}")) for number, cell in enumerate(fronts)]
        receivers = behind.play(folder / "receivers", odds, asked.events) if odds else []
        resting = rested.play(folder / "rested", kinds) if kinds else []
    print(report.tables(rows, receivers, resting))
    if asked.write:
        REPORT.write_text(report.page(rows, receivers, resting, asked.restarts, asked.rate))
    return int(not all(row.is_met for row in [*rows, *receivers, *resting]))


def _told(row: before.Before) -> before.Before:
    print(f"{row.front}: {row.what}: {row.counts()}", file=sys.stderr, flush=True)
    return row


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
