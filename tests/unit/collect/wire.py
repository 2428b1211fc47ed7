"""What the edge's tests share: an appender in memory, a running edge, a clock to turn, and a client of raw bytes."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import uvloop

from hookline import listening
from hookline.collect import server
from hookline.collect.server import Edge
from hookline.connections.model import Snapshot, Source
from hookline.journal.record import Record
from hookline.settings import Settings

server.QUIET_SECONDS = listening.SETTLE_SECONDS = 0.01  # nobody sends at the end here
KEY = "wk_web"
OTHER_KEY = "wk_server"
DISABLED_KEY = "wk_old"
SNAPSHOT = Snapshot(
    version=1,
    sources=(
        Source(id="web", name="Web", type="web", write_keys=(KEY, "wk_web_2")),
        Source(id="server", name="Server", write_keys=(OTHER_KEY,)),
        Source(id="old", name="Old", enabled=False, write_keys=(DISABLED_KEY,)),
    ),
)
WAIT_SECONDS = 30.0
TRACK = {"userId": "u1", "event": "Order", "messageId": "m1"}


class Memory:
    """An appender in memory: ``error`` makes it refuse, ``held`` keeps its callers waiting until ``release``."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.error: BaseException | None = None
        self.hold = False
        self.held: list[Callable[[BaseException | None], None]] = []

    def append_soon(self, records: list[Record], done: Callable[[BaseException | None], None]) -> None:
        """Keep the records."""
        if self.error is None:
            self.records += records
        if self.hold:
            self.held.append(done)
        else:
            asyncio.get_running_loop().call_soon(done, self.error)

    def release(self, position: int = 0) -> None:
        """Tell one waiting caller that its records are durable."""
        self.held.pop(position)(None)


class Clock:
    """Real time plus what a test adds to it."""

    def __init__(self) -> None:
        self.ahead_seconds = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead_seconds


class Answer(NamedTuple):
    """One answer as it came."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body decoded."""
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The error's code."""
        return str(self.json["code"])


class Wire:
    """One connection of a client that sends whatever bytes it is told to."""

    def __init__(self, address: tuple[str, int], client: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection(address, timeout=WAIT_SECONDS, source_address=(client, 0))
        self._got = b""

    def send(self, data: bytes) -> Wire:
        """Send, and do not mind when the other side has hung up."""
        try:
            self.socket.sendall(data)
        except (ConnectionResetError, BrokenPipeError):
            pass
        return self

    def answer(self, head_only: bool = False) -> Answer:
        """The next answer."""
        while b"\r\n\r\n" not in self._got:
            self._more()
        head, _, self._got = self._got.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        length = 0 if head_only else int(headers.get("content-length", 0))
        while len(self._got) < length:
            self._more()
        body, self._got = self._got[:length], self._got[length:]
        return Answer(int(first.split()[1]), headers, body)

    def closed(self) -> bool:
        """Whether the server has closed, with nothing more to say."""
        try:
            return self._got == b"" and self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _more(self) -> None:
        piece = self.socket.recv(65_536)
        if not piece:
            raise EOFError(f"closed after {self._got!r}")
        self._got += piece


class Running:
    """An edge in a thread of its own, on a free port."""

    def __init__(self, snapshot: Snapshot | None = SNAPSHOT, **options: Any) -> None:
        self.memory = Memory()
        self.clock = Clock()
        self._settings = options.pop("settings", Settings())
        self._options = options
        self._snapshot = snapshot
        self._up = threading.Event()
        self._thread = threading.Thread(target=lambda: uvloop.run(self._main()), daemon=True)
        self._thread.start()
        assert self._up.wait(WAIT_SECONDS)

    async def _main(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        self.edge = Edge(self.memory, self._settings, clock=self.clock, **self._options)
        if self._snapshot is not None:
            self.edge.set_snapshot(self._snapshot)
        self.address = await self.edge.serve("127.0.0.1", 0)
        self._up.set()
        await self._stopped.wait()
        await self.edge.stop()

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function on the edge's loop and wait for what it returns."""

        async def run() -> Any:
            result = function(*arguments)
            return await result if asyncio.iscoroutine(result) else result

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(WAIT_SECONDS * 2)

    def pass_seconds(self, seconds: float) -> None:
        """Turn the clock and sweep."""
        self.clock.ahead_seconds += seconds
        self.call(self.edge.sweep)

    def until(self, condition: Callable[[], object]) -> None:
        """Wait for a condition, with a bound."""
        ends = time.monotonic() + WAIT_SECONDS
        while not self.call(condition):
            assert time.monotonic() < ends, "the condition did not come true"

    def stop(self) -> None:
        """Stop the edge and its thread; harmless when a test has done so."""
        if not self._thread.is_alive():
            return
        self.loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(WAIT_SECONDS * 2)
        assert not self._thread.is_alive()

    def wire(self, client: str = "127.0.0.1") -> Wire:
        """A new connection, from any address of the loopback network."""
        return Wire(self.address, client)

    def ask(self, data: bytes) -> Answer:
        """Send bytes over a connection of their own and take one answer."""
        wire = self.wire()
        try:
            return wire.send(data).answer()
        finally:
            wire.socket.close()

    def post(self, path: str, body: object, key: str | None = KEY, **headers: str) -> Answer:
        """Post JSON (or bytes) the way an SDK does."""
        return self.ask(request(path, body, key, **headers))

    def get(self, path: str, method: str = "GET", **headers: str) -> Answer:
        """Fetch something the way a browser does."""
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        wire = self.wire()
        try:
            return wire.send("\r\n".join(lines).encode() + b"\r\n\r\n").answer(head_only=method == "HEAD")
        finally:
            wire.socket.close()

    def reason(self, answer: Answer) -> str:
        """The code of a refused call, having checked that nothing of it can be delivered."""
        assert answer.json["success"] is False
        assert answer.json["error"] == {"code": answer.code, "message": answer.json["message"]}
        assert all(record.rejection is not None for record in self.memory.records)
        return answer.code


def request(path: str, body: object, key: str | None = KEY, **headers: str) -> bytes:
    """A POST as bytes; header names with ``_`` for ``-``."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(data)}"]
    if key is not None:
        lines.append("Authorization: " + basic(f"{key}:"))
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def basic(credentials: str) -> str:
    """An Authorization value."""
    return "Basic " + base64.b64encode(credentials.encode()).decode()


def zipped(body: object) -> bytes:
    """A body gzipped."""
    return gzip.compress(body if isinstance(body, bytes) else json.dumps(body).encode(), mtime=0)


def sized(byte_count: int, **fields: object) -> bytes:
    """A track call of exactly so many bytes."""
    event = {**TRACK, "properties": {"pad": ""}, **fields}
    event["properties"] = {"pad": "x" * (byte_count - len(json.dumps(event)))}
    data = json.dumps(event).encode()
    assert len(data) == byte_count
    return data
