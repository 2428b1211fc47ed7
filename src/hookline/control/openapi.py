"""The description of the admin API (OpenAPI 3.1), served at ``/api/openapi.json``.

Objects come from the very structs that requests are decoded with; the operations are the table below, which a test
holds against the routes.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import msgspec
from litestar import Response, get

import hookline
from hookline.connections.model import Destination, Source
from hookline.control.apply import ApplyRequest, ApplyResult
from hookline.control.catalog import CatalogKind
from hookline.control.dead_letter_log import DeadLetter
from hookline.control.dead_letters import DeadLetterDetail, Discarded, LetterSelection
from hookline.control.destination_standing import DestinationStanding
from hookline.control.event_log import FATES
from hookline.control.filter_tests import FilterTest
from hookline.control.listing import LIMIT_DEFAULT, LIMIT_MAX, Listing
from hookline.control.notice_log import Notice
from hookline.control.notices import STATES
from hookline.control.pausing import DisableRequest, PauseRequest, ResumeRequest
from hookline.control.problem import MEDIA_TYPE, ProblemBody
from hookline.control.replay_view import ReplayView
from hookline.control.replays import ReplayChange
from hookline.control.secret_rotation import EndOverlapRequest, RotatedSecret, RotateRequest
from hookline.control.usage import UsageReport
from hookline.outcomes.fate import EventFate
from hookline.replays.model import ReplayRequest
from hookline.route.filter_trial import FilterTrial
from hookline.telemetry.notices import KINDS

PATH = "/api/openapi.json"
_JSON = "application/json"


class Operation(NamedTuple):
    """One method of one path. ``problems`` are the statuses besides those that any call may get."""

    method: str
    path: str
    id: str
    summary: str
    answer: Any
    status: int = 200
    body: Any = None
    body_type: str = _JSON
    answer_type: str = _JSON
    query: tuple[str, ...] = ()
    problems: tuple[int, ...] = ()


_PAGE = ("limit", "after")
_EVENTS = ("source", "type", "event", "userId", "messageId", "fate")
_WRITE = (409, 413, 422)


def _objects(path: str, noun: str, kind: Any, listing: Any) -> tuple[Operation, ...]:
    one = path + "/{id}"
    title = noun.title()
    return (
        Operation("get", path, f"list{title}s", f"List the {noun}s by id.", listing, query=_PAGE),
        Operation("post", path, f"create{title}", f"Create a {noun}.", kind, 201, kind, problems=_WRITE),
        Operation("get", one, f"get{title}", f"Return one {noun}.", kind, problems=(404,)),
        Operation("put", one, f"put{title}", f"Create or replace a {noun}.", kind, body=kind, problems=_WRITE),
        Operation(
            "patch",
            one,
            f"patch{title}",
            f"Change some fields of a {noun} (JSON Merge Patch, RFC 7396: null removes).",
            kind,
            body=dict[str, Any],
            body_type="application/merge-patch+json",
            problems=(404, *_WRITE),
        ),
        Operation("delete", one, f"delete{title}", f"Delete a {noun}.", None, 204, problems=(404, 409)),
    )


_REPLAY = "/api/v1/replays/{id}"
_REPLAYS: tuple[Operation, ...] = (
    Operation(
        "get", "/api/v1/replays", "listReplays", "List the replays, newest first.", Listing[ReplayView], query=_PAGE
    ),
    Operation(
        "post",
        "/api/v1/replays",
        "createReplay",
        "Send stored events again; with `dryRun` only count them (answered 200).",
        ReplayView,
        201,
        ReplayRequest,
        problems=(409, 422),
    ),
    Operation("get", _REPLAY, "getReplay", "Return one replay with its progress.", ReplayView, problems=(404,)),
    Operation(
        "patch",
        _REPLAY,
        "patchReplay",
        "Pause, resume or cancel a replay, or change its rate.",
        ReplayView,
        body=ReplayChange,
        problems=(404, 409, 422),
    ),
    Operation("delete", _REPLAY, "deleteReplay", "Forget an ended replay.", None, 204, problems=(404, 409)),
    *(
        Operation("post", f"{_REPLAY}/{verb}", f"{verb}Replay", summary, ReplayView, problems=(404, 409))
        for verb, summary in (
            ("pause", "Hold a replay until it is resumed; what is in flight still ends."),
            ("resume", "Go on with a paused replay."),
            ("cancel", "End a replay: what it has not sent is not sent, on the record."),
        )
    ),
)

OPERATIONS: tuple[Operation, ...] = (
    *_objects("/api/v1/sources", "source", Source, Listing[Source]),
    *_objects("/api/v1/destinations", "destination", Destination, Listing[Destination]),
    Operation(
        "get",
        "/api/v1/destinations/{id}/metrics",
        "getDestinationMetrics",
        "Return how a destination stands: the state of its lane, and what waits there since when.",
        DestinationStanding,
        problems=(404,),
    ),
    Operation(
        "post",
        "/api/v1/destinations/{id}/disable",
        "disableDestination",
        "Disable a destination; when events wait, `waiting` says what becomes of them (`drain` or `discard`).",
        DestinationStanding,
        body=DisableRequest,
        problems=(404, 409, 422),
    ),
    Operation(
        "post",
        "/api/v1/destinations/{id}/pause",
        "pauseDestination",
        "Park a destination's events until it is resumed; what is in flight still ends.",
        DestinationStanding,
        body=PauseRequest,
        problems=(404, 409, 422),
    ),
    Operation(
        "post",
        "/api/v1/destinations/{id}/resume",
        "resumeDestination",
        "Send what has waited, at most `rate` events per second, and what comes from now on.",
        DestinationStanding,
        body=ResumeRequest,
        problems=(404, 409, 422),
    ),
    Operation(
        "post",
        "/api/v1/destinations/{id}/rotate-secret",
        "rotateSecret",
        "Sign with a new secret, and with the one it replaces until the overlap ends.",
        RotatedSecret,
        body=RotateRequest,
        problems=(404, *_WRITE),
    ),
    Operation(
        "post",
        "/api/v1/destinations/{id}/end-overlap",
        "endOverlap",
        "Sign with the new secret alone from now on.",
        Destination,
        body=EndOverlapRequest,
        problems=(404, *_WRITE),
    ),
    Operation(
        "post",
        "/api/v1/destinations/{id}/filters/test",
        "testFilters",
        "Try filters, saved or not yet, on recent events: how many match, and samples before and after.",
        FilterTrial,
        body=FilterTest,
        problems=(404, 413, 422),
    ),
    Operation("get", "/api/v1/catalog", "listCatalog", "List the kinds of destination.", Listing[CatalogKind]),
    Operation(
        "get",
        "/api/v1/dead-letters",
        "listDeadLetters",
        "List the newest dead letters.",
        Listing[DeadLetter],
        query=(*_PAGE, "destination", "source", "type", "event", "outcome", "letterFate", "givenUpFrom", "givenUpTo"),
    ),
    Operation(
        "get",
        "/api/v1/dead-letters/{id}",
        "getDeadLetter",
        "Return one dead letter with its event, every attempt and the receiver's last answer.",
        DeadLetterDetail,
        problems=(404,),
    ),
    Operation(
        "post",
        "/api/v1/dead-letters/{id}/retry",
        "retryDeadLetter",
        "Send one again: a replay of one event.",
        ReplayView,
        201,
        problems=(404, 409, 422),
    ),
    Operation(
        "post",
        "/api/v1/dead-letters/{id}/discard",
        "discardDeadLetter",
        "Give one up for good: its fate becomes `discarded`.",
        Discarded,
        problems=(404,),
    ),
    Operation(
        "post",
        "/api/v1/dead-letters/retry",
        "retryDeadLetters",
        "Send all that match again: one replay for each destination.",
        Listing[ReplayView],
        body=LetterSelection,
        problems=(409, 422),
    ),
    Operation(
        "post",
        "/api/v1/dead-letters/discard",
        "discardDeadLetters",
        "Give all that match up for good.",
        Discarded,
        body=LetterSelection,
        problems=(422,),
    ),
    *_REPLAYS,
    Operation(
        "get",
        "/api/v1/notices",
        "listNotices",
        "List the newest notices about the system itself.",
        Listing[Notice],
        query=(*_PAGE, "state", "kind"),
    ),
    Operation("get", "/api/v1/notices/{id}", "getNotice", "Return one notice.", Notice, problems=(404,)),
    Operation(
        "post",
        "/api/v1/notices/{id}/acknowledge",
        "acknowledgeNotice",
        "Note that somebody has seen a notice.",
        Notice,
        problems=(404,),
    ),
    Operation(
        "get",
        "/api/v1/events",
        "listEvents",
        "List the newest events with their fates. A page may be short when the search took long; `after` goes on.",
        Listing[EventFate],
        query=(*_PAGE, *_EVENTS),
    ),
    Operation(
        "get",
        "/api/v1/events/stream",
        "streamEvents",
        "Server-sent events: `event` (a new event), `fate` (its fate changed), `skipped` (how many were left out). "
        "With `Last-Event-ID` it goes on where a lost stream was.",
        str,
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
        query=(*_PAGE, "by", "from", "to", "source"),
    ),
    Operation(
        "post",
        "/api/v1/connections/apply",
        "applyConnections",
        "Bring the connections to what a connections file says, or say what that would change.",
        ApplyResult,
        body=ApplyRequest,
        problems=_WRITE,
    ),
    Operation(
        "get",
        "/api/v1/connections/export",
        "exportConnections",
        "Return all connections as a connections file; stored secrets are written as `keep`.",
        str,
        answer_type="application/yaml",
    ),
)

_PARAMETERS: dict[str, tuple[str, dict[str, Any]]] = {
    "limit": (
        "How many items to return at most.",
        {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT},
    ),
    "after": ("The `after` of the last answer.", {"type": "string"}),
    "source": ("Only this source (its id).", {"type": "string"}),
    "destination": ("Only this destination (its id).", {"type": "string"}),
    "state": ("Only notices that are open, or only resolved ones.", {"type": "string", "enum": list(STATES)}),
    "kind": ("Only notices of this kind.", {"type": "string", "enum": list(KINDS)}),
    "outcome": ("Only those whose last attempt ended so.", {"type": "string"}),
    "letterFate": ("`failed`, `expired` or `discarded`.", {"type": "string"}),
    "givenUpFrom": ("Only those given up at or after this time.", {"type": "string", "format": "date-time"}),
    "givenUpTo": ("Only those given up before this time.", {"type": "string", "format": "date-time"}),
    "type": ("Only this message type.", {"type": "string"}),
    "event": ("Only track calls of this event, or pages and screens of this name.", {"type": "string"}),
    "userId": ("Only this user id (or anonymous id, for events without a user).", {"type": "string"}),
    "messageId": ("Only this message id.", {"type": "string"}),
    "by": ("Sum up by day or by month (UTC).", {"type": "string", "enum": ["day", "month"], "default": "month"}),
    "from": ("First day; by default the first of the last day's month.", {"type": "string", "format": "date"}),
    "to": ("Last day; by default today.", {"type": "string", "format": "date"}),
    "fate": ("Only events that have this fate at some destination.", {"type": "string", "enum": list(FATES)}),
}


_NAMES = {"letterFate": "fate", "givenUpFrom": "from", "givenUpTo": "to"}
"""Parameters that are called the same at different addresses and mean something else."""


@get(PATH, opt={"open": True}, sync_to_thread=False)
def get_openapi() -> Response[bytes]:
    """Return the description; it holds nothing secret and needs no token."""
    return Response(msgspec.json.encode(description()), media_type=_JSON)


@cache
def description() -> dict[str, Any]:
    """The whole document."""
    structs = [each for operation in OPERATIONS for each in (operation.answer, operation.body) if _is_struct(each)]
    unique = list({str(each): each for each in [*structs, ProblemBody]}.values())
    schemas, components = msgspec.json.schema_components(unique, ref_template="#/components/schemas/{name}")
    reference = dict(zip(map(str, unique), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation, reference)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Hookline admin API",
            "version": hookline.__version__,
            "description": "Errors are RFC 9457 problem details with a stable `code`.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"adminToken": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"adminToken": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(operation: Operation, reference: dict[str, Any]) -> dict[str, Any]:
    names = [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]
    parameters = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
    for name in operation.query:
        text, schema = _PARAMETERS[name]
        parameters.append({"name": _NAMES.get(name, name), "in": "query", "description": text, "schema": schema})
    made: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.summary,
        "tags": [operation.path.split("/")[3]],
        "parameters": parameters,
        "responses": _responses(operation, reference),
    }
    if operation.body is not None:
        schema = reference.get(str(operation.body), {"type": "object"})
        made["requestBody"] = {"required": True, "content": {operation.body_type: {"schema": schema}}}
    return made


def _responses(operation: Operation, reference: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": "Done."}
    if operation.answer is not None:
        schema = reference.get(str(operation.answer), {"type": "string"})
        answer["content"] = {operation.answer_type: {"schema": schema}}
    responses = {str(operation.status): answer}
    if operation.method == "put":
        responses["201"] = {**answer, "description": "Created."}
    problem = {"description": "A problem.", "content": {MEDIA_TYPE: {"schema": reference[str(ProblemBody)]}}}
    for status in sorted({400, 401, 403, *operation.problems}):
        responses[str(status)] = problem
    return {**responses, "default": problem}


def _is_struct(kind: Any) -> bool:
    return kind is not None and kind is not str and kind != dict[str, Any]
