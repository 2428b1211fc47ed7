"""ASGI applications without a lifespan of their own, Django's among them: what waits is sent when the server ends.

A server such as uvicorn ends itself by the signal that it got, and Python's own exit, which would flush, never comes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from hookline_client import module
from hookline_client.aio import elsewhere
from hookline_client.client import FLUSH_SECONDS, Client

Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
Application = Callable[[Event, Receive, Send], Awaitable[None]]


class FlushAtShutdown:
    """``application`` around ``get_asgi_application()``; flushes ``client``, or else that of ``init``."""

    def __init__(self, application: Application, client: Client | None = None, timeout: float = FLUSH_SECONDS) -> None:
        self._application = application
        self._client = client
        self._timeout = timeout

    async def __call__(self, scope: Event, receive: Receive, send: Send) -> None:
        """Pass everything on but the lifespan, which is answered here."""
        if scope["type"] != "lifespan":
            await self._application(scope, receive, send)
            return
        await receive()  # startup
        await send({"type": "lifespan.startup.complete"})
        await receive()  # shutdown
        await elsewhere(self._flush)
        await send({"type": "lifespan.shutdown.complete"})

    def _flush(self) -> None:
        if self._client is not None:
            self._client.flush(self._timeout)
        else:
            module.flush(self._timeout)
