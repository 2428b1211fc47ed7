"""Plays the book of behaviour against a library's driver; README.md beside this file says what both have to do."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

from driver_process import DriverFailed, DriverProcess
from player import Failed, Player

BOOK = Path(__file__).parent / "book"
ASK_SECONDS = 30.0
JOBS = 4
"""Most cases wait for most of their time, so more than there are cores."""


class Library(NamedTuple):
    """What a driver says about its library."""

    language: str
    version: str
    consumers: tuple[str, ...]
    features: frozenset[str]
    usual: str
    reads_answers: tuple[str, ...]
    options: dict[str, frozenset[str]]

    def has(self, need: str, consumer: str) -> bool:
        """Tell if the library has a feature, or the consumer an option of that name."""
        return need == "answers" or need in self.features or need in self.options[consumer]

    def meant(self, case: dict[str, Any], consumer: str) -> dict[str, Any]:
        """Return a case about answers with ``debug``, if that is how a consumer reads them."""
        if "answers" not in case.get("needs", []) or consumer in self.reads_answers:
            return case
        return {**case, "options": {**case.get("options", {}), "debug": True}}


class Play(NamedTuple):
    """A case and whom it is played for."""

    name: str
    case: dict[str, Any]
    consumer: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    given = _parser().parse_args(arguments)
    try:
        library = describe(given.driver)
    except (DriverFailed, OSError) as error:
        print(f"the driver cannot be asked: {error}", file=sys.stderr)
        return 2
    plays, left_out = select(library, load(given.book), given.only)
    if given.list:
        print(*[play.name for play in plays], sep="\n")
        return 0
    print(f"{library.language} {library.version}: {', '.join(library.consumers)}")
    failed = run(plays, library, given)
    if left_out:
        print(f"{left_out} cases left out: they are about consumers or features that this library does not have")
    print(f"{len(plays) - failed} passed, {failed} failed")
    return 1 if failed or not plays else 0


def load(book: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return all cases, each with the name of its chapter."""
    chapters = sorted(book.glob("*.json"))
    return [(file.stem, case) for file in chapters for case in json.loads(file.read_text(encoding="utf-8"))]


def describe(command: str) -> Library:
    """Ask the driver what its library has."""
    driver = DriverProcess(command, {}, "the driver")
    deadline = time.monotonic() + ASK_SECONDS
    try:
        said = driver.ask({"do": "describe"}, deadline)
        consumers = tuple(said["consumers"])
        options = {
            consumer: frozenset(driver.ask({"do": "defaults", "consumer": consumer}, deadline).get("options", {}))
            for consumer in consumers
        }
    except DriverFailed as error:
        driver.kill()
        raise DriverFailed(f"{error}\n{driver.said()}") from None
    finally:
        driver.kill()
    return Library(
        language=said["language"],
        version=said["version"],
        consumers=consumers,
        features=frozenset(said["features"]),
        usual="background" if "background" in consumers else said["default_consumer"],
        reads_answers=tuple(said["reads_answers"]),
        options=options,
    )


def select(library: Library, cases: list[tuple[str, dict[str, Any]]], only: str) -> tuple[list[Play], int]:
    """Return what is to be played, and how many cases the library is not meant by."""
    plays: list[Play] = []
    left_out = 0
    for chapter, case in cases:
        wanted = case.get("consumers", [library.usual])
        able = [
            consumer
            for consumer in wanted
            if consumer in library.consumers and all(library.has(need, consumer) for need in case.get("needs", []))
        ]
        named = [
            Play(f"{chapter}: {case['name']} [{consumer}]", library.meant(case, consumer), consumer)
            for consumer in able
        ]
        plays += [play for play in named if only in play.name]
        left_out += not able and only in f"{chapter}: {case['name']}"
    return plays, left_out


def run(plays: list[Play], library: Library, given: argparse.Namespace) -> int:
    """Play, print what failed, and return how many did."""
    failed = 0
    with ThreadPoolExecutor(max_workers=given.jobs) as pool:
        running: dict[Future[float], Play] = {
            pool.submit(
                Player(play.case, play.consumer, given.driver, play.consumer in library.reads_answers).play
            ): play
            for play in plays
        }
        for future in as_completed(running):
            play = running[future]
            try:
                seconds = future.result()
            except Failed as error:
                failed += 1
                print(f"FAILED {play.name}\n{_indented(play.case['why'])}\n{_indented(str(error))}\n", flush=True)
            else:
                if given.verbose:
                    print(f"passed {play.name} ({seconds:.1f} s)", flush=True)
    return failed


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="play.py", description="Plays the book of behaviour against a library.")
    parser.add_argument("--driver", required=True, metavar="COMMAND", help="the command that starts the driver")
    parser.add_argument("--only", default="", metavar="WORD", help="play the cases whose name holds the word")
    parser.add_argument("--list", action="store_true", help="print the names of the cases and play none")
    parser.add_argument("--jobs", type=int, default=JOBS, metavar="N", help="cases at once (default %(default)s)")
    parser.add_argument("--verbose", action="store_true", help="print the cases that passed too, with their time")
    parser.add_argument("--book", type=Path, default=BOOK, metavar="FOLDER", help="chapters (default: those beside it)")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
