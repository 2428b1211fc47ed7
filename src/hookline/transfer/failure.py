"""The one way a move fails: a sentence that says what to do next."""

from __future__ import annotations


class MoveFailed(Exception):
    """The move cannot go on; what was copied so far stays, and the old data folder is as it was."""

    code = "move_failed"
