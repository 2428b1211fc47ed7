"""A wire between an SDK and the service: passes bytes on both ways as they come and keeps them.

It changes nothing, so that connections are kept, packed, cut and closed as the SDK does it. With ``tls`` it is what a
reverse proxy is in production: https in front of it, plain HTTP behind. It may be told to lose the first answer to a
POST, as a network does that breaks in the wrong moment.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.service.sdks.wire import Message, messages
from tests.service.waiting import WAIT_SECONDS

READ_BYTES_MAX = 64 * 1024
TLS_PORT = 443


@dataclass
class Connection:
    """What went over one connection, each way."""

    sent: bytearray = field(default_factory=bytearray)
    answered: bytearray = field(default_factory=bytearray)

    @property
    def requests(self) -> list[Message]:
        """The requests of this connection."""
        return list(messages(bytes(self.sent)))

    @property
    def posts(self) -> list[Message]:
        """Those that carry something."""
        return [request for request in self.requests if request.method == "POST"]

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events in them, with context, integrations and sentAt of their batch merged in."""
        return [event for post in self.posts for event in _events(post.json)]

    @property
    def answers(self) -> list[Message]:
        """The answers to them; a client that did not wait for the last ones may have fewer."""
        return list(messages(bytes(self.answered)))


class Tap:
    """A context manager that listens on ``port`` and passes everything on to ``upstream_port``."""

    def __init__(
        self, upstream_port: int, port: int = 0, tls: ssl.SSLContext | None = None, *, loses_an_answer: bool = False
    ) -> None:
        self.port = port
        self.connections: list[Connection] = []
        self._upstream_port = upstream_port
        self._tls = tls
        self._loses = loses_an_answer
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._serving: set[asyncio.Task[None] | None] = set()
        """A task for each connection. Of one whose client has ended its half nothing else holds on to the task, and the
        collector would take it away before the answer."""
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Tap:
        self._thread.start()
        assert self._started.wait(WAIT_SECONDS), "tap did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_SECONDS)

    @property
    def url(self) -> str:
        """The address an SDK is given."""
        return f"{'https' if self._tls else 'http'}://{self.host}"

    @property
    def host(self) -> str:
        """The same for an SDK that puts the scheme before it by itself; 443 is the port it takes then."""
        return "127.0.0.1" if self.port == TLS_PORT else f"127.0.0.1:{self.port}"

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self._tls))
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        self._loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task, connection = asyncio.current_task(), Connection()
        self._serving.add(task)
        self.connections.append(connection)
        behind_reader, behind = await asyncio.open_connection("127.0.0.1", self._upstream_port)
        try:
            await asyncio.gather(
                _pass_on(reader, behind, connection.sent, lambda: False),
                _pass_on(behind_reader, writer, connection.answered, lambda: self._is_lost(connection)),
            )
        finally:
            self._serving.discard(task)
            writer.close()
            behind.close()

    def _is_lost(self, connection: Connection) -> bool:
        lost, self._loses = self._loses and bool(connection.posts), self._loses and not connection.posts
        return lost


def _events(envelope: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for event in envelope.get("batch", [envelope]):
        under: dict[str, Any] = {name: envelope[name] for name in ("context", "integrations") if name in envelope}
        merged = {name: {**value, **(event.get(name) or {})} for name, value in under.items()}
        yield {"sentAt": envelope.get("sentAt"), **event, **merged}


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kept: bytearray, is_lost: Callable[[], bool]
) -> None:
    try:
        while chunk := await reader.read(READ_BYTES_MAX):
            if is_lost():
                writer.transport.abort()
                return
            kept += chunk
            writer.write(chunk)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
        else:
            writer.close()  # TLS cannot be shut one way
    except (OSError, asyncio.CancelledError):
        writer.close()
