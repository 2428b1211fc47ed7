"""The moments at which an idle process is woken."""

from __future__ import annotations

import asyncio

import pytest

from hookline.beats import Bell, seconds_to_beat

EVERY_SECONDS = 0.1


class LoopAt:
    """A loop on whose clock it is a certain time."""

    def __init__(self, seconds: float) -> None:
        self.time = lambda: seconds


@pytest.mark.parametrize(
    ("now", "left"),
    [
        (7.0, EVERY_SECONDS),
        (7.03, 0.07),
        (7.0999, 0.1001),  # its timer ended a little early: this was the beat
    ],
)
def test_beats_are_at_multiples(now: float, left: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks in between, and never twice for one."""
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: LoopAt(now))
    assert seconds_to_beat(EVERY_SECONDS) == pytest.approx(left)
    assert seconds_to_beat(0) == 0.0


def test_a_bell_ends_a_rest() -> None:
    """Also one that has not begun yet; the next one is a whole one again."""

    async def run() -> None:
        bell = Bell()
        bell.ring()
        bell.ring()
        await asyncio.wait_for(bell.rest(3600.0), 30)
        resting = asyncio.ensure_future(bell.rest(3600.0))
        await asyncio.sleep(0)
        assert not resting.done()
        bell.ring()
        await asyncio.wait_for(resting, 30)
        await bell.rest(0.01)

    asyncio.run(run())
