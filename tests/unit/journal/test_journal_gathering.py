"""How long a commit waits for company: a few turns of the loop while more keeps coming, and never for its own sake."""

from __future__ import annotations

import asyncio

import pytest

from hookline.journal.conformance import a_record
from hookline.journal.local.appender import GATHER_APPENDS, GATHER_BYTES, GATHER_SECONDS, GATHER_TURNS_MAX, Committer
from hookline.journal.record import Record


class Turns:
    """A committer that notes how many records each commit had, fed so many appends in each turn of the loop.

    A turn takes ``turn_seconds`` on its clock."""

    def __init__(self, turn_seconds: float = 0.0) -> None:
        self.commits: list[int] = []
        self.answers = 0
        self._now = 0.0
        self._turn_seconds = turn_seconds
        self._committer = Committer(
            self._commit, lambda size: False, lambda: None, lambda error: None, 1 << 30, clock=lambda: self._now
        )

    async def run(self, appends_per_turn: list[int], size_bytes: int = 1) -> list[int]:
        """Add the appends, turn by turn, and return the sizes of the commits."""
        for appends in appends_per_turn:
            for number in range(appends):
                self._committer.add([a_record(number)], size_bytes, self._answered)
            await asyncio.sleep(0)
            self._now += self._turn_seconds
        await asyncio.wait_for(self._committer.close(), 5)
        assert self.answers == sum(appends_per_turn)
        return self.commits

    def _commit(self, records: list[Record]) -> float:
        self.commits.append(len(records))
        return 0.0

    def _answered(self, error: BaseException | None) -> None:
        assert error is None
        self.answers += 1


@pytest.mark.parametrize(
    ("appends_per_turn", "commits"),
    [
        ([1], [1]),
        ([1, 1, 1], [1, 1, 1]),  # one after another: none is kept waiting
        ([2, 0, 2], [2, 2]),  # nothing came in the turn it waited
        ([2, 2, 2], [6]),
        ([GATHER_APPENDS, 5], [GATHER_APPENDS, 5]),
        ([GATHER_APPENDS - 1, 1, 5], [GATHER_APPENDS, 5]),
        ([2] * (GATHER_TURNS_MAX + 2), [2 * (GATHER_TURNS_MAX + 1), 2]),
    ],
)
def test_a_commit_waits_while_more_keeps_coming(appends_per_turn: list[int], commits: list[int]) -> None:
    """Several appends in a turn wait for the next one's, within bounds of turns and of appends."""
    assert asyncio.run(Turns().run(appends_per_turn)) == commits


def test_enough_bytes_do_not_wait() -> None:
    """Large appends are committed at once: one commit of them is dear enough."""
    assert asyncio.run(Turns().run([2, 2], size_bytes=GATHER_BYTES // 2)) == [2, 2]


def test_long_turns_are_not_waited_for() -> None:
    """A commit is put off by one turn at most, when that takes longer than it may be put off."""
    assert asyncio.run(Turns(turn_seconds=2 * GATHER_SECONDS).run([2, 2, 2])) == [4, 2]
