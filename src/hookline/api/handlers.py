"""What handlers share that is the framework's: how they are given the services, and how what they raise is answered.

Everything that is raised (a problem of ours, no such path, wrong method, body too large, a bug) gets one shape with a
stable ``code``.
"""

from __future__ import annotations

from typing import Any, cast

from litestar import Request, Response
from litestar.di import NamedDependency
from litestar.exceptions import HTTPException, ValidationException
from litestar.exceptions.http_exceptions import RequestEntityTooLarge
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.datastructures import ResponseSpec

from hookline.api.problem import (
    CODES,
    MEDIA_TYPE,
    FieldError,
    Problem,
    ProblemBody,
    body_too_large,
    database_away,
    log_fault,
    render,
)
from hookline.api.services import Services
from hookline.database.sqlite import DatabaseAway
from hookline.journal.port import JournalAway

FromServices = NamedDependency[Services]
"""What a handler writes to be given them."""


def problems(*statuses: int) -> dict[int, ResponseSpec]:
    """Say in the API's description that a call may be answered with these, besides what every call of its kind may."""
    return {status: ResponseSpec(ProblemBody, media_type=MEDIA_TYPE, generate_examples=False) for status in statuses}


def respond(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Answer any exception as a problem document; log those that are our own fault."""
    problem = _too_large(request) if isinstance(error, RequestEntityTooLarge) else _problem_of(error)
    instance = request.scope["path"]
    if problem.status >= 500 and not isinstance(error, Problem | JournalAway | DatabaseAway):
        instance = log_fault(error, request.method)
    return Response(
        render(problem, instance), status_code=problem.status, media_type=MEDIA_TYPE, headers=problem.headers
    )


def _too_large(request: Request[Any, Any, Any]) -> Problem:
    bytes_max = cast(HTTPRouteHandler, request.scope["route_handler"]).resolve_request_max_body_size()
    assert bytes_max is not None, "a body is too large for a limit"
    return body_too_large(bytes_max)


def _problem_of(error: Exception) -> Problem:
    if isinstance(error, Problem):
        return error
    if isinstance(error, ValidationException) and isinstance(error.extra, list):
        if any(item.get("source") == "body" for item in error.extra):  # the framework looks for no more than that
            return Problem(400, "malformed_json", "The body is not JSON: it is empty.")
        fields = [FieldError("?" + str(item.get("key", "")), str(item.get("message", ""))) for item in error.extra]
        names = "; ".join(f"{field.pointer[1:]}: {field.detail}" for field in fields)
        return Problem(400, "invalid_parameter", f"A parameter cannot be used: {names}.", fields)
    if isinstance(error, DatabaseAway):
        return database_away(error)
    if isinstance(error, JournalAway):
        return Problem(503, "unavailable", f"{error}.", headers={"Retry-After": str(error.retry_after_seconds)})
    status = error.status_code if isinstance(error, HTTPException) else 500
    code, detail = CODES.get(status) or CODES[400 if status < 500 else 500]
    headers = error.headers if isinstance(error, HTTPException) else None
    return Problem(status, code, detail, headers=headers)
