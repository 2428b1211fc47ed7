"""What browsers on other sites must be told before they may send events here; only the collection paths say it."""

from __future__ import annotations

ANSWER_HEADERS = b"Access-Control-Allow-Origin: *\r\nAccess-Control-Expose-Headers: Retry-After\r\n"
"""On every answer of a collection path. No credentials are ever allowed, so any origin may be."""

_ALLOWED_HEADERS = b"authorization, content-type, content-encoding, x-retry-count, anonymousid, sentat, traceparent"
_MAX_AGE_SECONDS = 86_400  # without it one preflight per path and event

PREFLIGHT = (
    b"HTTP/1.1 204 No Content\r\n"
    + ANSWER_HEADERS
    + b"Access-Control-Allow-Methods: POST, OPTIONS\r\n"
    + b"Access-Control-Allow-Headers: "
    + _ALLOWED_HEADERS
    + b"\r\nAccess-Control-Max-Age: %d\r\n" % _MAX_AGE_SECONDS
    + b"Allow: POST, OPTIONS\r\nVary: Access-Control-Request-Headers\r\n\r\n"
)
"""The answer to OPTIONS on a collection path, whatever the write key: browsers send none with it."""
