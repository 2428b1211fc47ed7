"""``python -m bench.crash``: make the crash report, about five seconds per cycle and some minutes more.

Parts need ``strace``, root with loop devices, or ``libfaketime``; what cannot be done is said in the report.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench.crash.report import CYCLES, FULL_SECONDS, KINDS, RATE_PER_SECOND, Asked, run_crash
from hookline.bench.machine import leave_on_sigterm


def main(arguments: list[str]) -> int:
    """Make the report; 1 when an aim was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.crash")
    parser.add_argument("--only", choices=list(KINDS), metavar="KIND", help=f"this kind alone: {', '.join(KINDS)}")
    parser.add_argument(
        "--cycles", type=int, default=CYCLES, help="kills of everything, two power cuts for every five; with --only its"
    )
    parser.add_argument("--seconds", type=float, default=FULL_SECONDS, help="how long the disk is full")
    parser.add_argument("--rate", type=float, default=RATE_PER_SECOND, help="events a second")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the report to this file as a page")
    leave_on_sigterm()
    return run_crash(Asked(**vars(parser.parse_args(arguments))))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
