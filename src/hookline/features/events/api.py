"""``/api/v1/events``: the stored events newest first, one event's status, and the live stream."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any
from urllib.parse import unquote

import msgspec
from litestar import Controller, Request, get, post
from litestar.params import JSONBody, PathParameter, QueryParameter
from litestar.response import Stream

from hookline.api.calls import Call, current_author, the_call
from hookline.api.export import Format, export
from hookline.api.handlers import FromServices, problems
from hookline.api.listing import TIME, After, Id, Limit, Listing, OfEvent, OfSource, OfType, milliseconds
from hookline.api.problem import Problem, not_found
from hookline.api.services import Services, deliver_reader
from hookline.connections.model import is_sink
from hookline.connections.secrets import is_removed
from hookline.features.destinations.service import destination_past
from hookline.features.destinations.tester.request_writer import (
    Header,
    RequestWriter,
    ShownRequest,
    shown,
    without_signatures,
)
from hookline.features.events.attempt_search import NEWEST, AttemptSearch, ShownAttempt, attempt_search
from hookline.features.events.log import EventFilter, title_in
from hookline.features.events.service import event_log, live_events
from hookline.features.replays.service import ask_deliver
from hookline.outcomes.event_status import EventStatus
from hookline.outcomes.outcome import DeliveryStatus, Outcome, urgency
from hookline.outcomes.results import AttemptFilter, Key, LoggedAttempt, attempt_key
from hookline.replays.dead_letters import RetryPlace

KNOWN_SECONDS = 5.0
"""How long a stream goes on at most before it asks whether its caller is still let in."""

OfUser = Annotated[
    str | None,
    QueryParameter(
        name="userId", max_length=1_000, description="Only this user id (or anonymous id, for events without a user)."
    ),
]
OfMessage = Annotated[
    str | None, QueryParameter(name="messageId", max_length=1_000, description="Only this message id.")
]
Text = Annotated[
    str | None,
    QueryParameter(
        name="text",
        max_length=1_000,
        description="Only events that contain this text anywhere. Upper and lower case are the same.",
    ),
]


AtDestination = Annotated[
    str | None,
    QueryParameter(
        name="destination",
        max_length=1_000,
        description="Only events for this destination. `status` then means the status there.",
    ),
]
OfStatus = Annotated[
    DeliveryStatus | None, QueryParameter(description="Only events that have this status at some destination.")
]
AcceptedFrom = Annotated[
    str | None,
    QueryParameter(
        name="from", max_length=100, description="Only events accepted at or after this time.", schema_extra=TIME
    ),
]
AcceptedTo = Annotated[
    str | None,
    QueryParameter(name="to", max_length=100, description="Only events accepted before this time.", schema_extra=TIME),
]

COLUMNS = ("receivedAt", "source", "type", "event", "messageId", "userId", "status", "destinations")
"""Of an exported table; ``destinations`` has the status at each."""


def _columns(event: EventStatus) -> dict[str, object]:
    at = [(each.id, each.status) for each in event.destinations if each.status != "not_routed"]
    return {
        "receivedAt": event.received_at,
        "source": event.source,
        "type": event.type,
        "event": title_in(event.type, bytes(event.event)),
        "messageId": event.message_id,
        "userId": event.user_id,
        "status": event.status or min((status for _, status in at), key=urgency, default="not_routed"),
        "destinations": "; ".join(f"{id}: {status}" for id, status in at),
    }


class Events(Controller):
    """Reading only; events come in through the collection API."""

    path = "/events"

    @get(needs="viewer")
    async def list_events(
        self,
        services: FromServices,
        limit: Limit = 50,
        after: After = None,
        source: OfSource = None,
        type_: OfType = None,
        event: OfEvent = None,
        user_id: OfUser = None,
        message_id: OfMessage = None,
        destination: AtDestination = None,
        status: OfStatus = None,
        text: Text = None,
        since: AcceptedFrom = None,
        until: AcceptedTo = None,
    ) -> Listing[EventStatus]:
        """List the newest events with their status. A slow search may return a short page; continue with `after`."""
        times = milliseconds("from", since), milliseconds("to", until)
        wanted = EventFilter(source, type_, event, user_id, message_id, status, text, destination, *times)
        page = await event_log(services).newest(wanted, limit, after)
        return Listing([logged.status for logged in page.events], page.after)

    @get("/export", needs="viewer", media_type="text/csv")
    async def export_events(
        self,
        services: FromServices,
        format_: Format = "csv",
        source: OfSource = None,
        type_: OfType = None,
        event: OfEvent = None,
        user_id: OfUser = None,
        message_id: OfMessage = None,
        destination: AtDestination = None,
        status: OfStatus = None,
        text: Text = None,
        since: AcceptedFrom = None,
        until: AcceptedTo = None,
    ) -> Stream:
        """Return the matching events as a file, newest first: CSV with their statuses, or JSON with their content."""
        times = milliseconds("from", since), milliseconds("to", until)
        wanted = EventFilter(source, type_, event, user_id, message_id, status, text, destination, *times)

        async def page(limit: int, after: str | None) -> Listing[EventStatus]:
            found = await event_log(services).newest(wanted, limit, after)
            return Listing([logged.status for logged in found.events], found.after)

        return export(format_, "events", COLUMNS, _columns, page)

    @get("/stream", needs="viewer", responses=problems(503), media_type="text/event-stream")
    async def stream_events(
        self,
        services: FromServices,
        request: Request[Any, Any, Any],
        source: OfSource = None,
        type_: OfType = None,
        event: OfEvent = None,
        user_id: OfUser = None,
        message_id: OfMessage = None,
        text: Text = None,
    ) -> Stream:
        """Stream new events and changes of status as server-sent events: `event` (a new event), `status` (its status
        changed), `skipped` (how many were left out, of any kind). `Last-Event-ID` continues a lost stream."""
        wanted = EventFilter(source, type_, event, user_id, message_id, text=text)
        watched = await live_events(services).watch(request.headers.get("last-event-id"), wanted)
        messages = _while_known(the_call(), watched)
        return Stream(messages, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    @get("/{messageId:path}", needs="viewer")
    async def get_event(
        self,
        services: FromServices,
        request: Request[Any, Any, Any],
        message_id: Annotated[str, PathParameter(name="messageId")],
        source: OfSource = None,
    ) -> EventStatus:
        """Return the status of one event: its acceptance, each routing decision, each attempt. An event with the
        messageId `export` or `stream` is in `GET /events?messageId=…` alone."""
        wanted = id_in_path(request, "/events/")
        status = await event_log(services).of_message(wanted, source)
        if status is None:
            raise unknown_event(wanted, await event_log(services).why_unknown(wanted, source))
        return status


async def _while_known(call: Call, messages: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the messages, until the session ends or the token is revoked; a heartbeat comes while nothing else does."""
    looked = time.monotonic()
    async for message in messages:
        if time.monotonic() - looked > KNOWN_SECONDS:
            looked = time.monotonic()
            if not call.still_known():
                return
        yield message


def id_in_path(request: Request[Any, Any, Any], prefix: str) -> str:
    """Return the message id as it was sent: it may hold slashes, which the decoded path cannot tell from separators."""
    raw = request.scope["raw_path"].decode("latin-1").partition("?")[0]
    return unquote(raw.partition(prefix)[2], errors="replace")


def unknown_event(message_id: str, reason: str) -> Problem:
    """Return the problem of a message that nothing is known about."""
    shown = message_id if len(message_id) <= 100 else message_id[:100] + "…"
    return Problem(404, "unknown_event", f"There is no event with the message id {shown!r}: {reason}.")


class Answer(msgspec.Struct, frozen=True, rename="camel"):
    """The receiver's answer to a request that failed: the beginning of its head and of its body."""

    http_status: int
    headers: Sequence[Header]
    body: str


class AttemptDetail(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One attempt with its request as it was sent and, if it failed, the answer. ``request`` is null, and ``note`` says
    why, if the event or the settings of that time are no longer stored. It has no signatures if the secrets of that
    time were removed.
    """

    attempt: ShownAttempt
    request: ShownRequest | None
    note: str | None
    answer: Answer | None


class RetryNow(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The event to retry now."""

    message_id: Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]
    source: Annotated[str, msgspec.Meta(max_length=64)] | None = None


class RetryAsked(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The number of deliveries of the event that are tried now: its own, and one for each waiting replay of it."""

    destination: str
    message_id: str
    asked: int


OfOutcome = Annotated[Outcome | None, QueryParameter(description="Only attempts with this outcome.")]
OfHttpStatus = Annotated[
    int | None, QueryParameter(name="httpStatus", ge=100, le=599, description="Only attempts with this HTTP status.")
]
OfUrl = Annotated[str | None, QueryParameter(max_length=2_048, description="Only attempts at this URL.")]
BegunFrom = Annotated[
    str | None,
    QueryParameter(
        name="from", max_length=100, description="Only attempts that began at or after this time.", schema_extra=TIME
    ),
]
BegunTo = Annotated[
    str | None,
    QueryParameter(
        name="to", max_length=100, description="Only attempts that began before this time.", schema_extra=TIME
    ),
]


class Attempts(Controller):
    """Reading, but for the wish to try again; deliver writes."""

    path = "/destinations/{id:str}"

    @get("/attempts", needs="viewer")
    async def list_attempts(
        self,
        services: FromServices,
        object_id: Id,
        limit: Limit = 50,
        after: After = None,
        outcome: OfOutcome = None,
        http_status: OfHttpStatus = None,
        url: OfUrl = None,
        from_: BegunFrom = None,
        to: BegunTo = None,
    ) -> Listing[ShownAttempt]:
        """List the newest requests to a destination. A slow search may return a short page; continue with `after`."""
        search = _search(services, object_id)
        wanted = AttemptFilter(outcome, http_status, milliseconds("from", from_), milliseconds("to", to))
        page = await event_log(services).run(lambda: search.page(wanted, url, limit, _cursor(after)))
        return Listing(page.attempts, page.after)

    @get("/attempts/export", needs="viewer", media_type="text/csv")
    async def export_attempts(
        self,
        services: FromServices,
        object_id: Id,
        format_: Format = "csv",
        outcome: OfOutcome = None,
        http_status: OfHttpStatus = None,
        url: OfUrl = None,
        from_: BegunFrom = None,
        to: BegunTo = None,
    ) -> Stream:
        """Return the matching requests to a destination as a CSV or JSON file, newest first."""
        search = _search(services, object_id)
        wanted = AttemptFilter(outcome, http_status, milliseconds("from", from_), milliseconds("to", to))

        async def page(limit: int, after: str | None) -> Listing[ShownAttempt]:
            found = await event_log(services).run(lambda: search.page(wanted, url, limit, _cursor(after)))
            return Listing(found.attempts, found.after)

        name = f"attempts-of-{object_id}"
        return export(format_, name, ShownAttempt.__struct_encode_fields__, msgspec.to_builtins, page)

    @get("/attempts/{attempt:str}", needs="viewer")
    async def get_attempt(
        self, services: FromServices, object_id: Id, attempt_id: Annotated[str, PathParameter(name="attempt")]
    ) -> AttemptDetail:
        """Return one attempt: the request as it was sent and, if it failed, the stored part of the answer."""
        search, key = _search(services, object_id), attempt_key(attempt_id)
        found = await event_log(services).run(lambda: search.get(key)) if key is not None else None
        if found is None:
            raise not_found("attempt", attempt_id)
        request, note = await event_log(services).run(lambda: _request(services, object_id, search, found))
        shown_attempt = await event_log(services).run(lambda: search.shown(found))
        return AttemptDetail(attempt=shown_attempt, request=request, note=note, answer=_answer(found))

    @post("/retry-now", status_code=202, needs="editor")
    async def retry_now(self, services: FromServices, object_id: Id, data: JSONBody[RetryNow]) -> RetryAsked:
        """Retry one event now instead of when it is due."""
        search = _search(services, object_id)
        found = await event_log(services).find(data.message_id, data.source)
        places: list[RetryPlace] = []
        if found is not None:
            lanes = deliver_reader(services).retry_lanes(found.partition, found.offset)
            places = [RetryPlace(lane, found.partition, found.offset) for lane in lanes if lane in search.lanes]
        if not places:
            raise Problem(409, "not_retrying", await _came_of(services, object_id, data))
        author = current_author()
        ask_deliver(services, lambda store: max(store.retry_now(place, author) for place in places))
        return RetryAsked(destination=object_id, message_id=data.message_id, asked=len(places))


async def _came_of(services: Services, object_id: str, asked: RetryNow) -> str:
    """Return a sentence on what came of an event that does not wait for another attempt."""
    event = await event_log(services).of_message(asked.message_id, asked.source)
    here = next((each for each in event.destinations if each.id == object_id), None) if event is not None else None
    if here is not None and here.status == DeliveryStatus.DELIVERED:
        times = [each.at for each in here.attempts if each.outcome is Outcome.SUCCESS]
        return f"The event was delivered to {object_id}{f' at {times[-1]}' if times else ''}. Nothing is left to retry."
    if here is not None and here.status in (DeliveryStatus.FAILED, DeliveryStatus.EXPIRED):
        return f"The event was not delivered to {object_id}: it is a dead letter now. To send it again, replay it."
    return f"{asked.message_id[:100]!r} is not waiting for another attempt at {object_id}."


def _search(services: Services, object_id: str) -> AttemptSearch:
    if services.store.destination(object_id) is None:
        raise not_found("destination", object_id)
    return attempt_search(services, object_id)


def _cursor(after: str | None) -> Key:
    if after is None:
        return NEWEST
    key = attempt_key(after)
    if key is None:
        raise Problem(400, "invalid_parameter", "Use the value of `after` exactly as the last answer gave it.")
    return key


def _request(
    services: Services, object_id: str, search: AttemptSearch, found: LoggedAttempt
) -> tuple[ShownRequest | None, str | None]:
    destination = destination_past(services).at(object_id, found.at_ms, found.lane)
    record = search.record(found)
    if record is None:
        return None, "the event is no longer stored"
    if destination is None:
        return None, "the destination's settings at that time are not known"
    if is_sink(destination.kind):
        return None, "destinations of this kind make no HTTP requests"
    try:
        replay = search.lanes.get(found.lane)
        written = RequestWriter(services.settings).requests(destination, record, found.at_ms, replay)
    except Problem as problem:
        return None, problem.detail
    url = search.url(found)
    named = [each for each in written if each.number == found.url_index] if found.url is None else []
    mine = next((each for each in named or written if each.url == url or each in named), None)
    if mine is None:
        return None, "the URL was not in the destination's settings at that time"
    request = shown(mine, destination, reveal=False)
    if is_removed(destination):
        return without_signatures(
            request
        ), "its secrets at that time are no longer kept, so its signatures are not shown"
    return request, None


def _answer(found: LoggedAttempt) -> Answer | None:
    if found.http_status is None or found.head is None:
        return None
    _, *lines = found.head.split("\r\n")
    headers = [Header(name, value.strip()) for name, _, value in (line.partition(":") for line in lines if line)]
    return Answer(found.http_status, headers, found.error or "")
