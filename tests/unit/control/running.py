"""A control role served over a real socket, and what the tests say to it."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from litestar import Litestar

from hookline import listening
from hookline.api.services import Services
from hookline.control import app, serve
from hookline.control.front import Routes
from hookline.control.pages import routes
from hookline.control.serve import Server, start
from hookline.features.connections.service import open_connections
from hookline.journal.local.appender import LocalAppender
from hookline.journal.record import FORMAT_VERSION, Record, Rejection, fingerprint
from hookline.settings import Collect, Control, Database, Deliver, Plan, Settings

build_application = app.application
serve.QUIET_SECONDS = listening.SETTLE_SECONDS = 0.01  # nobody sends at the end here
WAIT_SECONDS = 30.0
"""A bound that only a failure reaches, on a slow and busy machine too."""
TOKEN = "hk_admin_for-the-tests-only"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@dataclass(frozen=True)
class Answer:
    """One answer, headers by lower-case name."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()


class CurrentServices(Services):
    """Passes on to the services of the server that has the application now."""

    def __init__(self) -> None:
        object.__setattr__(self, "current", None)

    def __getattribute__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "current"), name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(object.__getattribute__(self, "current"), name, value)


class Applications:
    """Applications that serve one server after another: to build one takes longer than most tests."""

    def __init__(self) -> None:
        self._idle: dict[str, list[tuple[CurrentServices, Litestar]]] = {}
        self._lent: dict[int, list[tuple[str, tuple[CurrentServices, Litestar]]]] = {}

    def lend(self, routes: Any, services: Any = None) -> Litestar:
        """In place of ``application``: one with these routes that serves nobody, or a new one."""
        if services is None:
            return build_application(routes)
        key = " ".join(str(getattr(each, "paths", None) or getattr(each, "path", each)) for each in routes)
        if idle := self._idle.get(key):
            standing, application = idle.pop()
        else:
            standing = CurrentServices()
            application = build_application(routes, standing)
        object.__setattr__(standing, "current", services)
        self._lent.setdefault(id(services), []).append((key, (standing, application)))
        return application

    def give_back(self, services: object) -> None:
        """Nobody asks those of this server any more."""
        for key, each in self._lent.pop(id(services), ()):
            self._idle.setdefault(key, []).append(each)


APPLICATIONS = Applications()
app.application = APPLICATIONS.lend


class Running:
    """Control in a thread; ``call`` speaks HTTP to it."""

    def __init__(
        self,
        folder: Path,
        plan: Plan | None = None,
        deliver: Deliver | None = None,
        collect: Collect | None = None,
        database_url: str = "local",
        pages: Routes = routes,
        **control: Any,
    ) -> None:
        settings = Settings(
            data_dir=str(folder),
            database=Database(url=database_url),
            control=Control(**{"listen": "127.0.0.1:0", "admin_token": TOKEN, **control}),
            plan=plan or Plan(),
            deliver=deliver or Deliver(),
            collect=collect or Collect(),
        )
        self.data_path = folder
        self.settings = settings
        self.database_url = database_url
        self.services, (self._listening,) = start(settings, open_connections(settings, None, None))
        self.port: int = self._listening.getsockname()[1]
        self.server = Server(self.services, pages)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Running:
        self._thread.start()
        wait_until(lambda: self.server.started)
        self.services.ready = True
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive(), "control did not stop"
        self.services.close()
        self.services.store.close()
        APPLICATIONS.give_back(self.services)

    def stop(self) -> None:
        """Have it begin to stop, unless it has stopped already."""
        with suppress(RuntimeError):  # its loop is closed
            self._loop.call_soon_threadsafe(self.server.stop)

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self.server.serve(sockets=[self._listening]))

    def call(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None, token: bool = True
    ) -> Answer:
        """One request, by default with the admin token; a body that is not bytes is sent as JSON."""
        payload = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_SECONDS)
        try:
            connection.request(method, path, payload, {**(BEARER if token else {}), **(headers or {})})
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def status(self, method: str, path: str, headers: Mapping[str, str]) -> int:
        """Only the status of an answer, whose body may never end."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_SECONDS)
        try:
            connection.request(method, path, headers=dict(headers))
            return connection.getresponse().status
        finally:
            connection.close()

    def api(self, method: str, path: str, body: object = None) -> Answer:
        """A call below ``/api/v1``."""
        return self.call(method, "/api/v1" + path, body)

    def append(self, *records: Record) -> None:
        """Store records as collect would."""
        asyncio.run(_append(self.data_path / "journal", records))


async def _append(folder: Path, records: tuple[Record, ...]) -> None:
    appender = LocalAppender(folder, retention_seconds=86_400, retention_bytes=2**30, segment_bytes=1_048_576)
    await appender.append(records)
    await appender.close()


def record(message_id: str, event: str = "Test", *, rejected: str | None = None, **fields: Any) -> Record:
    """A stored track call of the source ``site``."""
    source, kind = fields.pop("source", "site"), fields.pop("type", "track")
    body = {"type": kind, "messageId": message_id, "userId": "u1", "event": event, **fields}
    return Record(
        format_version=FORMAT_VERSION,
        erased=False,
        received_at=int(time.time() * 1000),
        source=source,
        type=kind,
        message_id=message_id,
        fingerprint=fingerprint(source, message_id),
        user_key=str(body["userId"] or body.get("anonymousId", "")),
        timestamp="2026-01-01T00:00:00.000Z",
        origin="sdk",
        body=json.dumps(body).encode(),
        rejection=Rejection("missing_event", rejected) if rejected else None,
    )


def source(id: str = "site", **fields: Any) -> dict[str, Any]:
    """A source as the API takes it."""
    made = {"id": id, "name": id.title(), "type": "server", "enabled": True, "writeKeys": [f"wk_{id}"]}
    return {**made, "batchBytes": 512_000, "rateLimit": None, **fields}


def destination(id: str = "crm", secret: str | None = None, **fields: Any) -> dict[str, Any]:
    """A destination as the API takes it."""
    settings: dict[str, Any] = {"webhooks": [{"url": "https://crm.example.com/hook", "headers": {}}]}
    if secret is not None:
        settings["sharedSecret"] = secret
    return {"id": id, "name": id.upper(), "kind": "webhook", "sources": ["site"], "settings": settings, **fields}


def wait_until(condition: Callable[[], object], seconds: float = WAIT_SECONDS) -> None:
    """Wait for a condition with a bound."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "condition not met in time"
        time.sleep(0.01)


class Stream:
    """An open event stream."""

    def __init__(self, running: Running, headers: Mapping[str, str] | None = None, query: str = "") -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=WAIT_SECONDS)
        self._connection.request("GET", f"/api/v1/events/stream{query}", headers={**BEARER, **(headers or {})})
        self.answer = self._connection.getresponse()

    def events(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (kind, data) of each message until the server ends the stream."""
        kind = ""
        for raw in self.answer:
            line = raw.decode().rstrip("\n")
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: "):
                yield kind, json.loads(line.removeprefix("data: "))

    def close(self) -> None:
        """Leave."""
        self._connection.close()
