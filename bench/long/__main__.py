"""``python -m bench.long``: go on with the runs that take hours.

Makes a piece of the run that is least far, notes it in the ledger, writes the pages, and goes on until the time is over
or everything wanted has been made on this code. A piece that is cut short is not noted. Ends with 1 when something was
lost or failed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from bench.long import ledger, pages
from bench.long.ledger import Piece
from bench.long.runs import RUNS, Codes, Run, codes, is_bad, unfinished
from hookline.bench.machine import leave_on_sigterm

ERROR_CHARACTERS = 1_000


def main(arguments: list[str]) -> int:
    """Read the options and do it."""
    names = [run.name for run in RUNS]
    parser = argparse.ArgumentParser(prog="python -m bench.long", description=__doc__, epilog=f"runs: {names}")
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no piece after so many (%(default)g)")
    parser.add_argument("--only", action="append", choices=names, metavar="RUN", help="may be repeated")
    parser.add_argument("--again", action="store_true", help="also what failed on this code")
    parser.add_argument("--write", action="store_true", help="write the pages, and make nothing")
    asked = parser.parse_args(arguments)
    leave_on_sigterm()
    now = codes()
    found: list[Piece] = []
    ends = time.monotonic() + asked.minutes * 60
    while not asked.write and time.monotonic() < ends:
        pieces = ledger.read()  # others may make pieces of other runs meanwhile
        run = _next(pieces, now, asked.only, found if asked.again else pieces)
        if run is None:
            break
        found.append(_made(run, now[run.name], sum(piece.run == run.name for piece in pieces)))
        ledger.append(found[-1])
        pages.write(ledger.read(), now)
        print(f"{found[-1].began} {run.name} {found[-1].amount:g} {run.unit}: {_said(found[-1])}", flush=True)
    pages.write(ledger.read(), now)
    return int(any(is_bad(piece) for piece in found))


def _next(pieces: Sequence[Piece], codes: Codes, only: Sequence[str] | None, tried: Sequence[Piece]) -> Run | None:
    """The run that is least far on this code; what failed on it when it was tried waits for other code."""
    failed = {piece.run for piece in tried if piece.code == codes[piece.run] and is_bad(piece)}
    wanted = [
        (amount / run.aim, number, run)
        for number, (run, amount) in enumerate(unfinished(pieces, codes))
        if (only is None or run.name in only) and run.name not in failed
    ]
    return min(wanted)[2] if wanted else None


def _made(run: Run, code: str, before: int) -> Piece:
    began, load = ledger.now(), os.getloadavg()[0]
    with TemporaryDirectory(prefix="hookline-long-") as name:
        folder = Path(name)
        flush_us = ledger.flush_us(folder)
        started = time.monotonic()
        try:
            outcome = run.play(run.piece, before, folder)
        except RuntimeError as error:
            outcome = {"failures": [str(error)[:ERROR_CHARACTERS]]}
    # Where the repository lies is of no use to others.
    failures = [failure.replace(f"{ledger.ROOT}/", "") for failure in outcome.get("failures", ())]
    noted = {
        "run": run.name,
        "amount": run.piece,
        "code": code,
        "began": began,
        "seconds": round(time.monotonic() - started, 1),
        "load": round(load, 2),
        "flush_us": round(flush_us, 1),
    }
    return msgspec.convert({**noted, **outcome, "failures": failures}, Piece)


def _said(piece: Piece) -> str:
    summed_up = (
        f"{piece.owed:,} owed, {piece.lost:,} lost, {piece.twice:,} twice, {piece.seconds:.0f} s; {piece.remark}"
    )
    return f"FAILED {' '.join(piece.failures)}" if piece.failures else summed_up


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
