"""The one way a command fails: a sentence that says what to do next, and an exit code."""

from __future__ import annotations


class CommandFailed(Exception):
    """A command could not do its work; printed to standard error as it is, without a traceback."""

    def __init__(self, sentence: str, exit_code: int = 1) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code
