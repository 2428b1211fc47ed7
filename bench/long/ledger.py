"""The ledger of the long runs: a line of JSON for each piece, in ``docs/reports/long-runs.jsonl``.

A piece counts for the code that it ran on: the last commit that changed what an event passes on its way, more of it
than docstrings. A run on the embedded backend counts though the journal on Kafka changes, which it never loads, and a
test that stays within its own process as long as nothing changes that it imports.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bench.long.changes import ABBREVIATED, changes, git

ROOT = Path(__file__).parents[2]
PATH = ROOT / "docs/reports/long-runs.jsonl"
BESIDE = (
    "api",
    "bench",
    "cli",
    "control",
    "features",
    "insights",
    "journal/damaged.py",
    "privacy/model.py",
    "privacy/requests.py",
    "privacy/search.py",
    "simulation",
    "transfer",
    "web",
)
"""Names what an event does not pass: a new page makes no old run worthless. ``transfer`` is loaded by a move alone, and
these of ``privacy`` by control."""
ON_KAFKA = "journal/kafka"
"""Name what is loaded on that backend alone."""
IMPORTED = """
import importlib, sys
importlib.import_module(sys.argv[1])
files = {getattr(module, "__file__", None) for name, module in sys.modules.items() if name.split(".")[0] == "hookline"}
print(*sorted(filter(None, files)), sep="\\n")
"""
FLUSHES = 100
FLUSHED_BYTES = 4096


class Piece(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One part of a run, as it was made."""

    run: str
    amount: float
    """In the unit of the run: kills, minutes …"""
    code: str
    """The commit that last changed what an event passes."""
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
    measured = all_but(*BESIDE)
    if git(root, "status", "--porcelain", *measured):
        raise RuntimeError("src/hookline has changes: commit them first, or nobody can say what was measured")
    return _last_change(root, measured)


def all_but(*names: str) -> tuple[str, ...]:
    """Return the product's code without these files and folders, as git is given it."""
    return "--", "src/hookline", *(f":(exclude)src/hookline/{name}" for name in names)


def embedded(root: Path = ROOT) -> frozenset[str]:
    """Return the commits since the last one that changed what an event passes on the embedded backend, that one
    first."""
    return _since(_last_change(root, all_but(*BESIDE, ON_KAFKA)), root)


def since(module: str, root: Path = ROOT) -> frozenset[str]:
    """Return the commits since the last one that changed a file of src/hookline that a test imports, that one first."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, module], cwd=root, check=True, capture_output=True, text=True
    )
    return _since(_last_change(root, ("--", *done.stdout.split())), root)


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


def _since(commit: str, root: Path) -> frozenset[str]:
    return frozenset(
        (commit, *git(root, "rev-list", "--abbrev-commit", f"--abbrev={ABBREVIATED}", f"{commit}..HEAD").split())
    )


def _last_change(root: Path, paths: Sequence[str]) -> str:
    return next(changes(root, paths))
