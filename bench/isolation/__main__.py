"""``python -m bench.isolation``: make the report on what sick receivers do to healthy ones, within five minutes."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench.isolation.report import RATE_PER_SECOND, SECONDS, run_isolation
from hookline.bench.machine import leave_on_sigterm


def main(arguments: list[str]) -> int:
    """Make the report; 1 when an aim was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.isolation")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="length of each measurement")
    parser.add_argument("--rate", type=float, default=RATE_PER_SECOND, help="events a second")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the report to this file as a page")
    asked = parser.parse_args(arguments)
    leave_on_sigterm()
    return run_isolation(asked.seconds, asked.rate, asked.json, asked.write)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
