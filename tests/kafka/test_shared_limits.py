"""A receiver's limits, and what is learned about it, hold for all deliver processes together."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from tests.kafka.test_workers import (  # noqa: F401 - fixtures
    MOVE_SECONDS,
    Fleet,
    fleet,
    receiver,
    server,
)
from tests.service.harness import Hookline, Receiver, Reply, new_id, wait_until, webhook

RATE = 40
AT_ONCE = 2
ANSWER_SECONDS = 0.2
PHASE_SECONDS = 4.0
"""How long each number of processes is measured."""
STILL_SECONDS = 0.2
TRIES = 5
AFTER_DEATH = 0.8
"""Of what a receiver wants, it gets at least so much in one of the tries. Without the share of the one that died it
would be two thirds, and a busy machine comes to nine tenths."""
CAME_AND_WENT = 0.6
"""There is no second try of this."""
EVENTS = RATE * 120
"""More than can be sent until it is over, on a slow machine too: they wait all the time."""
NOW = {"deliver.timeout": "2s", "deliver.session_timeout": "4s"}
"""What a process had under way when its session ended has ended by then."""


def test_rate_and_concurrency_hold_for_one_to_four_processes(fleet: Callable[..., Fleet], receiver: Receiver) -> None:  # noqa: F811
    """With one process to four that come, end and are killed, a receiver gets its rate, no more and hardly less, and
    another never more requests at once than it wants."""
    stood_still = StoodStill()
    receiver.respond = lambda request: Reply(delay_seconds=ANSWER_SECONDS if request.path == "/narrow" else 0.0)
    paced = webhook("paced", receiver.url("/paced"), delivery={"maxRate": RATE})
    narrow = webhook("narrow", receiver.url("/narrow"), delivery={"maxConcurrency": AT_ONCE})
    all_of_them = fleet(paced, narrow, **NOW)
    _fill(all_of_them.front, EVENTS)
    owners = [all_of_them.front.role("deliver")]
    began = time.monotonic()
    workers = []
    for _ in range(3):
        workers.append(all_of_them.add())
        owners.append(workers[-1].pid)
        all_of_them.wait_for_owners(*owners)
        _measure()
    workers[2].end(signal.SIGTERM)
    all_of_them.wait_for_owners(*owners[:3])
    came_and_went = began, time.monotonic()
    workers[1].end(signal.SIGKILL)
    all_of_them.wait_for_owners(*owners[:2])
    _measure()  # its share is free a moment after its partitions are
    for _ in range(TRIES):  # a machine with other work may hold up one stretch; a share that was lost, all of them
        after_the_death = first, last = _measure()
        if _within(_times(receiver, "/paced", began), first, last - first) >= AFTER_DEATH * RATE * (last - first):
            break
    sent, asked = (_times(receiver, path, began) for path in ("/paced", "/narrow"))
    for (first, last), least in ((came_and_went, CAME_AND_WENT), (after_the_death, AFTER_DEATH)):
        found = _within(sent, first, last - first), _within(asked, first, last - first)
        assert found[0] >= least * RATE * (last - first), _by_second(sent, began)
        assert found[1] >= (least - 0.2) * (last - first) * AT_ONCE / ANSWER_SECONDS, _by_second(asked, began)
    for at in sent:
        # What was sent while this process stood still arrives at once when it goes on.
        seconds = PHASE_SECONDS + stood_still.within(at - STILL_SECONDS, at + PHASE_SECONDS)
        assert _within(sent, at, PHASE_SECONDS) <= 1.1 * RATE * seconds, _by_second(sent, began)
    assert max(_within(asked, at, 0.9 * ANSWER_SECONDS) for at in asked) <= AT_ONCE


def test_what_one_breaker_learns_the_others_know(fleet: Callable[..., Fleet], receiver: Receiver) -> None:  # noqa: F811
    """While a receiver is down three processes ask it no more often than one would; back, it gets events of all."""
    receiver.respond = lambda request: Reply(503)
    all_of_them = fleet(webhook("crm", receiver.url()), **NOW)
    front = all_of_them.front
    workers = [all_of_them.add(), all_of_them.add()]
    all_of_them.wait_for_owners(front.role("deliver"), *(each.pid for each in workers))
    _fill(front, 300)
    open_breakers = 'SELECT count(*) FROM hookline_deliver.workers WHERE state LIKE \'%"openBreakers":["crm"]%\''
    wait_until(lambda: all_of_them.column(open_breakers) == [3], MOVE_SECONDS, "all know of it")
    before, _ = _measure()
    asked = len(_times(receiver, "/hook", before))
    assert 1 <= asked <= PHASE_SECONDS + 2, asked  # deliver.retry_max is 1 s, and probes no further apart
    receiver.respond = lambda request: Reply()
    wait_until(lambda: _delivered(receiver) == 300, MOVE_SECONDS, "everything is delivered")


class StoodStill:
    """Notice when this process, and the receiver in it, got no processor for a while."""

    def __init__(self) -> None:
        self._spells: list[tuple[float, float]] = []
        threading.Thread(target=self._watch, daemon=True).start()

    def within(self, first: float, last: float) -> float:
        """Return the seconds of every spell that ended between the two moments."""
        return sum(end - begin for begin, end in self._spells if first <= end < last)

    def _watch(self) -> None:
        before = time.monotonic()
        while True:
            time.sleep(STILL_SECONDS / 2)
            now = time.monotonic()
            if now - before > STILL_SECONDS:
                self._spells.append((before, now))
            before = now


def _measure() -> tuple[float, float]:
    """Let a while pass in which things stay as they are; return when it began and ended."""
    began = time.monotonic()
    time.sleep(PHASE_SECONDS)
    return began, time.monotonic()


def _fill(front: Hookline, count: int) -> None:
    """Accept so many events of many users."""
    for first in range(0, count, 100):
        batch = [_event(number) for number in range(first, min(first + 100, count))]
        wait_until(lambda batch=batch: front.post("/v1/batch", {"batch": batch}).status == 200, what="accepted")  # type: ignore[misc]


def _event(number: int) -> dict[str, Any]:
    return {"type": "track", "userId": f"user-{number % 60}", "event": "Test", "messageId": new_id()}


def _times(receiver: Receiver, path: str, since: float) -> list[float]:  # noqa: F811
    return sorted(each.at for each in receiver.requests if each.path == path and each.at >= since)


def _within(times: list[float], at: float, seconds: float) -> int:
    return sum(1 for each in times if at <= each < at + seconds)


def _by_second(times: list[float], began: float) -> str:
    return str([_within(times, began + second, 1.0) for second in range(int(times[-1] - began) + 1)])


def _delivered(receiver: Receiver) -> int:  # noqa: F811
    return len({request.message_id for request in receiver.requests})
