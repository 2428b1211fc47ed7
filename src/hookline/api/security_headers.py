"""The headers that every answer of the control port carries, and the strict content security policy of its pages."""

from __future__ import annotations

from litestar.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)

HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    # Not `no-referrer`: with it a browser sends `Origin: null` on our own forms, which the origin check must refuse.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)


class SecurityHeaders:
    """ASGI wrapper that adds them, and ``no-store`` unless the answer says how long it may be kept."""

    def __init__(self, app: ASGIApp, over_tls: bool) -> None:
        self._app = app
        self._headers = HEADERS
        if over_tls:
            self._headers += ((b"strict-transport-security", b"max-age=31536000"),)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request with the headers added to its answer."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers", ()))
                names = {name for name, _ in given}
                given.extend(header for header in self._headers if header[0] not in names)
                if b"cache-control" not in names:
                    given.append((b"cache-control", b"no-store"))
                message["headers"] = given
            await send(message)

        await self._app(scope, receive, send_with_headers)
