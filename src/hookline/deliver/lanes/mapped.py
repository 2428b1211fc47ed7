"""What a lane whose kind is no webhook sends: the requests that its mapping makes of events, gathered into batches.

A **parcel** is one request for several events: the token that its answer comes back with. Events that may wait for
others stay in the lane's queue meanwhile, so that a crash finds them in the journal like all that is queued.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import suppress
from functools import cache
from math import inf
from time import time
from typing import Any, NamedTuple

from hookline.connections.receiver_url import ReceiverUrl, parse_receiver_url
from hookline.deliver.event import Event
from hookline.deliver.lanes.delivery import Delivery
from hookline.deliver.lanes.lane import Lane, Target
from hookline.deliver.send.answers import HEAD_KEPT_BYTES
from hookline.deliver.send.port import Answer, Failure, Route
from hookline.deliver.send.request import MappedTemplate
from hookline.events.timestamps import iso
from hookline.events.view import fields_of, integrations_of
from hookline.kinds.answers import Verdict, asked_wait_seconds, has_too_many_parts
from hookline.kinds.mapping import MappingFailed
from hookline.kinds.model import PER_EVENT_MAX
from hookline.kinds.requests import CompiledRequest, Plan, Rendered, event_fields, too_many
from hookline.outcomes.outcome import Outcome, refuses_event
from hookline.outcomes.progress import POSITION_SHIFT
from hookline.route.filters import Filters

ANSWER_BYTES_MAX = 64 * 1024
"""Of an answer to a request, however few events it was for."""
ANSWER_BYTES_PER_EVENT = 4 * 1024
ECHOED = 2
"""Of an answer that a kind looks into, so many bytes for each event and as many as the request has, times this: some
APIs answer with all they were sent. So what answers take is bounded by what the receiver was sent, and so is the time
to decode them (``has_too_many_parts``)."""
LARGE_ANSWER_BYTES_MAX = 4 * 1024 * 1024
RETRIED_TOGETHER = Verdict(
    accepted=False, retry=True, of_event=True, error="the batch was refused; which of its events is meant shows later"
)
"""Of each event of a refused batch whose halves cannot be sent now."""
IMPERSONAL_HEADERS = frozenset(
    ("date", "server", "content-type", "content-length", "retry-after", "request-id", "x-request-id", "cf-ray")
) | {f"{prefix}ratelimit-{name}" for prefix in ("", "x-") for name in ("limit", "remaining", "reset")}
"""Headers of an answer that say nothing of what was sent, in lower case."""
GATHERED_IN_FLIGHT_MAX = 1_024
"""Events of one lane in flight at once where they go in batches."""
HEAVY_BYTES = 32 * 1024
"""Size beyond which what an event becomes is counted: a mapping may make a megabyte of an event of four kilobytes."""
HEAVY_BYTES_IN_FLIGHT_MAX = 16_000_000
"""Of one lane: with more in flight it sends no further event until some are answered."""

Token = Event | Delivery
"""An event stands for its first attempt where nothing else needs to be known of it."""


def event_of(token: Token) -> Event:
    """Return the event that a token stands for."""
    return token if isinstance(token, Event) else token.event


class Parcel:
    """Several events in one request."""

    __slots__ = ("forgotten", "tokens", "verdicts")

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.verdicts: Sequence[Verdict] | None = None
        """What became of each; None: the answer says it."""
        self.forgotten: Set[int] = frozenset()
        """Positions of the events whose result is not wanted any more."""

    def forget(self, partition: int) -> list[Token]:
        """Want no results of a partition any more; return the tokens of those that were wanted until now."""
        found = [token for token in self.awaited if event_of(token).position >> POSITION_SHIFT == partition]
        self.forgotten = self.forgotten | {event_of(token).position for token in found}
        return found

    @property
    def awaited(self) -> Sequence[Token]:
        """Return the tokens of the events whose results are wanted."""
        forgotten = self.forgotten
        if not forgotten:
            return self.tokens
        return [token for token in self.tokens if event_of(token).position not in forgotten]

    def end(self) -> None:
        """Say that its result has come."""


class RequestParcel(Parcel):
    """Several events in one HTTP request, and what it is made of."""

    __slots__ = ("answer_bytes_max", "headers", "items", "request", "target_path")

    def __init__(
        self, request: CompiledRequest, target_path: str, headers: bytes, tokens: Sequence[Token], items: list[bytes]
    ) -> None:
        super().__init__(tokens)
        self.request = request
        self.target_path = target_path
        self.headers = headers
        self.items = items
        self.answer_bytes_max = ANSWER_BYTES_MAX
        """How much of its answer is read."""

    def halves(self) -> Iterator[RequestParcel]:
        """Yield it in two parts, to find out which event a receiver refuses."""
        middle = len(self.tokens) // 2
        for part in (slice(None, middle), slice(middle, None)):
            yield RequestParcel(self.request, self.target_path, self.headers, self.tokens[part], self.items[part])


class Outgoing(NamedTuple):
    """Requests of one target, each with its token; ``whole``: how much of the answer is read, 0 for its status only."""

    target: Target
    requests: list[tuple[Any, bytes]]
    whole: int


LOOKED_EVERY = 4
"""Events, after each of which the clock is looked at."""
PLAIN_LOOKED_EVERY = 4 * LOOKED_EVERY
"""The same of those that leave as webhooks get them, which cost less."""


class Departure(NamedTuple):
    """Hold what leaves for the first ``taken`` of some events, and those that become no request."""

    outgoing: list[Outgoing]
    failed: list[tuple[Delivery, Failure]]
    taken: int


class Gathering:
    """Say how events of a lane go together: how many, how long the first waits for others, and how much they may be."""

    is_apart = False
    has_one_url = False
    has_urls_apart = False

    def __init__(self, size: int, wait_seconds: float, bytes_max: int) -> None:
        self.size = size
        self._wait_seconds = wait_seconds
        self._bytes_max = bytes_max
        self._since: float | None = None
        """When the first of the events that wait for others was queued."""

    @property
    def targets(self) -> tuple[Target, ...]:
        """Return a target for each request, as the lane knows them."""
        raise NotImplementedError

    def own(self, lane: Lane) -> None:
        """Belong to a lane."""
        for target in self.targets:
            target.lane = lane

    def allowance(self, requests: int) -> int:
        """Return how many events may be in flight where so many requests may; a probe is one event."""
        if requests <= 1:
            return requests
        return max(requests, min(requests * self.size, max(GATHERED_IN_FLIGHT_MAX, 2 * self.size)))

    def has_enough(self, queue: Sequence[Event], low: int) -> bool:
        """Return whether so much is queued that readers may wait: two batches, by count or by what bodies weigh."""
        queued = len(queue)
        if queued < low or self.size == 1:
            return queued >= low
        return queued >= 2 * self.size or queued * self._weight(queue) >= 2 * self._bytes_max

    def gathered(
        self, queue: Sequence[Event], room: int, most: int, in_flight: int, now: float, *, hurry: bool
    ) -> int | None:
        """Return how many of the queued events leave now; None: they wait for others, so look again soon. ``most`` is
        what may leave at once where nothing is in flight."""
        queued = len(queue)
        if self.size == 1 or hurry:
            self._since = None
            return min(queued, room)
        if queued < self.size and queued * self._weight(queue) < self._bytes_max:
            if self._since is None:
                self._since = now
            if now - self._since < self._wait_seconds:
                return None
        if room < min(queued, most) and in_flight:
            return 0  # answers make room, and a full batch costs the receiver no more than a small one
        count = min(queued, room)
        if count > self.size:
            count -= count % self.size  # the rest waits for others
        self._since = now if queued > count else None
        return count

    def hurry(self) -> None:
        """Let what is queued leave with the next look."""
        self._since = -inf

    def released(self, positions: Iterable[int]) -> None:
        """Note that events are in flight no more."""

    @property
    def is_full(self) -> bool:
        """Return whether nothing more may leave until some of what is in flight is answered."""
        return False

    def departure(
        self, lane: Lane, leaving: Sequence[Token], first_at_ms: int, is_late: Callable[[], bool]
    ) -> Departure:
        """Return what leaves for some events, until it is late or much memory is taken."""
        raise NotImplementedError

    def _stops_at(self, number: int, is_late: Callable[[], bool]) -> bool:
        """Return whether the events of a departure from this one on stay for later: they have waited for others."""
        if not self.is_full and (number % LOOKED_EVERY != LOOKED_EVERY - 1 or not is_late()):
            return False
        self.hurry()
        return True

    def _weight(self, queue: Sequence[Event]) -> float:
        """Return about how many bytes one of the queued events has, by those at both ends."""
        ends = queue[0], queue[-1]
        return sum(len(event.record.body) for event in ends) / len(ends)


class Mapped(Gathering):
    """The requests of one lane."""

    def __init__(
        self,
        plan: Plan,
        templates: Sequence[MappedTemplate],
        routes: Sequence[Route],
        lane_number: int,
        filters: Filters | None,
    ) -> None:
        super().__init__(plan.batch_size, plan.batch_wait_seconds, plan.batch_bytes)
        self.plan = plan
        self._filters = filters if filters is not None and filters.edits else None
        self._heavy: dict[int, int] = {}
        """Positions of events in flight of which much was made, and how much."""
        self._heavy_bytes = 0
        # Whether all events become one request each that differs in nothing but its body, and go in batches.
        self._is_alike = plan.is_plain and len(plan.requests) == 1 and plan.requests[0].batch is not None
        self.has_one_url = len(plan.requests) == 1 and plan.requests[0].sample_url == plan.requests[0].named_url
        urls = {template.url for template in templates}
        self.has_urls_apart = len(urls) == len(templates) and all(each.matches is None for each in plan.requests)
        # By request, then by its number among those that one event becomes: what is counted is the latter.
        self._targets = [
            [Target(template, ordinal, lane_number, route) for ordinal in range(PER_EVENT_MAX)]
            for template, route in zip(templates, routes, strict=True)
        ]

    @property
    def targets(self) -> tuple[Target, ...]:
        """Return a target for each request, as the lane knows them."""
        return tuple(targets[0] for targets in self._targets)

    def own(self, lane: Lane) -> None:
        """Belong to a lane."""
        for targets in self._targets:
            for target in targets:
                target.lane = lane
                target.urls = lane.urls

    def allowance(self, requests: int) -> int:
        """Return how many events may be in flight; one where those that are take much memory."""
        most = super().allowance(requests)
        return min(most, 1) if self.is_full else most

    @property
    def is_full(self) -> bool:
        """Return whether what is in flight takes much memory."""
        return self._heavy_bytes >= HEAVY_BYTES_IN_FLIGHT_MAX

    def released(self, positions: Iterable[int]) -> None:
        """Note that events are in flight no more."""
        if self._heavy:
            self._heavy_bytes -= sum(self._heavy.pop(position, 0) for position in positions)

    def departure(
        self, lane: Lane, leaving: Sequence[Token], first_at_ms: int, is_late: Callable[[], bool]
    ) -> Departure:
        """Return what leaves for some events, until it is late or much memory is taken."""
        if self._is_alike and set(map(type, leaving)) == {Event}:
            with suppress(Exception):  # an event that cannot be rendered: which one it is, the other way finds out
                return self._alike(leaving, is_late)
        single: dict[tuple[int, int], list[tuple[Token, bytes]]] = {}
        gathered: dict[tuple[int, int, str, bytes], list[tuple[Token, bytes]]] = {}
        failed: list[tuple[Delivery, Failure]] = []
        taken = len(leaving)
        for number, token in enumerate(leaving):
            delivery = token if isinstance(token, Delivery) else None
            if self._stops_at(number, is_late):
                taken = number
                break
            event = event_of(token)
            try:
                made = list(self._of_event(event, delivery.urls if delivery is not None else None))
            except Exception as error:  # noqa: BLE001 - an event that cannot be rendered must not stop the others
                failed.append((delivery or Delivery(lane, event, first_at_ms), unsendable(error)))
                continue
            made_bytes = sum(len(rendered.body) for *_, rendered in made)
            if made_bytes > HEAVY_BYTES:
                self._heavy_bytes += made_bytes - self._heavy.get(event.position, 0)
                self._heavy[event.position] = made_bytes
            if len(made) > 1 and delivery is None:
                delivery = Delivery(lane, event, first_at_ms)
            if delivery is not None:
                delivery.targets = [self._targets[index][ordinal] for index, ordinal, _ in made]
                delivery.outstanding = len(made)
            for index, ordinal, rendered in made:
                request, template = self.plan.requests[index], self._targets[index][ordinal].template
                assert isinstance(template, MappedTemplate)
                if request.batch is None:
                    data = template.write(rendered.target, rendered.headers, rendered.body, event.record.message_id)
                    single.setdefault((index, ordinal), []).append((delivery or event, data))
                else:
                    key = (index, ordinal, rendered.target, rendered.headers)
                    gathered.setdefault(key, []).append((delivery or event, rendered.body))
        found: list[Outgoing] = []
        for (index, ordinal), requests in single.items():
            judged = self.plan.requests[index].judge is not None
            whole = ANSWER_BYTES_MAX if judged else 0
            found.append(Outgoing(self._targets[index][ordinal], list(requests), whole))
        for (index, ordinal, target_path, headers), items in gathered.items():
            parcels = _parcels(self.plan.requests[index], target_path, headers, items)
            found.append(self.outgoing(self._targets[index][ordinal], parcels))
        return Departure(found, failed, taken)

    def _alike(self, events: Sequence[Token], is_late: Callable[[], bool]) -> Departure:
        """Return first attempts whose requests differ in nothing but the events in them, by the shortest way."""
        request = self.plan.requests[0]
        target_path, headers, _ = request.render({}, bytes)
        items: list[tuple[Token, bytes]] = []
        for number in range(0, len(events), PLAIN_LOOKED_EVERY):
            if number and self._stops_at(number - 1, is_late):
                break
            some = events[number : number + PLAIN_LOOKED_EVERY]
            items += [(each, request.plain_item(self._body(event_of(each)))) for each in some]
        parcels = _parcels(request, target_path, headers, items)
        return Departure([self.outgoing(self._targets[0][0], parcels)], [], len(items))

    def outgoing(self, target: Target, parcels: Iterable[RequestParcel]) -> Outgoing:
        """Return parcels as they leave."""
        template = target.template
        assert isinstance(template, MappedTemplate)
        requests = [
            (parcel, template.write(parcel.target_path, parcel.headers, parcel.request.join(parcel.items), None))
            for parcel in parcels
        ]
        asked = [
            ANSWER_BYTES_PER_EVENT * len(parcel.tokens) + ECHOED * len(request)
            for parcel, request in requests
            if parcel.request.judge is not None
        ]
        whole = max(ANSWER_BYTES_MAX, min(LARGE_ANSWER_BYTES_MAX, max(asked, default=0)))
        for parcel, _ in requests:
            parcel.answer_bytes_max = whole
        return Outgoing(target, requests, whole)

    def _of_event(self, event: Event, mask: int | None) -> Iterator[tuple[int, int, Rendered]]:
        fields, plain = self._fields(event)
        matching = self.plan.matching(fields)
        if not matching:
            raise MappingFailed("", "no request of the mapping takes this event any more")
        if len(matching) > PER_EVENT_MAX:
            raise too_many(len(matching))
        left = [(ordinal, index) for ordinal, index in enumerate(matching) if mask is None or mask >> ordinal & 1]
        for ordinal, index in left or list(enumerate(matching)):
            try:
                yield index, ordinal, self.plan.requests[index].render(fields, plain)
            except MappingFailed as error:
                raise MappingFailed(f"/{self.plan.requests[index].name}{error.path}", error.sentence) from None

    def _fields(self, event: Event) -> tuple[dict[str, Any], Callable[[], bytes]]:
        record, body = event.record, self._body(event)
        if self.plan.is_plain:  # nothing asks for a field
            return {}, lambda: body
        chosen = integrations_of(record) if self.plan.asks_integrations else None
        return event_fields(fields_of(record, body), self.plan.settings, iso(record.received_at), chosen), lambda: body

    def _body(self, event: Event) -> bytes:
        """Return what a webhook would get, without what filters take out."""
        _, body = event.plain()
        return body if self._filters is None else self._filters.body(event.record, body, canonical=False)


def receivers_of(plan: Plan) -> list[ReceiverUrl]:
    """Return the receiver of each request; raise ValueError for a URL that cannot be one."""
    return [parse_receiver_url(request.sample_url) for request in plan.requests]


def are_refused_together(verdicts: Sequence[Verdict], status: int) -> bool:
    """Return whether a receiver refused a whole batch for what is in it, without a word of which event it means."""
    first = verdicts[0]
    is_of_event = first.of_event or (not first.retry and refuses_event(status))
    return not first.accepted and is_of_event and not first.retry and all(each is first for each in verdicts)


def says_too_much(verdicts: Sequence[Verdict], answer: Answer, bytes_max: int) -> bool:
    """Return whether so much came of an answer that it was not read to where it says what became of the events: of
    fewer events it says less, and all of them together would be sent again and again."""
    if verdicts[0].accepted or not 200 <= answer.status < 300:
        return False
    return len(answer.body) >= bytes_max or has_too_many_parts(answer.body, len(verdicts))


def failures_of(
    verdicts: Sequence[Verdict], answer: Answer, now: Callable[[], float] = time
) -> Iterator[Failure | None]:
    """Yield the failure that each verdict of an answer is, None for an event that was accepted; ``now`` is the wall
    clock, in seconds. The head is read once: a receiver may fill it. Of an answer about several events each keeps the
    headers that name nobody."""
    head = answer.head[:HEAD_KEPT_BYTES]
    if len(verdicts) > 1:
        head = _impersonal(head)
    retry_after = cache(lambda: _retry_after(answer, now))
    for verdict in verdicts:
        if verdict.accepted:
            yield None
            continue
        status = answer.status if verdict.status is None else verdict.status
        asked = retry_after() if status in (429, 503) else None
        of_event = verdict.of_event or (not verdict.retry and refuses_event(status))
        failure = Failure(_outcome_of(verdict, status), status, verdict.error, asked, head, of_event=of_event)
        failure.of_batch = verdict.of_batch
        yield failure


def failure_of(verdict: Verdict, answer: Answer, now: Callable[[], float] = time) -> Failure | None:
    """Return the failure that the verdict of an answer is, as ``failures_of``."""
    return next(failures_of((verdict,), answer, now))


def _impersonal(head: str) -> str:
    """Return the status line and the headers that are of the receiver itself."""
    first, *lines = head.split("\r\n")
    kept = [line for line in lines if line.partition(":")[0].strip().lower() in IMPERSONAL_HEADERS]
    return "\r\n".join([" ".join(first.split(" ", 2)[:2]), *kept])


def _outcome_of(verdict: Verdict, status: int) -> Outcome:
    if not verdict.retry:
        return Outcome.REFUSED
    return Outcome.THROTTLED if status == 429 else Outcome.TIMED_OUT if status == 408 else Outcome.SERVER_ERROR


def _retry_after(answer: Answer, now: Callable[[], float]) -> bytes | None:
    asked = asked_wait_seconds(answer.head, now)
    return None if asked is None else str(asked).encode()


def unsendable(error: Exception) -> Failure:
    """Return the failure of an event that becomes no request: a dead letter, and nothing against the receiver."""
    if isinstance(error, MappingFailed):
        text = (
            f"mapping {error.path.removeprefix('/')}: {error.sentence}" if error.path else f"mapping: {error.sentence}"
        )
    else:
        text = f"the request could not be made ({type(error).__name__})"
    return Failure(Outcome.REFUSED, None, text, of_event=True)


def _parcels(
    request: CompiledRequest, target_path: str, headers: bytes, items: Sequence[tuple[Token, bytes]]
) -> Iterator[RequestParcel]:
    """Yield the items in parcels that keep to the batch's bounds; one that is too large by itself goes alone."""
    batch = request.batch
    assert batch is not None
    tokens: list[Token] = []
    bodies: list[bytes] = []
    size_bytes = 0
    for token, body in items:
        if tokens and (len(tokens) == batch.size or size_bytes + len(body) > batch.bytes):
            yield RequestParcel(request, target_path, headers, tokens, bodies)
            tokens, bodies, size_bytes = [], [], 0
        tokens.append(token)
        bodies.append(body)
        size_bytes += len(body) + 1
    if tokens:
        yield RequestParcel(request, target_path, headers, tokens, bodies)
