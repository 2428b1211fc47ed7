"""``python -m bench peers``: measure every service whose program is given, round by round, and write the report.

What a round found of a service is kept at once, so a run that was ended goes on where it was.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from bench.job_queues import Missing
from bench.peers import report, stores
from bench.peers.measure import Figures, measure
from bench.peers.services import Convoy, Hookline, Outpost, Svix
from hookline.bench import machine
from hookline.bench.machine import leave_on_sigterm

ROUNDS = 3
SECONDS = 8.0
ROOT = Path(__file__).resolve().parents[2]
PEERS: tuple[type[Hookline] | type[Svix] | type[Outpost] | type[Convoy], ...] = (Hookline, Svix, Outpost, Convoy)


def main(arguments: list[str]) -> int:
    """Measure, and write what is asked for; 1 when something is not installed or an accepted event was lost."""
    parser = argparse.ArgumentParser(prog="python -m bench peers", description=__doc__)
    for peer in PEERS[1:]:
        parser.add_argument(f"--{peer.name}", default="", metavar="PROGRAM", help=f"{peer.title}'s server")
        parser.add_argument(
            f"--{peer.name}-commit", default="", metavar="NAME", help="version and commit it is built of"
        )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds; the median of each figure counts")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="length of each load")
    parser.add_argument(
        "--kept",
        type=Path,
        default=Path(tempfile.gettempdir()) / "hookline-peers",
        metavar="FOLDER",
        help="where rounds are kept until the report is written",
    )
    parser.add_argument(
        "--write", type=Path, metavar="PAGE", help="write the report, its data, and the tables made of it"
    )
    asked = parser.parse_args(arguments)
    leave_on_sigterm()
    chosen = [peer for peer in PEERS if peer is Hookline or getattr(asked, peer.name)]
    if missing := [name for name in ("nginx", "wrk") if machine.tool(name) is None]:
        print(f"this needs {' and '.join(missing)}", file=sys.stderr)
        return 1
    asked.kept.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[Figures]] = {peer.name: [] for peer in chosen}
    loads, flushes = [], []
    try:
        for number in range(asked.rounds):
            # In rotation, so that a slow minute of the machine meets all of them.
            turn = number % len(chosen)
            for peer in chosen[turn:] + chosen[:turn]:
                program = getattr(asked, peer.name, "")
                done = _kept(
                    asked.kept / f"{number + 1}-{peer.name}-{asked.seconds:g}.json", peer, program, asked.seconds
                )
                found[peer.name].append(done.figures)
                loads.append(done.load_before)
                flushes.append(done.flush_seconds)
    except Missing as missing_program:
        print(missing_program, file=sys.stderr)
        return 1
    built = {peer.name: getattr(asked, f"{peer.name}_commit", "") for peer in chosen}
    made = report.summarise(
        found, built, seconds=asked.seconds, busy_cores=max(loads), flush_seconds=statistics.median(flushes)
    )
    report.page(made).print()
    if asked.write is not None:
        report.write(made, asked.write, ROOT)
        shutil.rmtree(asked.kept)
    return int(any(figures.killed_lost for rounds in found.values() for figures in rounds))


class Round(msgspec.Struct):
    """One service in one round, and the machine just before."""

    figures: Figures
    load_before: float
    flush_seconds: float


def _kept(file: Path, peer: type, program: str, seconds: float) -> Round:
    """Return what was found before under this name, or measure it now."""
    if file.exists():
        return msgspec.json.decode(file.read_bytes(), type=Round)
    print(f"measuring {file.stem} …", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="hookline-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        load = _others()
        flush = stores.flush_seconds(folder)
        with peer(folder, str(Path(program).resolve()) if program else "") as entered:
            figures = measure(entered, folder, seconds)
    done = Round(figures, load, flush)
    file.with_suffix(".new").write_bytes(msgspec.json.encode(done))
    file.with_suffix(".new").replace(file)
    return done


def _others() -> float:
    """Return how many cores others use while this rests, over a second."""

    def busy() -> float:
        fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
        return (sum(map(int, fields)) - int(fields[3]) - int(fields[4])) / os.sysconf("SC_CLK_TCK")

    before = busy()
    time.sleep(1.0)
    return busy() - before


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
