"""The ledger of the long runs: a line of JSON for each piece, in ``docs/reports/long-runs.jsonl``.

A piece counts for the code that it ran on: the last commit that changed what an event passes on its way.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[2]
PATH = ROOT / "docs/reports/long-runs.jsonl"
BESIDE = ("api", "bench", "cli", "control", "features", "insights", "journal/damaged.py", "simulation", "web")
"""What an event does not pass: a new page makes no old run worthless."""
FLUSHES = 100
FLUSHED_BYTES = 4096


class Piece(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One part of a run, as it was made."""

    run: str
    amount: float
    """In the unit of the run: kills, minutes …"""
    code: str
    """The commit that last changed what the run is about."""
    began: str
    """ISO 8601."""
    seconds: float
    load: float
    """Of the machine in the minute before, in cores."""
    flush_us: float
    """How long ``fdatasync`` takes, the median."""
    owed: int = 0
    """Deliveries."""
    lost: int = 0
    twice: int = 0
    restarts: tuple[float, ...] = ()
    """Seconds until all was ready."""
    remark: str = ""
    failures: tuple[str, ...] = ()


def read(path: Path = PATH) -> list[Piece]:
    """Return all pieces, in the order in which they were made."""
    if not path.exists():
        return []
    return [msgspec.json.decode(line, type=Piece) for line in path.read_bytes().splitlines()]


def append(piece: Piece, path: Path = PATH) -> None:
    """Add a piece for good."""
    with path.open("ab") as file:
        file.write(msgspec.json.encode(piece) + b"\n")


def code(root: Path = ROOT) -> str:
    """Return the commit of what is measured; RuntimeError where that is not committed."""
    measured = ("--", "src/hookline", *(f":(exclude)src/hookline/{name}" for name in BESIDE))
    if _git(root, "status", "--porcelain", *measured):
        raise RuntimeError("src/hookline has changes: commit them first, or nobody can say what was measured")
    return _git(root, "log", "-1", "--format=%h", "--abbrev=8", *measured)


def now() -> str:
    """Return the time as the ledger has it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def flush_us(folder: Path) -> float:
    """Return the median of ``fdatasync`` on this machine, in microseconds."""
    path = folder / "flushed"
    with path.open("wb", buffering=0) as file:
        took = []
        for _ in range(FLUSHES):
            file.write(b"x" * FLUSHED_BYTES)
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - began)
    path.unlink()
    return statistics.median(took) * 1e6


def _git(root: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True).stdout.strip()
