"""``/api/v1/events``: the stored events newest first, one event's status, and the live stream."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Annotated, Any
from urllib.parse import unquote

from litestar import Controller, Request, get
from litestar.params import PathParameter, QueryParameter
from litestar.response import Stream

from hookline.api.calls import Call, the_call
from hookline.api.listing import After, Limit, Listing, OfEvent, OfSource, OfType
from hookline.api.problem import Problem, problems
from hookline.api.services import FromServices
from hookline.features.events.log import EventFilter
from hookline.features.events.service import event_log, live_events
from hookline.outcomes.event_status import EventStatus
from hookline.outcomes.status import DeliveryStatus

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
        description="Only events that hold this text anywhere, in capital or small letters.",
    ),
]


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
        status: Annotated[
            DeliveryStatus | None, QueryParameter(description="Only events that have this status at some destination.")
        ] = None,
        text: Text = None,
    ) -> Listing[EventStatus]:
        """List the newest events with their status. A page may be short when the search took long; `after` goes on."""
        wanted = EventFilter(source, type_, event, user_id, message_id, status, text)
        page = await event_log(services).newest(wanted, limit, after)
        return Listing([logged.status for logged in page.events], page.after)

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
        """Push new events and changes of status as server-sent events: `event` (a new event), `status` (its status
        changed), `skipped` (how many were left out). With `Last-Event-ID` it goes on where a lost stream was; what is
        left out may be of any kind."""
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
        """Return what became of one message: its acceptance, each routing decision, each attempt."""
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
