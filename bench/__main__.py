"""``python -m bench SCENARIO``: measure what ``hookline bench`` leaves out, with its figures, table and exit code.

``compare`` installs other programs; ``pages``, ``profiles`` and ``deletion`` fill a data folder first; ``beside`` tells
what people cost deliveries, ``fanout`` what many destinations cost, ``far`` what one
receiver far away gets, ``origins`` what receivers cost that are many, sparse and far away, ``floods`` what a hostile
source costs honest ones, ``peers`` how Hookline does beside services like it, and ``paired`` how this version does
beside another.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from bench.beside import beside
from bench.deletion import deletion
from bench.fanout import fanout
from bench.far import far
from bench.floods import floods
from bench.job_queues import Missing, compare
from bench.origins import origins
from bench.pages import pages
from bench.paired import main as paired
from bench.peers.__main__ import main as peers
from bench.people import people
from bench.slow_disk import slow_disk
from bench.tls import tls
from hookline.bench.machine import leave_on_sigterm
from hookline.bench.run import SECONDS, Measure, measure

SCENARIOS: dict[str, Measure] = {
    "compare": compare,
    "beside": beside,
    "fanout": fanout,
    "far": far,
    "floods": floods,
    "slow_disk": slow_disk,
    "origins": origins,
    "tls": tls,
}
FILLING = {"pages": pages, "profiles": people, "deletion": deletion}
"""Those that fill a folder: with how many events, ``--events`` says."""

WITH_OPTIONS = {"paired": paired, "peers": peers}


def main(arguments: list[str]) -> int:
    """Measure what was asked for; 1 when something was lost, refused, wrongly signed, or is not installed."""
    if arguments[:1] and arguments[0] in WITH_OPTIONS:
        return WITH_OPTIONS[arguments[0]](arguments[1:])
    epilog = f"{' and '.join(WITH_OPTIONS)} have options of their own: bench peers --help"
    parser = argparse.ArgumentParser(prog="python -m bench", epilog=epilog)
    parser.add_argument("scenario", choices=[*SCENARIOS, *FILLING])
    parser.add_argument("--seconds", type=float, default=SECONDS, help="length of each measurement")
    parser.add_argument("--repeat", type=int, default=1, help="repeats; the median counts")
    parser.add_argument("--events", type=int, help="events in the folder (default: 1,000,000; profiles 300,000)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file")
    asked = parser.parse_args(arguments)
    leave_on_sigterm()
    given = {} if asked.events is None else {"events": asked.events}
    chosen = SCENARIOS | {name: partial(filling, **given) for name, filling in FILLING.items()}
    try:
        return measure(
            {asked.scenario: chosen[asked.scenario]}, seconds=asked.seconds, repeat=asked.repeat, json_file=asked.json
        )
    except Missing as missing:
        print(missing, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
