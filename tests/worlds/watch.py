"""What must be true of every request and every answer, checked the moment it happens.

The watch sees what receivers see, plus the state of the sending lane's breaker. What it finds wrong it writes down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hookline.connections.model import WEBHOOKS_MAX
from hookline.deliver.lanes.breaker import PROBE_FIRST_SECONDS
from hookline.deliver.lanes.lane import Lane
from hookline.deliver.retry.policy import retry_after_ms
from hookline.kinds.answers import asked_wait_seconds
from hookline.limits import LIMITS, Limits
from hookline.outcomes.outcome import FINAL, Outcome, of_status, refuses_event
from hookline.settings import Deliver
from hookline.simulation.scheduler import Answer, Request, SimulatedClock
from tests.worlds.arrivals import CARD
from tests.worlds.ledger import KNOWN_AFTER_SECONDS, LanePlace, Ledger, Place
from tests.worlds.pace import Pace
from tests.worlds.receiver import Receiver

VIOLATIONS_MAX = 20
SWEEP_SECONDS = 0.1
"""An attempt ends within its time limit and this."""


class Tries:
    """What a receiver and the sender know of one event in one lane."""

    __slots__ = (
        "accepted",
        "answered_at",
        "asked_at",
        "asked_for_ms",
        "asked_long",
        "attempts",
        "began_ms",
        "failed_at",
        "final",
        "first_at_ms",
        "is_unsure",
        "may_have_accepted",
        "not_before_ms",
        "takers",
    )

    def __init__(self, now_ms: int) -> None:
        self.first_at_ms = now_ms
        """When its window began, at the latest."""
        self.began_ms = now_ms
        """When its window began, at the earliest."""
        self.is_unsure = False
        """Whether what was known of it was saved in the very moment in which it was learned, or just not."""
        self.attempts = 0
        """How many have begun."""
        self.takers: set[int] = set()
        """The URLs whose receiver has processed it, whether or not the sender knows."""
        self.accepted: dict[int, float] = {}
        self.may_have_accepted: set[int] = set()
        """URLs whose acceptance a crash may have taken back, or not: a retry row was on its way to the disk."""
        """By URL: when the sender learned of its success."""
        self.answered_at: float | None = None
        """When the sender learned that it is delivered: of a success, with fan-out ``all`` of every URL's."""
        self.failed_at: float | None = None
        """When the sender first learned of a failure."""
        self.final = False
        self.not_before_ms = 0
        """What the last attempt's Retry-After asked for; the sender learned of it at ``asked_at``."""
        self.asked_for_ms = 0
        """The same where no order cuts it short: whether one does is decided with the answer of the last URL."""
        self.asked_at = 0.0
        self.asked_long = False
        """Whether that is longer than we would wait by ourselves: then no probe comes before it either."""

    @property
    def taken(self) -> bool:
        """Whether a receiver has processed it."""
        return bool(self.takers)


class Watch:
    """Follows every event in every lane. ``receiver_of`` finds the receiver of a lane number and URL index."""

    def __init__(
        self,
        clock: SimulatedClock,
        ledger: Ledger,
        deliver: Deliver,
        receiver_of: Callable[[int, int], Receiver],
        lane_of: Callable[[int], Lane | None],
        limits: Limits = LIMITS,
    ) -> None:
        self.violations: list[str] = []
        self.tries: dict[LanePlace, Tries] = {}
        self.last_sent: dict[int, float] = {}
        """By lane."""
        self.requests = 0
        self.resent = 0
        """Requests for an event whose success was lost by a crash."""
        self.hurried: set[LanePlace] = set()
        """What did not wait until its next attempt was due: it was a probe, or an order began."""
        self._clock = clock
        self._ledger = ledger
        self.pace = Pace(clock, ledger)
        self._window_ms = int(deliver.retry_window * 1000)
        self._late_ms = min(limits.late_ms_max, self._window_ms)
        self._longest_wait_ms = int(deliver.retry_max * 1000)
        self._attempt_seconds = deliver.timeout + SWEEP_SECONDS
        self._receiver_of = receiver_of
        self.lane_of = lane_of
        self._under_way: dict[tuple[int, str, int], Request] = {}
        self.asked_until: dict[int, float] = {}
        """By lane: until when its receiver asked to be left alone, as far as the probes of an open breaker heed it."""
        self._probes: dict[int, float] = {}
        """By lane: when the last probe of an open breaker was sent."""
        self.lost: set[LanePlace] = set()
        """Successes that a power cut may have taken back, or not."""
        self._changed_at = clock.seconds
        self._shifts: dict[int, int] = {}
        self._down_since: float | None = None
        self._resumed: dict[int, tuple[float, int]] = {}
        """By lane: when its last pause ended, and up to which time it counts."""

    def wrong(self, what: str) -> None:
        """Write down a violation."""
        if len(self.violations) < VIOLATIONS_MAX:
            self.violations.append(f"second {self._clock.seconds:.3f}: {what}")

    # what happens

    def sent(self, request: Request) -> Answer:
        """Check a request that leaves, and let its receiver decide about it."""
        for message_id, _ in request.events:
            if message_id not in self._ledger.positions:
                self.wrong(f"a request with the unknown id {message_id!r} is sent in lane {request.lane}")
                return Answer(0.0, 400)
        self.requests += 1
        for message_id, body in request.events:
            self._check(request, message_id, body)
        self.last_sent[request.lane] = self._clock.seconds
        answer = self._receiver_of(request.lane, request.url).answer([message_id for message_id, _ in request.events])
        for index, (message_id, _) in enumerate(request.events):
            if answer.took(index):
                self.tries[request.lane, self._ledger.positions[message_id]].takers.add(request.url)
        return answer

    def _check(self, request: Request, message_id: str, body: bytes) -> None:
        """Check what a request is for one of its events."""
        key = request.lane, self._ledger.positions[message_id]
        tries = self.tries.get(key)
        if tries is None:
            tries = self.tries[key] = Tries(self._clock.steady_ms())
        self._check_routing(key, message_id, body)
        self._check_repeats(request, key, message_id, tries)
        if not self._is_under_way(request.lane, message_id):  # the first URL of an attempt
            self._check_times(request, key, message_id, tries)
            self._check_breaker(request)
            self._check_order(key, message_id, tries)
            tries.attempts += 1
            for wrong in self.pace.began(*key):
                self.wrong(wrong)
        self._under_way[request.lane, message_id, request.url] = request

    def answered(self, request: Request, result: int | Outcome, retry_after: bytes | None) -> None:
        """The sender has taken in what became of a request."""
        for message_id, own in request.results(result):
            if message_id not in self._ledger.positions:
                continue
            if self._is_sent_on(self._under_way.get((request.lane, message_id, request.url)), request):
                continue
            self._under_way.pop((request.lane, message_id, request.url), None)
            self._answered(request, message_id, own, retry_after)

    def _is_sent_on(self, now: Request | None, before: Request) -> bool:
        """Return whether an event of a refused batch went on in a half of it: nothing is decided yet."""
        return now is not None and now is not before and len(before.events) > 1

    def _answered(self, request: Request, message_id: str, result: int | Outcome, retry_after: bytes | None) -> None:
        """The sender has taken in what became of an event of a request."""
        tries = self.tries[request.lane, self._ledger.positions[message_id]]
        outcome = result if isinstance(result, Outcome) else of_status(result)
        if outcome is Outcome.SUCCESS:
            tries.accepted.setdefault(request.url, self._clock.seconds)
            needed = self._ledger.urls_of_all(self._ledger.positions[message_id], request.lane)
            if len(tries.accepted) >= (needed or 1):
                tries.answered_at = self._clock.seconds if tries.answered_at is None else tries.answered_at
                tries.not_before_ms = 0
                if needed is None:  # if all had to accept it when it was sent, it goes on, and its window with it
                    tries.failed_at = self._clock.seconds if tries.failed_at is None else tries.failed_at
                return
        # Of a batch that could not be sent on in halves each event is tried again.
        tries.final |= outcome in FINAL and not _is_refused_together(request)
        if isinstance(result, int) and refuses_event(result):
            self._probes.pop(request.lane, None)  # it was about that event alone: the next one may follow at once
        wait_ms = self._asked_wait_ms(request, retry_after)
        if wait_ms is not None:
            lane = self.lane_of(request.lane)
            end_ms = tries.first_at_ms + self._window_ms
            tries.asked_for_ms = max(tries.asked_for_ms, min(self._clock.steady_ms() + wait_ms, end_ms))
            if lane is not None and lane.order is not None:
                wait_ms = min(wait_ms, self._longest_wait_ms)
            tries.not_before_ms = max(tries.not_before_ms, min(self._clock.steady_ms() + wait_ms, end_ms))
            tries.asked_long = wait_ms > self._longest_wait_ms
            until = self._clock.seconds + min(wait_ms, self._longest_wait_ms) / 1000
            self.asked_until[request.lane] = max(until, self.asked_until.get(request.lane, 0.0))
        if not self._is_under_way(request.lane, message_id):  # the last of its URLs decides
            lane = self.lane_of(request.lane)
            if lane is not None and lane.order is None and tries.asked_for_ms > tries.not_before_ms:
                tries.not_before_ms, tries.asked_long = tries.asked_for_ms, True
            tries.failed_at = self._clock.seconds if tries.failed_at is None else tries.failed_at
            tries.asked_at = self._clock.seconds

    def _asked_wait_ms(self, request: Request, retry_after: bytes | None) -> int | None:
        """Return the wait that a receiver asked for; of an answer that is read whole it is read in another way."""
        now_ms = self._clock.now_ms()
        if retry_after is not None and request.is_read_whole:
            head = f"\r\nRetry-After: {retry_after.decode('latin-1')}"
            seconds = asked_wait_seconds(head, lambda: now_ms / 1000)
            retry_after = None if seconds is None else str(seconds).encode()
        return None if retry_after is None else retry_after_ms(retry_after, now_ms)

    def crashed(self, kept_until: float, ring_kept: bool) -> None:
        """The process is gone; what it learned before ``kept_until`` is in the database, successes also in the ring."""
        for key, tries in self.tries.items():
            if tries.answered_at is not None and tries.answered_at >= kept_until and not ring_kept:
                tries.answered_at = None
                self.lost.add(key)
            if tries.answered_at is None:  # what one URL accepted is known again only from a retry row
                begun = kept_until - self._attempt_seconds
                tries.may_have_accepted |= tries.accepted.keys()
                tries.accepted = {url: at for url, at in tries.accepted.items() if at < begun}
            if tries.failed_at is not None and tries.failed_at >= kept_until:
                tries.is_unsure = tries.failed_at == kept_until
                tries.failed_at = None
            if tries.asked_at >= kept_until:
                tries.not_before_ms = 0
        for (lane, message_id, _), request in self._under_way.items():
            key = lane, self._ledger.positions[message_id]
            self.tries[key].not_before_ms = 0
            if request.is_answered and len(request.events) > 1:  # perhaps it was just before this event's turn
                self.lost.add(key)
        self._under_way.clear()
        self._probes.clear()
        self.pace.restarted()

    def is_untried(self, key: LanePlace) -> bool:
        """Return whether nothing is known of a try, and none is under way: a try that ended with its process was none,
        and what reads the event again may meet other filters."""
        tries = self.tries.get(key)
        if tries is None:
            return True
        is_known = tries.answered_at is not None or tries.failed_at is not None
        return not is_known and not self._is_under_way(key[0], self._ledger.events[key[1]].record.message_id)

    def erased(self, places: set[Place]) -> None:
        """Deliver has answered that it has nothing of these events any more: nothing of them is under way, but for
        requests that no longer matter, because another URL has taken the event."""
        for lane, message_id, _ in self._under_way:
            tries = self.tries[lane, self._ledger.positions[message_id]]
            if self._ledger.positions[message_id] in places and tries.answered_at is None:
                self.wrong(f"{message_id} is under way in lane {lane} although its erasure is answered")

    def changed(self) -> None:
        """Connections changed. Where each user's events go one after the other now, none waits for long any more."""
        self._changed_at = self._clock.seconds
        for key, tries in self.tries.items():
            if self._ledger.keeps_order(self._ledger.name_of(key[0])):
                self._bring_near(key, tries, self._clock.seconds)

    def _bring_near(self, key: LanePlace, tries: Tries, since: float) -> None:
        """What waits for long is due sooner than it was, because an order began then, or after it."""
        latest_ms = self._clock.steady_ms() + self._longest_wait_ms - int((self._clock.seconds - since) * 1000)
        if tries.not_before_ms > latest_ms:
            tries.not_before_ms = latest_ms
            tries.asked_long = False
            self.hurried.add(key)

    def resumed(self, lane: int, paused_ms: int) -> None:
        """The time of a pause does not count as part of any window."""
        known_after_ms = int(KNOWN_AFTER_SECONDS * 1000)  # the role counts until it learns of the end
        self._shifts[lane] = self._shifts.get(lane, 0) + paused_ms + known_after_ms
        self._resumed[lane] = self._clock.seconds, self._clock.steady_ms()

    def look(self, role_lives: bool, saved_at: float) -> None:
        """Follow whether the role lives; to be called every half second.

        One that does not live, or could save nothing of what it learned after ``saved_at``, learns of the end of a
        pause when it is back, and counts the pause until then: nothing is sent in either, and what it should have
        counted instead is written down nowhere. So no window ends in it.
        """
        now, now_ms = self._clock.seconds, self._clock.steady_ms()
        if role_lives:
            self._down_since = None
            return
        self._down_since = now if self._down_since is None else self._down_since
        for lane, (at, counted_ms) in self._resumed.items():
            if at > min(self._down_since, saved_at) - KNOWN_AFTER_SECONDS:
                self._shifts[lane] += max(0, now_ms - counted_ms)
                self._resumed[lane] = at, now_ms

    # what must be true

    def _check_routing(self, key: LanePlace, message_id: str, body: bytes) -> None:
        lane = key[0]
        gone_at = self._ledger.gone_since(lane)
        if gone_at is not None and self._clock.seconds > gone_at + KNOWN_AFTER_SECONDS:
            self.wrong(f"{message_id} is sent in lane {lane}, which ended at second {gone_at:.3f}")
        paused_at = self._ledger.paused_since(lane)
        if paused_at is not None and self._clock.seconds > paused_at + KNOWN_AFTER_SECONDS:
            self.wrong(f"{message_id} is sent in lane {lane}, paused since second {paused_at:.3f}")
        unusable_at = self._ledger.unusable.get(self._ledger.name_of(lane))
        if unusable_at is not None and self._clock.seconds > unusable_at + KNOWN_AFTER_SECONDS:
            self.wrong(f"{message_id} is sent in lane {lane}, unusable since second {unusable_at:.3f}")
        erased_at = self._ledger.erased.get(key[1])
        if erased_at is not None:
            self.wrong(f"{message_id} is sent in lane {lane}, erased since second {erased_at:.3f}")
        if not self._ledger.may_be_sent(key[1], lane):
            self.wrong(f"{message_id} is sent in lane {lane}, to which it does not belong")
        if (CARD in body) not in self._ledger.keeps_card(key[1], lane, self._clock.seconds):
            self.wrong(f"{message_id} is sent in lane {lane} not as its filters leave it")

    def _check_repeats(self, request: Request, key: LanePlace, message_id: str, tries: Tries) -> None:
        needed = self._ledger.urls_of_all(key[1], request.lane)
        if tries.answered_at is not None and needed is not None:
            self.wrong(f"{message_id} is sent again in lane {request.lane} although its success was known")
        elif request.url in tries.accepted and tries.final and self._ledger.asks_all_again(key[0]):
            del tries.accepted[request.url]  # what it took before it was given up counts no more
        elif request.url in tries.accepted and needed:
            self.wrong(f"{message_id} is sent again in lane {request.lane} to URL {request.url}, which took it")
        before = self._under_way.get((request.lane, message_id, request.url))
        if before is not None and not (before.is_answered and _is_refused_together(before)):
            self.wrong(f"{message_id} is sent twice at once in lane {request.lane}")
        if key in self.lost:
            self.resent += 1

    def _check_times(self, request: Request, key: LanePlace, message_id: str, tries: Tries) -> None:
        now_ms = self._clock.steady_ms()
        if tries.failed_at is None:
            # Whatever was known of earlier tries is lost with a crash: the window begins anew.
            tries.first_at_ms = now_ms
            tries.began_ms = tries.began_ms if tries.is_unsure else now_ms
        late_ms = self._late_ms + self._shifts.get(request.lane, 0)
        if now_ms > tries.first_at_ms + self._window_ms + late_ms:
            self.wrong(f"{message_id} is tried in lane {request.lane} after its window")
        lane = self.lane_of(request.lane)
        if lane is not None and lane.breaker.allowance == 0:
            request.probe = True
            self.hurried.add(key)
        if now_ms < tries.not_before_ms and self._ledger.may_keep_order(self._ledger.name_of(key[0]), tries.asked_at):
            self._bring_near(key, tries, tries.asked_at)  # the role may have learned of it just after the answer
        if now_ms < tries.not_before_ms and (tries.asked_long or not request.probe):
            early = tries.not_before_ms - now_ms
            self.wrong(f"{message_id} is tried in lane {request.lane} {early} ms before its Retry-After")
        tries.not_before_ms = tries.asked_for_ms = 0

    def _check_breaker(self, request: Request) -> None:
        lane = self.lane_of(request.lane)
        if lane is None or lane.breaker.state != "open":
            self._probes.pop(request.lane, None)
            return
        last, now = self._probes.get(request.lane), self._clock.seconds
        free = now <= self._changed_at + KNOWN_AFTER_SECONDS  # whoever changed settings wants to see whether it helped
        if last is not None and not free and now - last < PROBE_FIRST_SECONDS - 1e-6:
            self.wrong(f"lane {request.lane} sends a second probe after {now - last:.3f} s while its breaker is open")
        self._probes[request.lane] = now

    def _check_order(self, key: LanePlace, message_id: str, tries: Tries) -> None:
        """Where a user's events go one after the other, none leaves beside another, or before an earlier one that
        failed, which is not set aside."""
        lane, sure_since = key[0], self._clock.seconds - self._attempt_seconds - KNOWN_AFTER_SECONDS
        aside_after = self._ledger.set_aside_after(self._ledger.name_of(lane), sure_since)
        if aside_after is None or tries.attempts >= aside_after or tries.final:
            return
        if self._ledger.may_come_late(key[1], lane):
            return
        user = self._ledger.events[key[1]].record.user_key
        mine = [(other_id, request) for (other, other_id, _), request in self._under_way.items() if other == lane]
        being_decided = {other_id for other_id, request in mine if request.is_answered}
        for other_id in {other_id: None for other_id, _ in mine if other_id not in being_decided}:
            place = self._ledger.positions[other_id]
            other = self.tries[lane, place]
            is_of_user = other_id != message_id and self._ledger.events[place].record.user_key == user
            is_aside = other.final or other.attempts > aside_after  # what was given up holds up nobody if it comes back
            if is_of_user and other.answered_at is None and not is_aside:
                self.wrong(f"{message_id} is sent in lane {lane} beside {other_id}, although both are of {user}")
        for place in self._held_up_by(key, user, aside_after) if not tries.attempts else ():
            earlier = self._ledger.events[place].record.message_id
            if earlier not in being_decided:
                self.wrong(f"{message_id} is sent in lane {lane} before {earlier} is done, although both are of {user}")

    def may_be_done(self, key: LanePlace, tries: Tries) -> bool:
        """Return whether enough URLs have accepted it, if what a crash made unsure was kept: as many as had to at any
        time, for a change may have taken away the one that was missing."""
        accepted = len(tries.accepted.keys() | tries.may_have_accepted)
        return any(accepted >= max(1, needed) for needed in self._ledger.urls_meanwhile(key[1], key[0]))

    def _held_up_by(self, key: LanePlace, user: str, aside_after: int) -> Iterator[Place]:
        """Yield earlier events of the user that are known to have failed, and will be tried again."""
        lane, (partition, offset) = key
        now_ms = self._clock.steady_ms()
        for place, event in self._ledger.events.items():
            tries = self.tries.get((lane, place))
            if tries is None or event.record.user_key != user or place[0] != partition or place[1] >= offset:
                continue
            is_open = tries.failed_at is not None and tries.answered_at is None and not tries.final
            is_open &= tries.attempts < aside_after and now_ms < tries.first_at_ms + self._window_ms
            is_open &= not self.may_be_done((lane, place), tries)
            is_gone = place in self._ledger.erasing or (lane, place) in self.lost
            if is_open and not is_gone and not self._ledger.disconnected(place, lane, self._ledger.name_of(lane)):
                yield place

    def _is_under_way(self, lane: int, message_id: str) -> bool:
        """Whether a request for the same event to another URL of the lane has no answer yet."""
        return any((lane, message_id, url) in self._under_way for url in range(WEBHOOKS_MAX))


def _is_refused_together(request: Request) -> bool:
    """Return whether a batch was refused as a whole for one of its events, without a word of which."""
    result, items = request.answer.result, request.answer.items
    return len(request.events) > 1 and isinstance(result, int) and refuses_event(result) and not items
