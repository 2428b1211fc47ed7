"""What browsers on other sites must be told before they may send events here; only the collection paths say it."""

from __future__ import annotations

ANSWER_HEADERS = b"Access-Control-Allow-Origin: *\r\nAccess-Control-Expose-Headers: Retry-After\r\n"
"""On every answer of a collection path. No credentials are ever allowed, so any origin may be."""

_ALLOWED_HEADERS = (
    b"authorization, content-type, content-encoding, x-retry-count, anonymousid, sentat, traceparent, "
    b"x-write-key, x-enable-debug, x-ip-policy"
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
