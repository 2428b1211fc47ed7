"""An application that costs nothing until somebody asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from litestar.types import ASGIApp, Receive, Scope, Send


class Deferred:
    """ASGI application made by ``make`` at its first request, in a thread; that request waits, others go on."""

    def __init__(self, make: Callable[[], ASGIApp]) -> None:
        self._make = make
        self._made: ASGIApp | None = None
        self._making = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request; raise what ``make`` raises."""
        app = self._made or await self._first()
        await app(scope, receive, send)

    async def _first(self) -> ASGIApp:
        async with self._making:
            if self._made is None:
                self._made = await asyncio.to_thread(self._make)
        return self._made
