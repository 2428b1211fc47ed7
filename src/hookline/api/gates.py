"""Who is turned away before anything else is looked at: strange hosts, and everybody while the database is away."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Receive, Scope, Send

from hookline.api.problem import MEDIA_TYPE, Problem, database_away, render
from hookline.database.sqlite import DatabaseAway
from hookline.settings import Settings, parse_listen


class DatabaseGate:
    """ASGI wrapper: 503 with ``Retry-After`` where a database cannot be used."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request."""
        try:
            await self._app(scope, receive, send)
        except DatabaseAway as away:
            problem = database_away(away)
            body = render(problem, scope["path"])
            headers = [
                (b"content-type", MEDIA_TYPE.encode()),
                (b"content-length", str(len(body)).encode()),
                *((name.lower().encode(), value.encode()) for name, value in problem.headers.items()),
            ]
            await send({"type": "http.response.start", "status": problem.status, "headers": headers})
            await send({"type": "http.response.body", "body": body, "more_body": False})


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
        if scope["type"] != ScopeType.HTTP or scope["path"] in OPEN_PATHS or self._names.allows(_host_header(scope)):
            await self._app(scope, receive, send)
            return
        problem = Problem(
            421,
            "unknown_host",
            "This server does not answer to that host name; set control.public_url to the address you use.",
        )
        body = render(problem, scope["path"])
        headers = [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": problem.status, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})


def _host_header(scope: Scope) -> str:
    values = [value for name, value in scope["headers"] if name == b"host"]
    return values[0].decode("latin-1") if len(values) == 1 else ""
