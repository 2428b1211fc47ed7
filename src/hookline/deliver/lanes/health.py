"""A lane's health: its breaker, the probes while that is open, and when its receiver was seen to be well."""

from __future__ import annotations

from hookline.deliver.lanes.breaker import Breaker
from hookline.limits import Limits


class Health:
    """What a lane knows of its receiver."""

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
    )

    def __init__(self, cap: int | None, limits: Limits) -> None:
        """``cap`` is the user's own limit of requests at once."""
        self.limits = limits
        self.breaker = Breaker(cap, limits)
        self.gone = False
        """Whether every URL has answered 410: control will pause it."""
        self.nothing_to_try = False
        """Whether the last probe found no event at all: nobody finds out whether the receiver is back."""
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
        self, at: tuple[int, int], now_seconds: float, reason: str, *, too_much: bool, began_seconds: float, gone: bool
    ) -> bool:
        """Note a failure of the receiver; return whether this one opened the breaker.

        ``at`` is now by the wall clock and by the service's own. ``gone``: every URL has answered 410.
        """
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
