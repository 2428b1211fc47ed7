"""The ledger of the long runs: a line of JSON for each piece, in ``docs/reports/long-runs.jsonl``.

A piece counts for the code that it ran on: what an event passes on its way, without docstrings and comments. A run on
the embedded backend counts though the journal on Kafka changes, which it never loads, and a test that stays within its
own process as long as nothing changes that it imports. Code is named by a digest of what runs: a commit may get another
name, or be joined with others, before it is merged.
"""

from __future__ import annotations

import hashlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bench.long.changes import git, what_runs

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
DIGITS = 8
"""Hexadecimal ones of a digest, as the ledger has them."""


class Piece(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One part of a run, as it was made."""

    run: str
    amount: float
    """In the unit of the run: kills, minutes …"""
    code: str
    """The digest of what the run tries."""
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
    """Return the digest of all that an event passes."""
    return _digest(_files(root, all_but(*BESIDE)), root)


def all_but(*names: str) -> tuple[str, ...]:
    """Return the product's code without these files and folders, as git is given it."""
    return "--", "src/hookline", *(f":(exclude)src/hookline/{name}" for name in names)


def embedded(root: Path = ROOT) -> str:
    """Return the digest of what an event passes on the embedded backend."""
    return _digest(_files(root, all_but(*BESIDE, ON_KAFKA)), root)


def imported(module: str, root: Path = ROOT) -> str:
    """Return the digest of the files of src/hookline that a test imports."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, module], cwd=root, check=True, capture_output=True, text=True
    )
    return _digest(map(Path, done.stdout.split()), root)


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


def _files(root: Path, paths: Iterable[str]) -> list[Path]:
    listed = git(root, "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate", *paths)
    return [path for name in listed.splitlines() if (path := root / name).exists()]


def _digest(files: Iterable[Path], root: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(files):
        name = str(path.relative_to(root))
        # What is no text, such as a picture, is compared all the same.
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
        digest.update(f"{name}\0{what_runs(name, text)}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()[:DIGITS]
