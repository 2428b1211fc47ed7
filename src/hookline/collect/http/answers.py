"""The answers of the collection edge as finished bytes; which answer is due is decided elsewhere.

Every body is a JSON object and success is exactly 200: SDKs post again on an empty body or any other 2xx. Browsers of
any page may read them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from http import HTTPStatus

import msgspec

from hookline.collect.decode import RETRY_AFTER_SECONDS, RETRY_AFTER_SECONDS_MAX
from hookline.events.warnings import EventWarning
from hookline.journal.record import Rejection

ANSWER_HEADERS = b"Access-Control-Allow-Origin: *\r\nAccess-Control-Expose-Headers: Retry-After\r\n"
"""On every answer of a collection path. No credentials are ever allowed, so any origin may be."""

# What tracing in pages adds (OpenTelemetry, Sentry, Datadog) is allowed too, although only traceparent is used: with a
# header that is not allowed a browser sends no call at all.
_ALLOWED_HEADERS = (
    b"authorization, content-type, content-encoding, x-retry-count, anonymousid, sentat, "
    b"x-write-key, x-enable-debug, x-ip-policy, traceparent, tracestate, baggage, sentry-trace, "
    b"x-datadog-origin, x-datadog-parent-id, x-datadog-sampling-priority, x-datadog-trace-id"
)
_MAX_AGE_SECONDS = 86_400  # without it one preflight per path and event

FETCH_HEADERS = ANSWER_HEADERS + b"Cross-Origin-Resource-Policy: cross-origin\r\n"
"""On what pages of other sites load: also those that ask everything they load for this."""


def _preflight(methods: bytes) -> bytes:
    lines = (
        b"HTTP/1.1 204 No Content",
        b"Access-Control-Allow-Methods: " + methods,
        b"Access-Control-Allow-Headers: " + _ALLOWED_HEADERS,
        b"Access-Control-Max-Age: %d" % _MAX_AGE_SECONDS,
        b"Allow: " + methods,
        b"Vary: Access-Control-Request-Headers",
    )
    return b"\r\n".join(lines) + b"\r\n" + ANSWER_HEADERS + b"\r\n"


CALL_METHODS = b"POST, OPTIONS"
FETCH_METHODS = b"GET, HEAD, OPTIONS"
PREFLIGHT = _preflight(CALL_METHODS)
"""The answer to OPTIONS on a collection path, whatever the write key: browsers send none with it."""
FETCH_PREFLIGHT = _preflight(FETCH_METHODS)
"""The answer to OPTIONS on a path that is fetched."""


ERRORS: dict[str, tuple[int, str]] = {
    "malformed_request": (400, "The HTTP request is malformed; send plain HTTP/1.1 as RFC 9112 defines it."),
    "incomplete_body": (400, "The connection closed before the body was complete; send all bytes of Content-Length."),
    "invalid_json": (400, "The body is not valid JSON; send one JSON object in UTF-8."),
    "invalid_utf8": (400, "The body is not valid UTF-8; send JSON encoded as UTF-8."),
    "invalid_gzip": (400, "The body is not complete, valid gzip; compress it again or remove Content-Encoding."),
    "invalid_body": (400, "The body has the wrong shape; send a JSON object, with an array named batch for a batch."),
    "nesting_too_deep": (400, "The JSON is nested deeper than 128 levels; flatten it."),
    "invalid_item": (400, "An event must be a JSON object."),
    "invalid_field": (400, "userId, anonymousId, event, groupId and previousId must be strings or numbers."),
    "invalid_message_id": (400, "messageId must be a string of at most 512 characters; leave it out to get one."),
    "missing_user_id": (400, "Send userId or anonymousId; an alias needs userId."),
    "missing_previous_id": (400, "An alias needs previousId beside userId."),
    "missing_event": (400, "A track call needs event, the name of what happened."),
    "missing_group_id": (400, "A group call needs groupId."),
    "missing_type": (400, "An event of a batch needs type."),
    "unknown_type": (400, "type must be identify, track, page, screen, group or alias."),
    "invalid_query": (
        400,
        "The query has no event; send data=BASE64 of its JSON, or its fields: userId=u1&event=Open.",
    ),
    "missing_write_key": (401, "Send the source's write key as HTTP Basic user name, in the body or in the query."),
    "unknown_write_key": (401, "No source has this write key; copy it from the source's settings."),
    "source_disabled": (401, "The source of this write key is disabled; enable it to send events."),
    "not_found": (404, "There is nothing at this path; send events to /v1/batch, /v1/track and the other call types."),
    "method_not_allowed": (405, "This path does not take this method; see the Allow header."),
    "request_timeout": (408, "The request took too long to arrive: 10 s for the headers, 30 s for the body."),
    "event_too_large": (413, "An event may have at most 32,768 bytes, a batch's context included; send less."),
    "batch_too_large": (413, "A batch may have at most 512,000 bytes, or its source's batchBytes; split it."),
    "too_many_events": (413, "A batch may hold at most 2,500 events; split it."),
    "stores_too_much": (
        413,
        "The events, each with the batch's context, take more than 2 MB; send fewer at a time or a smaller context.",
    ),
    "unsupported_encoding": (415, "Content-Encoding must be gzip or absent."),
    "expectation_failed": (417, "The only supported expectation is 100-continue."),
    "rate_limited": (429, "The rate limit is exceeded; send it again after the seconds in the Retry-After header."),
    "headers_too_large": (431, "The request's head is too large: 8 KB of target, 100 headers, 64 KB in all."),
    "internal_error": (500, "Hookline failed on this request; it is logged. Send it again."),
    "not_ready": (503, "Hookline is starting; send it again in a moment."),
    "stopping": (
        503,
        "Hookline is stopping here; it still accepts requests on this connection, but no new connections.",
    ),
    "connections_unread": (
        503,
        "Hookline cannot read the connections right now to check this write key; send it again.",
    ),
    "overloaded": (503, "Too much is arriving at once; send it again in a moment."),
    "too_many_connections": (503, "Too many connections are open; send it again in a moment."),
    "journal_full": (503, "There is no room to store events right now; send it again in a moment."),
    "journal_budget_spent": (503, "Events waiting for delivery fill the journal; send it again later."),
    "journal_away": (503, "The brokers that store events do not accept them right now; send it again in a moment."),
    "journal_failed": (503, "Events cannot be stored right now; send it again in a moment."),
    "http_version_not_supported": (505, "Only HTTP/1.1 and HTTP/1.0 are supported."),
}
"""Every code with its status and its sentence."""

_OK_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + ANSWER_HEADERS + b"Content-Length: "
_SINGLE_START = b'{"success": true, "messageId": '
_encode = msgspec.json.Encoder().encode

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
GIF = (
    b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x00\x00"
    b",\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;"
)
"""One transparent pixel."""


class RejectedItem(msgspec.Struct, rename="camel", gc=False):
    """One refused event of a batch, as the answer lists it."""

    index: int
    message_id: str | None
    code: str
    message: str


WARNINGS_MAX = 50
"""How many warnings one answer lists; ``moreWarnings`` says that there are more."""


class ListedWarning(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """Hold what was understood otherwise than sent, as the answer lists it; ``index`` and ``message_id`` in a batch."""

    code: str
    field: str
    message: str
    index: int | None = None
    message_id: str | None = None


def answer(status: int, body: bytes, headers: bytes = ANSWER_HEADERS, media_type: str = "application/json") -> bytes:
    """Return a whole answer; ``headers`` are complete lines."""
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: {media_type}\r\n"
        f"Content-Length: {len(body)}\r\n"
    )
    return b"".join((head.encode(), headers, b"\r\n", body))


def accepted(message_id: str, warnings: Sequence[EventWarning] = ()) -> bytes:
    """Return the answer to a stored single call."""
    quoted = _encode(message_id)
    if warnings:
        quoted += b', "warnings": ' + _encode(warnings)
    length = len(_SINGLE_START) + len(quoted) + 1
    return b"%b%d\r\n\r\n%b%b}" % (_OK_HEAD, length, _SINGLE_START, quoted)


def batch_accepted(count: int, rejected: list[RejectedItem], warnings: Sequence[ListedWarning] = ()) -> bytes:
    """Return the answer to a stored batch: how many were accepted, each one that was not with its reason, and
    warnings."""
    body = b'{"success": true, "accepted": %d, "rejected": %b}' % (count, _encode(rejected))
    if warnings:
        more = b', "moreWarnings": true' if len(warnings) > WARNINGS_MAX else b""
        body = b'%b, "warnings": %b%b}' % (body[:-1], _encode(warnings[:WARNINGS_MAX]), more)
    return b"%b%d\r\n\r\n%b" % (_OK_HEAD, len(body), body)


@lru_cache(RETRY_AFTER_SECONDS_MAX)
def rate_limited(retry_seconds: int) -> bytes:
    """Return the answer to a call that comes too early, by so many seconds."""
    return error("rate_limited", retry_seconds=retry_seconds)


def error(code: str, headers: bytes = ANSWER_HEADERS, retry_seconds: int = RETRY_AFTER_SECONDS) -> bytes:
    """Return the answer to a refused request."""
    status, message = ERRORS[code]
    detail = {"code": code, "message": message}
    # code and message at the top for RudderStack's SDKs, `error` for Ruby's: each posts again without its own.
    body = _encode({"success": False, **detail, "error": detail})
    if status in (429, 503):
        headers += b"Retry-After: %d\r\n" % retry_seconds
    return answer(status, body, headers)


def picture(code: str | None = None) -> bytes:
    """Return the answer to a pixel: always a picture, because nobody reads what is wrong where it is shown.

    A mistake of the caller's is answered 200 and named in a header; only when events cannot be stored it is 503.
    """
    headers = b"Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n" + FETCH_HEADERS
    status = 200 if code is None or ERRORS[code][0] < 500 else 503
    if code is not None:
        headers += b"X-Hookline-Error: %b\r\n" % code.encode()
    if status == 503:
        headers += b"Retry-After: %d\r\n" % RETRY_AFTER_SECONDS
    return answer(status, GIF, headers, "image/gif")


REJECTIONS = {code: Rejection(code, sentence) for code, (status, sentence) in ERRORS.items() if status in (400, 413)}
"""The reason kept with a refused event, by code."""
_SUCCESS_BODY = b'{"success": true}'
DROPPED = answer(200, _SUCCESS_BODY)
ALIVE = answer(200, b'{"status": "alive"}', b"")
READY = answer(200, b'{"status": "ready"}', b"")
READY_WITH_KEPT = answer(200, b'{"status": "ready", "connections": "kept"}', b"")
"""By the connections as they last were: the database has not been met since the start."""
NOT_READY = error("not_ready", b"")
NOT_READY_STOPPING = error("stopping", b"")
NOT_READY_AWAY = error("journal_away", b"")
NOT_FOUND = error("not_found", b"")
BY_CODE = {code: error(code) for code in ERRORS}
"""The answer to a refused call, by code."""
PIXEL = picture()
PIXEL_BY_CODE = {code: picture(code) for code in ERRORS}
"""The answer to a refused pixel, by code."""
