"""Refuses requests that name another host, so that a web page cannot reach a local Hookline by rebinding its DNS."""

from __future__ import annotations

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Receive, Scope, Send

from hookline.control.host_names import OPEN_PATHS, HostNames
from hookline.control.problem import MEDIA_TYPE, Problem, render
from hookline.settings import Settings


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
