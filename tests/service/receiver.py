"""A real HTTP receiver on loopback that records every request and answers as told; it runs in a thread of its own.

Hostile receivers (resets, drips, endless answers) are not here: they need raw sockets and live beside their tests.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
import time
from collections import defaultdict
from collections.abc import Callable, KeysView
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from tests.service.waiting import WAIT_SECONDS, wait_until

HEAD_BYTES_MAX = 64 * 1024
BACKLOG = 1_024
"""Connections that come at once: one that finds no place is lost to who tries only for a while."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it arrived. ``headers`` has lower-case names, ``raw_headers`` the lines as written.

    It has slots, and no cached property: where two threads ask for the ``__dict__`` of an instance for the first time,
    and the garbage collector runs in the one that was first, Python 3.11 gives each one of its own, with the same
    values, and ends the process when they are freed twice.
    """

    method: str
    path: str
    headers: dict[str, str]
    raw_headers: list[tuple[str, str]]
    body: bytes
    at: float
    """Monotonic seconds when the last byte of the body was read."""
    connection: int
    """Number of the TCP connection, to see keep-alive at work."""
    message_id: str
    """The X-Message-Id, decoded."""

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """How to answer: status, body, headers, after ``delay_seconds``."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    delay_seconds: float = 0.0


class Receiver:
    """A context manager; ``respond`` may be replaced at any time by a function from Request to Reply."""

    def __init__(self, port: int = 0, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        self.port = port
        self.host = host
        self.respond: Callable[[Request], Reply] = lambda request: Reply()
        self._tls = tls
        self.callers: list[str] = []
        """Of each request that came with a client certificate: the common name in it."""
        self._requests: list[Request] = []
        self._by_message: defaultdict[str, list[Request]] = defaultdict(list)
        self._connections = 0
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Receiver:
        self._thread.start()
        assert self._started.wait(WAIT_SECONDS), "receiver did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_SECONDS)

    @property
    def requests(self) -> list[Request]:
        """Everything received so far, oldest first."""
        return list(self._requests)

    @property
    def message_ids(self) -> KeysView[str]:
        """The messageIds received so far; it follows what comes."""
        return self._by_message.keys()

    @property
    def connections(self) -> int:
        """How many TCP connections were accepted so far."""
        return self._connections

    def url(self, path: str = "/hook") -> str:
        """The receiver's address for a webhook."""
        return f"{'https' if self._tls else 'http'}://{self.host}:{self.port}{path}"

    def reply_with(self, status: int, **rest: Any) -> None:
        """Answer every request from now on with this status (and ``body``, ``headers``, ``delay_seconds``)."""
        reply = Reply(status, **rest)
        self.respond = lambda request: reply

    def of(self, message_id: str) -> list[Request]:
        """The requests that carried this messageId."""
        return list(self._by_message.get(message_id, ()))

    def wait_for(self, message_id: str, count: int = 1, seconds: float = WAIT_SECONDS) -> list[Request]:
        """Wait until the message arrived ``count`` times; return its requests."""

        def arrived() -> list[Request] | None:
            found = self.of(message_id)
            return found if len(found) >= count else None

        return wait_until(arrived, seconds, f"{count} x {message_id} at the receiver") or []

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(
                self._serve, self.host, self.port, ssl=self._tls, limit=HEAD_BYTES_MAX, backlog=BACKLOG
            )
        )
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        number = self._connections
        try:
            while await self._exchange(reader, writer, number):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        method, path, lines = _parse_head(head)
        headers = {name.lower(): value for name, value in lines}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        message_id = unquote(headers.get("x-message-id", ""))
        request = Request(method, path, headers, lines, body, time.monotonic(), number, message_id)
        self._requests.append(request)
        self._by_message[request.message_id].append(request)
        certificate = writer.get_extra_info("peercert")
        if certificate:
            self.callers.append(dict(pair for part in certificate["subject"] for pair in part)["commonName"])
        reply = self.respond(request)
        if reply.delay_seconds:
            await asyncio.sleep(reply.delay_seconds)
        writer.write(_reply_bytes(reply))
        await writer.drain()
        return reply.headers.get("Connection", "").lower() != "close"


def _parse_head(head: str) -> tuple[str, str, list[tuple[str, str]]]:
    first, *rest = head.rstrip("\r\n").split("\r\n")
    method, path, _ = first.split(" ", 2)
    pairs = [line.partition(":") for line in rest]
    return method, path, [(name, value.strip()) for name, _, value in pairs]


def _reply_bytes(reply: Reply) -> bytes:
    extra = "".join(f"{name}: {value}\r\n" for name, value in reply.headers.items())
    head = f"HTTP/1.1 {reply.status} Reply\r\nContent-Length: {len(reply.body)}\r\n{extra}\r\n"
    return head.encode("latin-1") + reply.body
