"""A server on every address of this machine that knows which of them a client has asked for."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType

from hookline.bench.service import free_port

ALLOWED = "127.0.0.2"
"""Here it is a receiver, anywhere else a canary."""


class Canary:
    """Counts the connections that came for another address than ``ALLOWED``; requests to that one get answers."""

    def __init__(self, answer: Callable[[], bytes]) -> None:
        self.port = free_port()
        self.hits: list[str] = []
        self.answered = 0
        self._answer = answer
        self._servers = AsyncExitStack()

    async def __aenter__(self) -> Canary:
        await self._servers.enter_async_context(
            await asyncio.start_server(self._serve, "0.0.0.0", self.port, backlog=4_096)
        )
        if socket.has_ipv6:
            v6 = socket.socket(socket.AF_INET6)
            v6.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            v6.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            v6.bind(("::", self.port))
            await self._servers.enter_async_context(await asyncio.start_server(self._serve, sock=v6))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._servers.aclose()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked_for = writer.get_extra_info("sockname")[0]
        if asked_for != ALLOWED:
            self.hits.append(asked_for)
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                self.answered += asked_for == ALLOWED
                writer.write(self._answer())
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
