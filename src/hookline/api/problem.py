"""Errors of the admin API as RFC 9457 problem details, whatever raised them.

A ``Problem`` is raised by handlers, which ``handlers.respond`` answers with its document, and ``answer`` is for what
stands before them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec

from hookline.api.calls import current_call
from hookline.database.sqlite import DatabaseAway, DatabaseUnreadable
from hookline.telemetry.log import logger

if TYPE_CHECKING:
    from litestar.types import Send

MEDIA_TYPE = "application/problem+json"
AWAY_RETRY_SECONDS = 5
TYPE_PREFIX = "/docs/errors#"
"""Relative to this server, which serves the page itself."""


class FieldError(msgspec.Struct, frozen=True):
    """One thing wrong with a request: where (JSON pointer into the body, or ``?name`` for a parameter) and what."""

    pointer: str
    detail: str


class ProblemBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The body of every error (RFC 9457): ``code`` is stable, ``detail`` says what to do."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    errors: tuple[FieldError, ...] = ()
    request_id: str | None = None


class Problem(Exception):
    """A request that cannot be served, with everything its answer needs."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = tuple(errors)
        self.headers = dict(headers or {})


CODES: dict[int, tuple[str, str]] = {
    400: ("invalid_request", "The request cannot be read; see the API description at /api/openapi.json."),
    401: ("unauthorized", "Send a token (Authorization: Bearer TOKEN), or sign in."),
    403: ("forbidden", "This request is not allowed."),
    404: ("not_found", "There is nothing at this address; see the API description at /api/openapi.json."),
    405: ("method_not_allowed", "This address does not take that method; the Allow header lists those it takes."),
    412: ("changed_meanwhile", "This was changed meanwhile; read it again and repeat the change on what it is now."),
    415: ("unsupported_media_type", "Send a JSON body."),
    429: ("too_many_requests", "Too many requests; wait as long as Retry-After says."),
    500: ("internal_error", "Hookline failed to serve this; the log has the details under the instance named here."),
    503: ("unavailable", "Hookline cannot serve this right now; try again in a moment."),
}
"""What the framework's own errors are called, by status."""


def render(problem: Problem, instance: str) -> bytes:
    """Return the document itself."""
    call = current_call()
    body = ProblemBody(
        type=TYPE_PREFIX + problem.code,
        title=HTTPStatus(problem.status).phrase,
        status=problem.status,
        detail=problem.detail,
        instance=instance,
        code=problem.code,
        errors=problem.errors,
        request_id=None if call is None else call.id,
    )
    return msgspec.json.encode(body)


async def answer(send: Send, problem: Problem, instance: str) -> None:
    """Send the document, for what answers before the framework does."""
    body = render(problem, instance)
    headers = [
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
        *((name.lower().encode(), value.encode()) for name, value in problem.headers.items()),
    ]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def log_fault(error: Exception, method: str) -> str:
    """Log a fault of ours, and return the instance under which it is found. It leaves open what was done before."""
    if (call := current_call()) is not None:
        call.leaves_open = True
    instance = f"urn:uuid:{uuid4()}"
    logger().error("internal_error", instance=instance, method=method, exc_info=error)
    return instance


def body_too_large(bytes_max: int) -> Problem:
    """Return the problem of a body that is larger than its route takes."""
    return Problem(413, "body_too_large", f"The body is too large; send at most {bytes_max:,} bytes.")


def not_found(what: str, object_id: str) -> Problem:
    """Return the problem of an id that names nothing."""
    return Problem(404, "not_found", f"There is no {what} with the id {object_id!r}.")


def database_away(away: DatabaseAway) -> Problem:
    """Return the problem of a request while a database cannot be used, or what another role wrote there cannot
    be read."""
    retry = {"Retry-After": str(AWAY_RETRY_SECONDS)}
    if isinstance(away, DatabaseUnreadable):
        return Problem(503, away.code, f"{away}; events are still accepted. Try again in a moment.", headers=retry)
    meaning = away.meaning[0].upper() + away.meaning[1:]
    doubt = "a change in progress may have been made, so check before you repeat it"
    again = "nothing was changed"
    if away.kind == "away":
        again = doubt
        if (call := current_call()) is not None:
            call.leaves_open = True
    detail = f"{meaning}; events are still accepted. {away.next_step} Then try again: {again}."
    return Problem(503, away.code, detail, headers=retry)


def cut_short() -> Problem:
    """Return the problem of a request that was still being answered when this process had to end."""
    detail = (
        "Control is stopping, and this took too long to wait for. Try again in a moment; a change in progress may"
        " have been made, so check before you repeat it."
    )
    return Problem(503, "stopping", detail, headers={"Retry-After": str(AWAY_RETRY_SECONDS)})


def invalid_body(error: msgspec.DecodeError | UnicodeDecodeError, within: str = "") -> Problem:
    """Return the problem of a body that is not JSON, or not of the right shape; ``within`` is the pointer to what was
    read of it."""
    if not isinstance(error, msgspec.ValidationError):
        return Problem(400, "malformed_json", f"The body is not JSON: {error}.")
    message, _, place = str(error).partition(" - at ")
    pointer = within + _pointer(place)
    if missing := re.fullmatch("Object missing required field `(.+)`", message):
        message, pointer = f"{missing[1]!r} is missing; add it", f"{pointer}/{missing[1]}"
    field = FieldError(pointer=pointer, detail=message)
    where = f" at {field.pointer}" if field.pointer else ""
    return Problem(422, "invalid_object", f"{message}{where}.", [field])


def pointer_of(path: str) -> str:
    """``settings.webhooks[0].url`` as the JSON pointer ``/settings/webhooks/0/url``; a name that holds a dot stands in
    brackets and quotes."""
    parts = (json.loads(quoted) if quoted else part for quoted, part in _STEP.findall(path))
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


_STEP = re.compile(r'\[("(?:[^"\\]|\\.)*")\]|([^.\[\]]+)')


def _pointer(place: str) -> str:
    # msgspec writes "`$.settings.webhooks[0].url`", or "`key` in `$.settings`" for the key of a map.
    quoted = re.findall(r"`([^`]*)`", place)
    return pointer_of(quoted[-1].removeprefix("$")) if quoted else ""
