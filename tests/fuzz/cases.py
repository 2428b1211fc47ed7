"""Numbered cases: each has random numbers of its own, so that a failing one is found again by its number alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from typing import NamedTuple


class Cases(NamedTuple):
    """Which cases to run: the first ``count`` ones, or when ``seconds`` are given as many as fit; or just ``only``."""

    seed: int = 0
    seconds: float | None = None
    only: int | None = None

    def run(self, name: str, count: int, case: Callable[[Random], object]) -> int:
        """Run the cases of this name; return how many there were. A failure says which one it was."""
        ends = None if self.seconds is None else time.monotonic() + self.seconds
        number = self.only or 0
        while True:
            try:
                case(Random(f"{name}/{self.seed}/{number}"))
            except BaseException as error:
                error.add_note(f"{name}: again with --fuzz-seed {self.seed} --fuzz-case {number}")
                raise
            number += 1
            if self.only is not None or (number >= count if ends is None else time.monotonic() >= ends):
                return number
