"""What a run tells: progress where a person watches, one line when something is wrong, nothing when all is well.

Schedulers send mail about output, so a run that went well has none unless it is asked for.
"""

from __future__ import annotations

import json
import sys
import time

PROGRESS_SECONDS = 0.1


class Report:
    """Counts of one run, written to standard error; as one JSON object to standard output with ``as_json``."""

    def __init__(self, is_verbose: bool = False, as_json: bool = False) -> None:
        self.acknowledged = 0
        self.set_aside = 0
        self._is_terminal = sys.stderr.isatty() and not as_json
        self._is_verbose = is_verbose or self._is_terminal
        self._as_json = as_json
        self._next_progress = 0.0
        self._problems: list[str] = []

    def progress(self, done_bytes: int, size_bytes: int) -> None:
        """Show how far the file is, on a terminal only."""
        now = time.monotonic()
        if self._is_terminal and (now >= self._next_progress or done_bytes >= size_bytes):
            self._next_progress = now + PROGRESS_SECONDS
            share = 100 * done_bytes // max(1, size_bytes)
            sys.stderr.write(f"\r{share:3d} %  events: {self.acknowledged:,}{self._aside()}\x1b[K")
            sys.stderr.flush()

    def note(self, sentence: str) -> None:
        """Say what a person may want to know and a scheduler need not."""
        if self._is_verbose:
            sys.stderr.write(f"{self._line_end()}hookline-upload: {sentence}\n")

    def problem(self, sentence: str) -> None:
        """Say what is wrong and what to do."""
        self._problems.append(sentence)
        if not self._as_json:
            sys.stderr.write(f"{self._line_end()}hookline-upload: {sentence}\n")

    def problem_once(self, sentence: str) -> None:
        """Say it unless it was said."""
        if sentence not in self._problems:
            self.problem(sentence)

    def end(self, exit_code: int) -> None:
        """Say what was done."""
        if self._as_json:
            counts = {"acknowledged": self.acknowledged, "setAside": self.set_aside}
            sys.stdout.write(json.dumps({**counts, "problems": self._problems, "exitCode": exit_code}) + "\n")
        elif self._is_verbose:
            sys.stderr.write(f"{self._line_end()}events uploaded: {self.acknowledged:,}{self._aside()}\n")

    def _aside(self) -> str:
        return f", lines set aside: {self.set_aside:,}" if self.set_aside else ""

    def _line_end(self) -> str:
        return "\r\x1b[K" if self._is_terminal else ""
