"""Stand before every answer of the control port: turn away strange hosts, and everybody while the database is away;
serve below a path of the host; and send the security headers.

Nothing else knows of the path (``control.public_url``): what arrives with it loses it here, as with a proxy that takes
it off, and the addresses in what leaves get it. In pages these are attributes, which only our templates write: what
people and events say is escaped, and holds no quotes. In scripts they are literals.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
from gzip import compress, decompress
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from hookline.api.calls import is_http
from hookline.api.problem import Problem, answer, cut_short, database_away
from hookline.database.sqlite import DatabaseAway
from hookline.settings import Settings, parse_listen

if TYPE_CHECKING:
    from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send


class DatabaseGate:
    """ASGI wrapper: 503 with ``Retry-After`` where a database cannot be used."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request."""
        try:
            await self._app(scope, receive, send)
        except DatabaseAway as away:
            await answer(send, database_away(away), scope["path"])


class StopGate:
    """ASGI wrapper: 503 with ``Retry-After`` for a request that a stop of this process does not wait for.

    Only the server's stop cancels a request. What was being sent then ends where it is.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request."""
        begun = False

        async def note_begin(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, note_begin)
        except asyncio.CancelledError:
            if begun or not is_http(scope):
                raise
            await answer(send, cut_short(), scope["path"])


LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
# Probes come by whatever name the platform uses, and learn nothing but "alive".
OPEN_PATHS = frozenset({"/healthz", "/readyz"})


class HostNames:
    """A loopback name, the listen host, and the host of ``control.public_url``."""

    def __init__(self, settings: Settings) -> None:
        self._allowed, self._any_address = allowed_hosts(settings)

    def allows(self, host_header: str) -> bool:
        """Return whether a Host header names this server; its port does not matter."""
        host = _host_of(host_header)
        return host in self._allowed or (self._any_address and _is_address(host))


def allowed_hosts(settings: Settings) -> tuple[frozenset[str], bool]:
    """Return the names in lower case, and whether any IP address is one too.

    Listening on every interface, the server has addresses it need not know; rebinding needs a name, so a literal
    address is safe.
    """
    listen_host = parse_listen(settings.control.listen)[0].lower()
    names = set(LOOPBACK_NAMES) | {listen_host}
    if settings.control.public_url:
        names.add((urlsplit(settings.control.public_url).hostname or "").lower())
    return frozenset(names - {""}), listen_host in ("0.0.0.0", "::")


def _host_of(header: str) -> str:
    text = header.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0].removesuffix(".")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class HostGate:
    """ASGI wrapper: 421 unless Host is a loopback name, the listen host, or the host of ``control.public_url``."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._names = HostNames(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on or refuse."""
        if not is_http(scope) or scope["path"] in OPEN_PATHS or self._names.allows(_host_header(scope)):
            await self._app(scope, receive, send)
            return
        problem = Problem(
            421,
            "unknown_host",
            "This server does not answer to that host name; set control.public_url to the address you use.",
        )
        await answer(send, problem, scope["path"])


def _host_header(scope: Scope) -> str:
    values = [value for name, value in scope["headers"] if name == b"host"]
    return values[0].decode("latin-1") if len(values) == 1 else ""


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


GZIP_LEVEL = 3
"""As pages are packed (``web/rendering.py``): what is unpacked here is what we packed."""

_WRITTEN_KINDS = (b"text/html", b"text/javascript")
_ATTRIBUTE = re.compile(rb'(\s(?:href|src|action|data-(?:api|then|href|attempt|recent|index|root))=")([^"]*)')
_IN_ATTRIBUTE = re.compile(rb"(^| )/(?!/)")
"""Some hold a method before the address, or several addresses."""
_REFRESH = re.compile(rb'(\scontent="0;url=)/(?!/)')
_IN_SCRIPT = re.compile(rb"([\"'`])/(?=(?:api/v1|audiences|destinations|events|login|people|replays|setup|sources)\b)")


def path_of(settings: Settings) -> str:
    """Return the path that people reach control under, empty where there is none."""
    return urlsplit(settings.control.public_url or "").path.rstrip("/")


class UnderPath:
    """ASGI wrapper around all that control serves; proxies may take the path off or leave it."""

    def __init__(self, app: ASGIApp, path: str) -> None:
        self._app = app
        self._path = path
        self._raw = path.encode("ascii")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request as if there were no path, and put it into the answer."""
        if not is_http(scope):
            await self._app(scope, receive, send)
            return
        is_read = cast("HTTPScope", scope)["method"] != "HEAD"
        held: list[dict[str, Any]] = []
        """The beginning of an answer whose length changes."""

        async def send_under_path(message: Message) -> None:
            event = cast(dict[str, Any], message)
            if event["type"] == "http.response.start":
                event["headers"] = [
                    (name, self._location(value) if name == b"location" else value) for name, value in event["headers"]
                ]
                if is_read and _kind(event) in _WRITTEN_KINDS:
                    held.append(event)
                    return
            elif held:
                start = held.pop()
                if event.get("body") and not event.get("more_body"):
                    self._write(start, event)
                await send(cast("Message", start))
            await send(message)

        await self._app(self._without(scope), receive, send_under_path)

    def _write(self, start: dict[str, Any], event: dict[str, Any]) -> None:
        is_packed = (b"content-encoding", b"gzip") in start["headers"]
        body = self._written(decompress(event["body"]) if is_packed else event["body"])
        event["body"] = body = compress(body, GZIP_LEVEL, mtime=0) if is_packed else body
        start["headers"] = [each for each in start["headers"] if each[0] != b"content-length"]
        start["headers"].append((b"content-length", str(len(body)).encode()))

    def _without(self, scope: Scope) -> Scope:
        path, raw = scope["path"], scope.get("raw_path") or b""
        if path != self._path and not path.startswith(self._path + "/"):
            return scope
        stripped = dict(scope)
        stripped["path"] = path.removeprefix(self._path) or "/"
        stripped["raw_path"] = raw.removeprefix(self._raw) or b"/"
        return stripped  # type: ignore[return-value]  # a copy of one

    def _location(self, value: bytes) -> bytes:
        there = not value.startswith(b"/") or value.startswith((b"//", self._raw + b"/"))
        return value if there else self._raw + value

    def _written(self, body: bytes) -> bytes:
        address = rb"\1" + self._raw + b"/"
        if body.lstrip().startswith(b"<"):
            body = _ATTRIBUTE.sub(lambda found: found[1] + _IN_ATTRIBUTE.sub(address, found[2]), body)
            return _REFRESH.sub(address, body)
        return _IN_SCRIPT.sub(address, body)


def _kind(start: dict[str, Any]) -> bytes:
    kind: bytes = dict(start["headers"]).get(b"content-type", b"")
    return kind.partition(b";")[0]
