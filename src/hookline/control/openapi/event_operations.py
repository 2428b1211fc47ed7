"""Operations on stored events and on what they amount to."""

from __future__ import annotations

from hookline.control.listing import Listing
from hookline.control.openapi.operation import PAGE, Operation
from hookline.control.usage import UsageReport
from hookline.outcomes.fate import EventFate

STREAM_FILTERS = ("source", "type", "event", "userId", "messageId", "text")
EVENT_FILTERS = (*STREAM_FILTERS, "fate")

EVENT_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "get",
        "/api/v1/events",
        "listEvents",
        "List the newest events with their fates. A page may be short when the search took long; `after` goes on.",
        Listing[EventFate],
        query=(*PAGE, *EVENT_FILTERS),
    ),
    Operation(
        "get",
        "/api/v1/events/stream",
        "streamEvents",
        "Server-sent events: `event` (a new event), `fate` (its fate changed), `skipped` (how many were left out). "
        "With `Last-Event-ID` it goes on where a lost stream was; what is left out may be of any kind.",
        str,
        query=STREAM_FILTERS,
        answer_type="text/event-stream",
        problems=(503,),
    ),
    Operation(
        "get",
        "/api/v1/events/{messageId}",
        "getEvent",
        "Return what became of one message.",
        EventFate,
        query=("source",),
        problems=(404,),
    ),
    Operation(
        "get",
        "/api/v1/usage",
        "getUsage",
        "Return events per source and day or month, and how many of them count as usage.",
        UsageReport,
        query=(*PAGE, "by", "from", "to", "source"),
    ),
)
