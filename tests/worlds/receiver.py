"""A receiver that behaves by script: how each request fares, decided by a random generator of the run."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from hookline.outcomes.outcome import Outcome
from hookline.simulation.scheduler import Answer


@dataclass(frozen=True, slots=True)
class Behaviour:
    """``share`` of the requests meet one of ``results``, the others succeed; latencies are uniform between bounds."""

    name: str
    results: tuple[int | Outcome | None, ...] = (200,)
    """None: the request hangs."""
    latency_seconds: tuple[float, float] = (0.001, 0.02)
    share: float = 1.0
    retry_after: tuple[bytes, ...] = ()
    taken: float = 0.0
    """How often an event is processed although the answer says otherwise, or is lost."""
    run: int = 0
    """Not by chance: so many of each hundred requests, one after the other, meet ``results``."""
    every: int = 0
    """Nor these: all requests with an event whose number is a multiple of this."""
    by_item: bool = False
    """Whether the events of a batch fare each by itself, and the answer says so of each."""


WELL = Behaviour("well")
BEHAVIOURS = (
    WELL,
    Behaviour("slow", latency_seconds=(0.2, 0.7)),
    Behaviour("just in time", latency_seconds=(0.9, 0.93)),
    Behaviour("failing", (500, 502, 503)),
    Behaviour("shaky", (500, 503, None, Outcome.CONNECTION_FAILED), share=0.4, taken=0.3),
    Behaviour("throttling", (429, 503), share=0.5, retry_after=(b"0", b"1", b"3", b"9", b"soon")),
    Behaviour("shut", (429, 503), retry_after=(b"2", b"6", b"15")),
    Behaviour("rejecting", (400, 401, 404, 301)),
    Behaviour("picky", (400, 422), share=0.15),
    Behaviour("gone", (410,)),
    Behaviour("refusing", (Outcome.CONNECTION_FAILED,)),
    Behaviour("resetting", (Outcome.CONNECTION_FAILED, Outcome.BAD_RESPONSE), taken=0.6),
    Behaviour("hanging", (None,), taken=0.5),
    Behaviour("nameless", (Outcome.NAME_NOT_RESOLVED, Outcome.TLS_REFUSED)),
)
CHOOSY = Behaviour("choosy", (422,), run=70)
"""Has no use for most events, and says so of each. Apart from the others, so that a seed keeps its run."""
PARTLY = Behaviour("partly", (400, 422, 429, 500), share=0.3, by_item=True)
STRICT = Behaviour("strict", (400, 413, 422), every=4)
"""Refuses a whole batch for some of its events, without a word of which. Both are for mappings, and so apart."""

DATES = (b"Fri, 20 Nov 2026 07:00:20 GMT", b"Fri, 20 Nov 2026 08:00:00 GMT", b"Sun, 06 Nov 1994 08:49:37 GMT")
"""Of a run, whose clock begins at 7:00: within it, an hour later, and long ago."""
BURST = Behaviour(
    "batch",
    (429, 503),
    retry_after=(
        *(b"7", b"120", b"3600", b"30000", b"31536000", b"99999999999999999999"),
        *(*DATES, b"Fri, 31 Dec 2066 23:59:59 GMT"),
        *(b"-1", b"1.5", b"30s", b"soon", b"", b"2026", b"Fri, 99 Nov 2026 07:00:20 GMT"),
    ),
)
"""For a moment it sends everybody away, each with another wait: seconds, milliseconds that were meant, years, dates, or
none of these. Apart as well."""


class Receiver:
    """One receiver URL of a destination."""

    def __init__(self, rng: random.Random, behaviour: Behaviour = WELL) -> None:
        self.behaviour = behaviour
        self._rng = rng
        self._asked = 0

    def answer(self, message_ids: Sequence[str]) -> Answer:
        """Decide about the next request, which is for these events."""
        rng, how = self._rng, self.behaviour
        seconds: float | None = rng.uniform(*how.latency_seconds)
        self._asked += 1
        if how.by_item and len(message_ids) > 1:
            items = (rng.choice(how.results) if rng.random() < how.share else 200 for _ in message_ids)
            return Answer(seconds, 200, None, True, tuple(each for each in items if isinstance(each, int)))
        if how.every:
            is_met = any(int(each[1:]) % how.every == 0 for each in message_ids)
        else:
            is_met = self._asked % 100 < how.run if how.run else rng.random() < how.share
        result = rng.choice(how.results) if is_met else 200
        retry_after = rng.choice(how.retry_after) if how.retry_after and result != 200 else None
        if result is None:
            return Answer(None, Outcome.TIMED_OUT, None, rng.random() < how.taken)
        taken = (isinstance(result, int) and 200 <= result < 300) or rng.random() < how.taken
        return Answer(seconds, result, retry_after, taken)
