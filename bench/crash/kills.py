"""kill -9 of everything under load: at random moments, beside receivers that fail and hang, again while it is
starting, and of one role at a time."""

from __future__ import annotations

import itertools
import os
import signal

from bench.crash.scene import ENOUGH_EVENTS, Scene, Score

UPTIME_SECONDS_MAX = 3.0
RECOVERY_SECONDS_MAX = 0.5
KILLS_IN_RECOVERY = 3
KILLS_OF_A_TROUBLE = 5
"""Each meets the backlog that the ones before have left; the last comes when the receiver is well and catches up."""


def random_kills(cycles: int, rate: float, uptime_seconds_max: float = UPTIME_SECONDS_MAX) -> Score:
    """Everything is killed a random time, so long at the most, after it is ready."""
    with Scene(rate) as scene:
        scene.service.start()
        scene.start_load()
        for _ in range(cycles):
            scene.wait_at_random(uptime_seconds_max)
            scene.service.kill()
            scene.restart()
        scene.stop_load_and_settle()
        return _explained(scene, "everything, at a random moment", cycles)


def kills_with_backlog(cycles: int, rate: float) -> Score:
    """Everything is killed while one receiver hangs or fails, so that a backlog waits for it, or catches up."""
    with Scene(rate) as scene:
        scene.service.start()
        scene.start_load()
        unwell, waited = scene.ledger.sinks[0], 0
        troubles = itertools.cycle(((unwell.hang, unwell.wake), (unwell.fail, unwell.recover)))
        for cycle in range(cycles):
            turn = cycle % KILLS_OF_A_TROUBLE
            if turn == 0:
                begin, end = next(troubles)
                begin()
            elif turn == KILLS_OF_A_TROUBLE - 1:
                end()
            scene.wait_at_random(UPTIME_SECONDS_MAX)
            waited += scene.ledger.acknowledged - unwell.received >= ENOUGH_EVENTS
            scene.service.kill()
            scene.restart()
        end()
        scene.stop_load_and_settle()
        remark = f"{waited} of the kills with a backlog of {ENOUGH_EVENTS} events or more"
        return _explained(scene, "everything, beside a backlog and a failing receiver", cycles, remark)


def kills_in_recovery(cycles: int, rate: float) -> Score:
    """Everything is killed, and three times more while it is starting."""
    with Scene(rate) as scene:
        scene.service.start()
        scene.start_load()
        for _ in range(cycles):
            scene.ledger.more(ENOUGH_EVENTS)
            scene.service.kill()
            for _ in range(KILLS_IN_RECOVERY):
                scene.service.launch()
                scene.wait_at_random(RECOVERY_SECONDS_MAX)
                scene.service.kill()
            scene.restart()
        scene.stop_load_and_settle()
        return _explained(scene, "everything, while it recovers", cycles * KILLS_IN_RECOVERY)


def role_kills(cycles: int, rate: float, role: str) -> Score:
    """One role is killed; the supervisor starts it again, the others go on."""
    with Scene(rate) as scene:
        scene.service.start()
        scene.start_load()
        for _ in range(cycles):
            scene.ledger.more(ENOUGH_EVENTS)
            os.kill(scene.pid(role), signal.SIGKILL)
        scene.pid(role)
        scene.stop_load_and_settle()
        return _explained(scene, f"{role} alone", cycles)


def _explained(scene: Scene, kind: str, cycles: int, remark: str = "") -> Score:
    """The balance; a duplicate that was not on the wire when something was killed is a failure."""
    try:
        scene.ledger.assert_repeats_were_in_flight()
    except TimeoutError:
        repeated = "an event was sent again that was not on the wire"
        return scene.score(kind, cycles, remark=remark, failures=(repeated,))
    return scene.score(kind, cycles, remark=remark)
