"""Tell how a lane's receiver is: the breaker that bounds attempts in flight, the probes while it is open, and when the
receiver has recovered.

Closed while attempts succeed. Failures of the receiver and refusals of single events are counted apart, and only a
success breaks a run of either. A run of failures first narrows the lane, so that few events are spent on finding out;
one of at least 20 over at least 10 s opens it; final ones (401, 404) count too. Refusals (422) narrow nothing: the
receiver is there, and it is asked about the next event. Only 1,000 in a row over at least 60 s open it, so that a
changed schema does not burn the stream. While it is open, single events are tried.

Apart from runs, the allowance follows the receiver as TCP follows a network: one that says that it is too much (429,
502, 503, 504, a timeout) halves it, at most once per round trip. Each answer lets it grow by one, which doubles it per
round trip, up to where it was halved last; beyond, and where answers take several times as long as they did with fewer
at once, it grows by one per round trip. Times are monotonic seconds, given by the caller.
"""

from __future__ import annotations

from math import inf
from typing import Literal

from hookline.limits import LIMITS, Limits

OPEN_REFUSALS = 1_000
OPEN_REFUSALS_SECONDS = 60.0
SUSPECT_SPACING_SECONDS = 0.5
SLOWED_TIMES = 3.0
"""Answers that take so many times as long as they did with fewer requests at once say that the receiver queues them.
Less would mistake a new connection for that, which takes three round trips with TLS."""
SLOW_RECEIVER_MS = 250.0
"""A receiver whose answers take longer leaves places to those whose answers do not."""
STALLED_TIMES = 10.0
"""Where they take so many times as long, more at once only wait longer."""
PROBE_FIRST_SECONDS = 1.0
PROBE_SECONDS_MAX = 60.0
"""A receiver that was repaired gets events again within this."""
PROVEN_AFTER_SECONDS = 0.25
"""Sent so long after a failure was known, a request was surely sent after it: answers of one turn are told together."""
OPEN_BEFORE = "open before the restart"
"""The reason of a breaker of which nothing is known but that it was open."""

State = Literal["closed", "narrowed", "suspect", "open"]


class Breaker:
    """Count the unbroken runs of failures and refusals, and say how many attempts may be in flight.

    ``allowance`` 0 means that single attempts are made from time to time: every ``SUSPECT_SPACING_SECONDS`` while
    suspect, less and less often while open. ``cap`` is the user's own limit.
    """

    __slots__ = (
        "_answers",
        "_answers_ms",
        "_credit",
        "_halved_seconds",
        "_limits",
        "_refused_since_seconds",
        "_round",
        "_round_ms",
        "_threshold",
        "_well_from",
        "allowance",
        "answer_ms",
        "doubted_since_seconds",
        "failures",
        "full",
        "most",
        "reason",
        "refusals",
        "refuses",
        "run_started_seconds",
        "state",
        "steady",
    )

    def __init__(self, cap: int | None = None, limits: Limits = LIMITS) -> None:
        self._limits = limits
        self.state: State = "closed"
        self.allowance = limits.first_allowance
        self.failures = 0
        self.refusals = 0
        self.refuses = False
        """Whether it is open because nothing but refusals came for long."""
        self.run_started_seconds = 0.0
        self.reason = ""
        self.doubted_since_seconds: float | None = None
        """When the first failure or refusal came after which no request sent later has succeeded. What was answered
        at the same time as it shows nothing: it may have been answered before the receiver's key was changed."""
        self.steady = False
        """No failures, no refusals, no doubt, the full allowance, not slow: an ordinary success changes nothing."""
        self._refused_since_seconds = 0.0
        self._halved_seconds = 0.0
        self._credit = 0
        self.answer_ms = inf
        """How long answers took in the round in which they took least: what the receiver needs with few at once."""
        self._round_ms = 0.0
        """How long they took in the last round."""
        self._answers = self._answers_ms = 0
        self._round = limits.first_allowance
        """Answers of a round: as many as could be on their way when it began."""
        self.limit(cap)

    @property
    def is_slow(self) -> bool:
        """Return whether its answers hold their places for long; a new one has few places to hold."""
        return self._round_ms > SLOW_RECEIVER_MS

    def limit(self, cap: int | None) -> None:
        """Take a new cap."""
        limits = self._limits
        self.full = min(limits.full_allowance, cap or limits.full_allowance)
        self.most = cap or limits.allowance_max
        self._well_from = min(limits.first_allowance, self.full)
        self._threshold = self.most
        self.allowance = min(self.allowance, self.most)
        self._settle()

    def succeeded(self, wants_more: bool = False, sent_seconds: float = inf, milliseconds: int = 0) -> bool:
        """Note a success; return whether the breaker was open until now.

        ``wants_more``: the lane has more to send, and its receiver takes so long that more at once would help.
        ``sent_seconds``: when its request was sent. ``milliseconds``: how long its answer took.
        """
        was_open = self.state == "open"
        self._forget_runs()
        if self.doubted_since_seconds is not None and sent_seconds > self.doubted_since_seconds + PROVEN_AFTER_SECONDS:
            self.doubted_since_seconds = None
        self._measure(milliseconds)
        self._grow(wants_more, milliseconds)
        self._settle()
        return was_open

    def failed(
        self, now_seconds: float, reason: str, *, too_much: bool = False, began_seconds: float | None = None
    ) -> bool:
        """Note a failure of the receiver; return whether this one opened the breaker.

        ``too_much``: the receiver said, or showed by its silence, that it cannot keep up. ``began_seconds`` is when
        the request was sent: what was sent before the last halving says nothing new.
        """
        if self.failures == 0:
            self.run_started_seconds = now_seconds
        self.doubt(now_seconds)
        self.failures += 1
        self.reason = reason
        self.steady = False
        if self.state == "open":
            return False
        if too_much and (began_seconds is None or began_seconds >= self._halved_seconds):
            self._halve(now_seconds)
        if self.failures >= self._limits.open_failures:
            self.state = "suspect"
            self.allowance = 0
            if now_seconds - self.run_started_seconds >= self._limits.open_seconds:
                self._open()
                return True
        elif self.failures >= self._limits.narrow_failures:
            self.state = "narrowed"
            self.allowance = min(self.allowance, self._limits.narrow_allowance)
        return False

    def refused(self, now_seconds: float, reason: str) -> bool:
        """Note a refusal of one event; return whether this one opened the breaker, or keeps it open from now on."""
        if self.refusals == 0:
            self._refused_since_seconds = now_seconds
        self.doubt(now_seconds)
        self.refusals += 1
        self.steady = False
        if self.failures == 0 and self.state != "open":
            self._grow(wants_more=False)  # what it says of one event says nothing against asking about more of them
        lasts_seconds = now_seconds - self._refused_since_seconds
        if self.refuses or self.refusals < OPEN_REFUSALS or lasts_seconds < OPEN_REFUSALS_SECONDS:
            return False
        self.refuses = True
        self.reason = reason
        self._open()
        return True

    def doubt(self, now_seconds: float) -> None:
        """Take what fails from now on for the receiver's fault, until a request sent later succeeds."""
        if self.doubted_since_seconds is None:
            self.doubted_since_seconds = now_seconds

    def open(self, reason: str) -> None:
        """Open at once: the receiver said that it is gone, or the breaker was open before a restart."""
        self.failures = max(self.failures, self._limits.open_failures)
        self.reason = reason
        self._open()

    def warn(self) -> None:
        """Others see the receiver fail: send it few at once, until it was seen to be well from here."""
        if self.state == "closed":
            self.allowance = min(self.allowance, self._limits.narrow_allowance)
            self._settle()

    def half_open(self) -> None:
        """A person says that the receiver is well again: begin with one attempt, and ramp up from there."""
        self.state = "narrowed"
        self.allowance = 1
        self._forget_runs()
        self.doubted_since_seconds = None
        self.reason = ""
        self.steady = False

    def _open(self) -> None:
        self.state = "open"
        self.allowance = 0
        self._threshold = self.full
        self.answer_ms = inf
        self.steady = False

    @staticmethod
    def probe_wait_seconds(probes: int, longest_seconds: float) -> float:
        """Return the time from one probe of an open breaker to the next, after so many: doubled with each."""
        # The exponent is bounded because an outage has no end, and 2.0 ** 1024 raises OverflowError.
        return min(PROBE_FIRST_SECONDS * 2.0 ** min(probes, 60), PROBE_SECONDS_MAX, longest_seconds)

    def _forget_runs(self) -> None:
        self.failures = self.refusals = 0
        self.refuses = False

    def _measure(self, milliseconds: int) -> None:
        """Take the mean of a round, so that a single quick answer says nothing."""
        self._answers += 1
        self._answers_ms += milliseconds
        if self._answers >= self._round:
            self._round_ms = self._answers_ms / self._answers
            self.answer_ms = min(self.answer_ms, self._round_ms)
            self._answers, self._answers_ms, self._round = 0, 0, max(self.allowance, self._well_from)

    def _grow(self, wants_more: bool, milliseconds: int = 0) -> None:
        if self.allowance < self.full or (wants_more and self.allowance < self.most):
            is_beyond = self.allowance >= self.full
            if is_beyond and milliseconds > STALLED_TIMES * self.answer_ms:
                return
            self._credit += 1
            is_steep = self.allowance < self._threshold and not (
                is_beyond and milliseconds > SLOWED_TIMES * self.answer_ms
            )
            if is_steep or self._credit >= self.allowance:
                self.allowance += 1
                self._credit = 0
        self.state = "closed" if self.allowance >= self._well_from else "narrowed"
        self.reason = "" if self.state == "closed" else self.reason

    def _halve(self, now_seconds: float) -> None:
        self._halved_seconds = now_seconds
        self._credit = 0
        self.allowance = self._threshold = max(1, self.allowance // 2)
        if self.allowance < self._well_from:
            self.state = "narrowed"

    def _settle(self) -> None:
        is_quiet = self.failures == self.refusals == 0 and self.doubted_since_seconds is None
        self.steady = is_quiet and self.state == "closed" and self.allowance >= self.full and not self.is_slow


class Health:
    """Hold what a lane knows of its receiver."""

    __slots__ = (
        "breaker",
        "doubted_since",
        "gone",
        "limits",
        "nothing_to_try",
        "others_probe_until_seconds",
        "probe_at_seconds",
        "probes",
        "run_started",
        "succeeded_ms",
        "timeouts",
        "timeouts_logged_seconds",
        "tried",
        "unreached",
    )

    def __init__(self, cap: int | None, limits: Limits) -> None:
        """``cap`` is the user's own limit of requests at once."""
        self.limits = limits
        self.breaker = Breaker(cap, limits)
        self.gone = False
        """Whether every URL has answered 410: control will pause it."""
        self.nothing_to_try = False
        """Whether the last probe found no event at all: nobody finds out whether the receiver is back."""
        self.unreached = False
        """Whether the receiver was not even reached with the last attempt that failed."""
        self.probes = 0
        self.probe_at_seconds = 0.0
        self.run_started = 0, 0
        """When the run of failures began: by the wall clock, and by the service's own."""
        self.doubted_since = 0, 0
        """Since when the breaker doubts the receiver, by both clocks: what is burned since then is called back if it
        opens."""
        self.others_probe_until_seconds = 0.0
        """Until when another process is expected to find out whether the receiver is back."""
        self.tried = 0
        """Probes of this process since the breaker opened, where there are others."""
        self.succeeded_ms = 0
        """When the receiver was last seen to be well, by the wall clock."""
        self.timeouts = 0
        self.timeouts_logged_seconds = 0.0

    def seen_well(self, now_ms: int) -> None:
        """Note that the receiver has accepted something."""
        self.succeeded_ms = now_ms

    def failed(
        self,
        at: tuple[int, int],
        now_seconds: float,
        reason: str,
        *,
        too_much: bool,
        began_seconds: float,
        gone: bool,
        unreached: bool,
    ) -> bool:
        """Note a failure of the receiver; return whether this one opened the breaker.

        ``at`` is now by the wall clock and by the service's own. ``gone``: every URL has answered 410. ``unreached``:
        nothing of the event was sent to any.
        """
        self.unreached = unreached
        if self.breaker.failures == 0:
            self.run_started = at
        self._doubt(at, now_seconds)
        opened = self.breaker.failed(now_seconds, reason, too_much=too_much, began_seconds=began_seconds)
        if gone and self.breaker.state != "open":
            self.breaker.open(reason)
            self.gone = opened = True
        return opened

    def refused(self, at: tuple[int, int], now_seconds: float, reason: str) -> bool:
        """Note that the receiver refused one event; return whether this one opened the breaker."""
        self.unreached = False
        self._doubt(at, now_seconds)
        return self.breaker.refused(now_seconds, reason)

    def _doubt(self, at: tuple[int, int], now_seconds: float) -> None:
        if self.breaker.doubted_since_seconds is None:
            self.doubted_since = at
        self.breaker.doubt(now_seconds)

    def hold(self, at: tuple[int, int], now_seconds: float, reason: str) -> None:
        """Open the breaker: events wait, because somebody else found the receiver down."""
        if self.breaker.failures == 0:
            self.run_started = at
            self.unreached = False
        self._doubt(at, now_seconds)
        self.breaker.open(reason)

    def restore(self, reason: str, *, gone: bool) -> None:
        """Take the breaker up open, as it was before the restart."""
        self.gone = gone
        self.breaker.open(reason)

    def answers_again(self) -> None:
        """Note that the receiver is not gone."""
        self.gone = False

    def half_open(self) -> None:
        """Begin with one attempt: somebody else got an event through."""
        self.breaker.half_open()
        self.gone = False
        self.probes = 0

    def timed_out(self) -> None:
        """Count an attempt without an answer, for the log."""
        self.timeouts += 1

    def log_timeouts(self, now_seconds: float) -> int:
        """Return how many there were since this was asked last."""
        count, self.timeouts, self.timeouts_logged_seconds = self.timeouts, 0, now_seconds
        return count

    def probe_next(self, at_seconds: float, probes: int) -> None:
        """Send the next probe then; so many have been sent since the breaker opened."""
        self.probe_at_seconds, self.probes = at_seconds, probes

    def probe_at_once(self) -> None:
        """Send the next probe now, in place of the last one: it found out nothing, or less than the next one will."""
        self.probe_next(0.0, max(0, self.probes - 1))

    def probe_no_sooner(self, at_seconds: float) -> None:
        """Wait so long with the next probe."""
        self.probe_at_seconds = max(self.probe_at_seconds, at_seconds)

    def end_probing(self) -> None:
        """Forget the probes: one succeeded."""
        self.probes = 0

    def probe_found(self, anything: bool) -> None:
        """Note whether there was an event to probe with."""
        self.nothing_to_try = not anything

    def count_tries(self, tries: int) -> None:
        """Take how many probes of this outage are this process's."""
        self.tried = tries

    def leave_probing(self, until_seconds: float) -> None:
        """Leave it to another process to find out whether the receiver is back."""
        self.others_probe_until_seconds = until_seconds

    def try_now(self) -> None:
        """Let the next probe leave at once, and begin anew with the waits between them: somebody wants to know."""
        self.probe_at_seconds = 0.0
        self.probes = 0
