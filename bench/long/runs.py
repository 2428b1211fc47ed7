"""Every long run: how much of it is wanted, and the command that makes a piece of it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bench.long import ledger
from bench.long.ledger import Piece

CANARY = "tests/unit/deliver/test_egress_canary.py"
WORLDS_FROM = 1_000_000
"""Far above the seeds of CI, and among those that may have all faults and features."""
FAILURE_CHARACTERS = 2_000

Outcome = Mapping[str, Any]
"""Fields of a Piece."""


class Run(NamedTuple):
    """One of them. ``play`` makes a piece in a folder that is empty, for the given number of pieces made before."""

    name: str
    title: str
    unit: str
    aim: float
    piece: float
    """About five minutes of it, but all of a soak: a slope needs hours."""
    play: Callable[[float, int, Path], Outcome]
    imports: str | None = None
    """The module of a test that starts no process: what it imports is all that it tries."""
    on_kafka: bool = False


def crash(kind: str) -> Callable[[float, int, Path], Outcome]:
    """Some cycles of one kind of the crash report."""

    def play(amount: float, _: int, folder: Path) -> Outcome:
        result = _json(folder, "bench.crash", "--only", kind, "--cycles", f"{amount:g}")
        (score,) = result["scores"]
        if score["not_run"] is not None:
            raise RuntimeError(score["not_run"])
        failures = score["failures"] + ([] if score["expected"] else ["nothing was sent"])
        if score["loses_on_purpose"] and not score["lost"]:
            failures.append("the control run lost nothing")
        return {
            "owed": score["expected"],
            "lost": score["lost"],
            "twice": score["duplicates"],
            "restarts": score["restart_seconds"],
            "remark": score["remark"],
            "failures": failures,
        }

    return play


def soak(backend: str) -> Callable[[float, int, Path], Outcome]:
    """Some minutes of a soak."""

    def play(amount: float, before: int, folder: Path) -> Outcome:
        words = ("--backend", backend, "--minutes", f"{amount:g}", "--seed", str(before))
        result = _json(folder, "tests.faults.soak", *words)
        return {
            **{name: result[name] for name in ("owed", "lost", "twice", "failures")},
            "remark": "; ".join(map(_process, result["processes"])),
        }

    return play


def fuzz(test: str) -> Callable[[float, int, Path], Outcome]:
    """Some minutes of one test of tests/fuzz, with cases that no piece before had."""

    def play(amount: float, before: int, _: Path) -> Outcome:
        options = ("--fuzz-seconds", f"{amount * 60:g}", "--fuzz-seed", str(before + 1), "--timeout", "0")
        done = _module("pytest", f"tests/fuzz/{test}", "-q", "-s", "-p", "no:cacheprovider", *options)
        counted = re.search(r"^\.?(\d+ [a-z ]+)$", done.stdout, re.MULTILINE)
        return {"remark": counted[1] if counted else "", "failures": _failures(done)}

    return play


def worlds(amount: float, before: int, _: Path) -> Outcome:
    """Seeds that no piece before had."""
    first = WORLDS_FROM + round(before * amount)
    return {"failures": _failures(_module("tests.worlds", "--seeds", f"{amount:g}", "--first", str(first)))}


def guard(_: float, __: int, ___: Path) -> Outcome:
    """Every spelling and every name that moves, tried on the address guard."""
    return {"failures": _failures(_module("pytest", CANARY, "-q", "-p", "no:cacheprovider"))}


RUNS = (
    Run("random-kills", "everything killed at a random moment", "kills", 300, 60, crash("random-kills")),
    Run(
        "kills-with-backlog",
        "everything killed beside a backlog and a receiver that fails or hangs",
        "kills",
        500,
        50,
        crash("kills-with-backlog"),
    ),
    # Three kills a cycle.
    Run("kills-recovering", "everything killed while it recovers", "cycles", 34, 17, crash("kills-recovering")),
    Run("kills-of-collect", "collect alone killed", "kills", 50, 50, crash("kills-of-collect")),
    Run("kills-of-deliver", "deliver alone killed", "kills", 50, 50, crash("kills-of-deliver")),
    Run("points", "killed at every named point between two durable steps", "rounds", 10, 1, crash("points")),
    Run("power-cuts", "power cut", "cuts", 400, 50, crash("power-cuts")),
    Run("power-cuts-catching-up", "power cut while catching up", "cuts", 100, 20, crash("power-cuts-catching-up")),
    Run(
        "power-cuts-without-fsync",
        "power cut without fsync (control, has to lose)",
        "cuts",
        10,
        5,
        crash("power-cuts-without-fsync"),
    ),
    Run("full-disk", "the disk full", "seconds", 600, 300, crash("full-disk")),
    Run(
        "failed-calls-of-collect",
        "calls fail under collect, each of a script in turn",
        "rounds",
        5,
        5,
        crash("failed-calls-of-collect"),
    ),
    Run(
        "failed-calls-of-deliver",
        "calls fail under deliver, each of a script in turn",
        "rounds",
        5,
        5,
        crash("failed-calls-of-deliver"),
    ),
    Run("clock-jumps", "the clock jumps by an hour, four times", "rounds", 5, 1, crash("clock-jumps")),
    Run("soak-embedded", "soak on the embedded backend", "minutes", 120, 120, soak("embedded")),
    Run("soak-kafka", "soak on Kafka and PostgreSQL", "minutes", 120, 120, soak("kafka"), on_kafka=True),
    Run(
        "fuzz-collect",
        "fuzzing: collect's port",
        "minutes",
        60,
        10,
        fuzz("test_collect_edge.py"),
        "tests.fuzz.test_collect_edge",
    ),
    Run(
        "fuzz-answers",
        "fuzzing: receivers' answers",
        "minutes",
        60,
        10,
        fuzz("test_answer_parser.py"),
        "tests.fuzz.test_answer_parser",
    ),
    Run("fuzz-service", "fuzzing: a running service", "minutes", 60, 10, fuzz("test_living_service.py")),
    Run("fuzz-control", "fuzzing: control's port", "minutes", 60, 10, fuzz("test_control_edge.py")),
    Run(
        "fuzz-files",
        "fuzzing: connections files",
        "minutes",
        60,
        10,
        fuzz("test_connections_files.py"),
        "tests.fuzz.test_connections_files",
    ),
    Run("fuzz-mappings", "fuzzing: mappings", "minutes", 60, 10, fuzz("test_mappings.py"), "tests.fuzz.test_mappings"),
    Run(
        "fuzz-expressions",
        "fuzzing: expressions",
        "minutes",
        60,
        10,
        fuzz("test_expressions.py"),
        "tests.fuzz.test_expressions",
    ),
    Run(
        "fuzz-journal",
        "fuzzing: journal recovery",
        "minutes",
        60,
        10,
        fuzz("test_journal_recovery.py"),
        "tests.fuzz.test_journal_recovery",
    ),
    Run("worlds", "seeded runs on a simulated machine", "seeds", 10_000, 500, worlds),
    Run("guard", "12,000 ways to an internal address", "rounds", 1, 1, guard),
)

LOSES_ON_PURPOSE = "power-cuts-without-fsync"


Codes = Mapping[str, str]
"""By the name of a run, the digest of what it tries."""


def codes() -> Codes:
    """Return what the pieces have to be of that count."""
    on_kafka, embedded = ledger.code(), ledger.embedded()
    return {
        run.name: ledger.imported(run.imports) if run.imports else on_kafka if run.on_kafka else embedded
        for run in RUNS
    }


def made(run: Run, pieces: Sequence[Piece], codes: Codes) -> float:
    """Return how much of it went well on this code."""
    return sum(
        each.amount for each in pieces if each.run == run.name and each.code == codes[run.name] and not is_bad(each)
    )


def unfinished(pieces: Sequence[Piece], codes: Codes) -> list[tuple[Run, float]]:
    """Return the runs of which this code has less than is wanted, with how much it has."""
    return [(run, amount) for run in RUNS if (amount := made(run, pieces, codes)) < run.aim]


def is_bad(piece: Piece) -> bool:
    """Return whether something was lost that was not to be, or failed otherwise."""
    return bool(piece.failures) or (piece.lost > 0 and piece.run != LOSES_ON_PURPOSE)


def _module(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", name, *words], capture_output=True, text=True, check=False)


def _failures(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [done.stdout[-FAILURE_CHARACTERS:]] if done.returncode else []


def _json(folder: Path, module: str, *words: str) -> dict[str, Any]:
    path = folder / "outcome.json"
    done = _module(module, *words, "--json", str(path))
    if not path.exists():
        raise RuntimeError(f"{module} ended with {done.returncode}: {done.stderr[-1_000:]}")
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])


def _process(found: Mapping[str, Any]) -> str:
    return (
        f"{found['name']} {found['slope_mb_per_hour']:+.1f} MB/h over {found['minutes']:.0f} min,"
        f" {found['pss_last_mb']:.0f} MB,"
        f" {found['files_last']:g} files"
    )
