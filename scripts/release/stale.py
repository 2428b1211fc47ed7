"""What keeps a release from being made: each function returns sentences, and no sentence means fresh."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.long import ledger
from bench.long.changes import changes
from bench.long.runs import codes, unfinished

from scripts.release.packages import run, uv

MADE = r"Made on |Written by .* on |\| 20[0-9]{2}-[0-9]{2}-[0-9]{2}"
"""The line of a report that says when it was made: the commit that changed it last is what was measured."""
REPORTS = "docs/reports"
MEASURED = ("--", "src/hookline")
OF_EVENTS = ("crash", "faults", "isolation", "scale")
"""Reports of what becomes of events: code that no event passes, such as a page's, makes none of them old."""
BY_DIGEST = "long-runs"
"""The report of the ledger, which knows the code of each piece itself (``long_runs``)."""
GENERATORS = ("tests.docs.api_page", "scripts.release.third_party")
GENERATED = ("docs", "THIRD_PARTY.md")


def git(root: Path, *words: str) -> str:
    """Run git in the repository."""
    # At the beginning of a line, a space may be part of what is said.
    return run(["git", *words], root).rstrip()


def tree(root: Path, version: str) -> list[str]:
    """Return what is wrong with the checkout: a release is of main, as committed, and of a version once."""
    problems = []
    if changed := git(root, "status", "--porcelain"):
        problems.append(f"not committed: {', '.join(line[3:] for line in changed.splitlines()[:10])}")
    if (branch := git(root, "branch", "--show-current")) != "main":
        problems.append(f"on {branch or 'no branch'}, not on main")
    if git(root, "tag", "--list", f"v{version}"):
        problems.append(f"the tag v{version} is there already")
    return problems


def generated(root: Path, python: Path, generators: Sequence[str] = GENERATORS) -> list[str]:
    """Write the generated pages in a copy of the commit, and return those that come out differently."""
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "copy"
        run(["git", "clone", "--quiet", "--shared", root, copy], root)
        for generator in generators:
            run([python, "-m", generator], copy, {"PYTHONPATH": f"{copy}/src:{copy}"})
        changed = git(copy, "status", "--porcelain", *GENERATED)
    return [f"{line.split()[-1]} is not what its command writes: make reference" for line in changed.splitlines()]


def locks(root: Path) -> list[str]:
    """Resolve every lock file again, keeping its versions, and return those that come out differently.

    Where no index is reached, that is said and is no reason to refuse: CI installs from the same files.
    """
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "copy"
        run(["git", "clone", "--quiet", "--shared", root, copy], root)
        try:
            run(["sh", "scripts/lock.sh", "--keep"], copy, {"PATH": f"{uv().parent}:{os.environ['PATH']}"})
        except RuntimeError as error:
            if not re.search(r"fetch|connect|network|timed out", str(error), re.IGNORECASE):
                raise
            print(f"release: lock files could not be resolved again: {error}")
            return []
        changed = git(copy, "status", "--porcelain")
    return [f"{line.split()[-1]} is not what its inputs resolve to: make lock" for line in changed.splitlines()]


def reports(root: Path) -> list[str]:
    """Return the reports that were measured on other code, or that do not say when they were."""
    problems = []
    for path in sorted((root / REPORTS).glob("*.md")):
        name = str(path.relative_to(root))
        commit = git(root, "log", "-1", "--format=%h", f"-G{MADE}", "--", name)
        if not re.search(MADE, path.read_text()) or not commit:
            problems.append(f"{name} does not say when it was made")
            continue
        if path.stem == BY_DIGEST:
            continue
        measured = ledger.all_but(*ledger.BESIDE) if path.stem in OF_EVENTS else MEASURED
        since = sum(1 for _ in changes(root, measured, commit))
        if since:
            problems.append(f"{name} was measured at {commit}; {since} commits have changed the code since")
    return problems


def long_runs() -> list[str]:
    """Return the long runs of which not all that is wanted was made on this code."""
    return [
        f"long run {run.name}: {made:g} of {run.aim:g} {run.unit} on this code: make long"
        for run, made in unfinished(ledger.read(), codes())
    ]
