"""Answers for what looks into the database before the framework does: who calls, above all."""

from __future__ import annotations

from litestar.types import ASGIApp, Receive, Scope, Send

from hookline.control.problem import MEDIA_TYPE, database_away, render
from hookline.database.sqlite import DatabaseAway


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
