"""The request and answer headers that many operations share."""

from __future__ import annotations

from typing import Any

_TEXT = {"type": "string"}

IDEMPOTENCY_KEY: dict[str, Any] = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Made up by the caller: a request sent again with it within 24 hours gets the first one's answer.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}
IF_MATCH: dict[str, Any] = {
    "name": "If-Match",
    "in": "header",
    "description": "The `ETag` that the object must still have (412 `changed_meanwhile` when it has not).",
    "schema": _TEXT,
}
ETAG: dict[str, Any] = {"description": "Which state of the object this is, for `If-Match`.", "schema": _TEXT}
ANSWER_HEADERS: dict[str, Any] = {
    "X-Request-Id": {"description": "The request's id, the caller's own if it sent one.", "schema": _TEXT},
    "RateLimit": {"description": "What is left of the caller's requests, and until when.", "schema": _TEXT},
    "RateLimit-Policy": {"description": "How many requests a caller may make in how long.", "schema": _TEXT},
}
