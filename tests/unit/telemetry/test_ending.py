"""A process that was told to end ends."""

from __future__ import annotations

import threading

from hookline.app import FORCED, Ending

SECONDS = 30.0


def test_what_does_not_answer_is_cut_off() -> None:
    """After its time the process goes, whatever waits; told twice is told once."""
    gone = threading.Event()
    codes: list[int] = []

    def leave(code: int) -> None:
        codes.append(code)
        gone.set()

    ending = Ending(0.01, leave)
    ending.begin()
    ending.begin()
    assert gone.wait(SECONDS)
    assert codes == [FORCED]


def test_a_thread_that_is_left_behind_does_not_keep_the_process() -> None:
    """It waits for somebody who may never answer: the process goes at once, with the code it has."""
    codes: list[int] = []
    release = threading.Event()
    waiting = threading.Thread(target=release.wait)
    waiting.start()
    try:
        Ending(SECONDS, codes.append).finish(0)
    finally:
        release.set()
        waiting.join()
    assert codes == [0]
