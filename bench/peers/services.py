"""The four services, each started as its makers run it in production, at settings tuned in its favour: what is not the
default has its reason beside it."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from bench.peers import stores
from bench.peers.stores import Program
from hookline.bench.event import AUTHORIZATION, ID_PREFIX
from hookline.bench.service import Service, free_port

EVENT_BYTES = 400
MARK = b"0000000000"
"""Stands in a request where the number of its event goes."""
READY_SECONDS = 60.0
BATCH = 100

Json = Any


class Calls(NamedTuple):
    """Requests that hand in events: where to, and a body in which MARK is replaced."""

    port: int
    path: str
    headers: Mapping[str, str]
    body: bytes
    events: int = 1


class Peer(Protocol):
    """A service in a folder of its own, used as a context manager: its stores run within."""

    name: ClassVar[str]
    title: ClassVar[str]
    services: ClassVar[tuple[str, ...]]
    """What an operator runs, counted as processes to start and watch."""
    connections: ClassVar[int]
    """Calls at once at which it accepts most."""

    def __enter__(self) -> Peer: ...

    def __exit__(self, *_: object) -> None: ...

    def start(self) -> None:
        """Start the service, without its stores, and return once it says that it is ready."""

    def kill(self) -> None:
        """kill -9 of all its processes; its stores stay."""

    def connect(self, port: int) -> None:
        """Send what is handed in from now on to a receiver on this port."""

    def calls(self) -> Calls:
        """Return the calls that hand in one event each."""

    def roots(self) -> list[int]:
        """Return the processes from which all others descend, stores among them."""

    def version(self) -> str:
        """Return which version was measured, as the program says it."""


def payload(mark: bytes = MARK) -> bytes:
    """Return an event of EVENT_BYTES, a track call that peers take as their payload."""
    head = b'{"type":"track","event":"Order Completed","userId":"user-83115","messageId":"%b%b","properties":{"note":"'
    head = head % (ID_PREFIX, mark)
    return head + b"x" * (EVENT_BYTES - len(head) - 3) + b'"}}'


def call(port: int, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Json:
    """Make a call of an API; RuntimeError when it refuses."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    given = {"Content-Type": "application/json", **(headers or {})}
    try:
        connection.request(method, path, None if body is None else json.dumps(body), given)
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    if answer.status >= http.client.BAD_REQUEST:
        raise RuntimeError(f"{method} {path}: {answer.status} {content.decode(errors='replace')[:1000]}")
    return json.loads(content) if content else None


def _answers(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status < http.client.MULTIPLE_CHOICES
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _wait_answering(program: Program, port: int, path: str) -> None:
    """Ask every few milliseconds: a start of 70 ms is to be seen as one."""
    end = time.monotonic() + READY_SECONDS
    while not _answers(port, path):
        if not program.running or time.monotonic() > end:
            raise RuntimeError(f"it did not become ready:\n{program.log[-3000:]}")
        time.sleep(0.005)


def _output(program: str, *arguments: str, environment: Mapping[str, str] | None = None, folder: Path) -> str:
    """Return what a command of a peer prints; RuntimeError when it fails."""
    done = subprocess.run(
        [program, *arguments],
        env={"PATH": "/usr/bin:/bin", **(environment or {})},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        raise RuntimeError(f"{Path(program).name} {' '.join(arguments)}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


class Hookline:
    """This checkout: one command, no store, all settings at their defaults but for a receiver on this machine."""

    name: ClassVar[str] = "hookline"
    title: ClassVar[str] = "Hookline"
    services: ClassVar[tuple[str, ...]] = ("hookline up",)
    connections: ClassVar[int] = 64

    def __init__(self, folder: Path, program: str = "") -> None:
        self._service = Service(folder / "service", free_port())

    def __enter__(self) -> Hookline:
        return self

    def __exit__(self, *_: object) -> None:
        self._service.stop()

    def start(self) -> None:
        self._service.start()

    def kill(self) -> None:
        self._service.kill()

    def connect(self, port: int) -> None:
        from hookline.bench.event import one_receiver

        self._service.connect(one_receiver(port))
        self._service.apply()

    def calls(self) -> Calls:
        return Calls(self._service.collect_port, "/v1/track", _basic(), payload())

    def batches(self) -> Calls:
        """Return the calls that hand in a hundred events each."""
        return Calls(self._service.collect_port, "/v1/batch", _basic(), payload(), BATCH)

    def roots(self) -> list[int]:
        return [self._service.processes()["supervisor"]]

    def version(self) -> str:
        from hookline import __version__

        return __version__


def _basic() -> dict[str, str]:
    return {"Authorization": AUTHORIZATION.decode(), "Content-Type": "application/json"}


class _OnStores:
    """Hold a peer's programs, which run beside stores of its own, each with the port and path of its health check."""

    connections: ClassVar[int] = 64

    def __init__(self, folder: Path, program: str) -> None:
        self._folder, self._program, self._port = folder, program, free_port()
        self._stack = ExitStack()
        self._programs: dict[Program, tuple[int, str]] = {}

    def __exit__(self, *_: object) -> None:
        for each in self._programs:
            each.stop()
        self._stack.close()

    def start(self) -> None:
        for each in self._programs:
            each.start()
        for each, (port, path) in self._programs.items():
            _wait_answering(each, port, path)

    def kill(self) -> None:
        for each in self._programs:
            each.kill()


class Svix(_OnStores):
    """Svix's open server with PostgreSQL and Redis."""

    name: ClassVar[str] = "svix"
    title: ClassVar[str] = "Svix"
    services: ClassVar[tuple[str, ...]] = ("svix-server", "PostgreSQL", "Redis")

    def __init__(self, folder: Path, program: str) -> None:
        super().__init__(folder, program)
        self._path = ""
        self._headers: dict[str, str] = {}

    def __enter__(self) -> Svix:
        self._postgres = self._stack.enter_context(stores.postgres())
        self._redis, redis_port = self._stack.enter_context(stores.redis(self._folder))
        self._postgres.admin("CREATE DATABASE svix")
        environment = {
            "SVIX_LISTEN_ADDRESS": f"127.0.0.1:{self._port}",
            "SVIX_DB_DSN": f"postgresql://hookline@127.0.0.1:{self._postgres.port}/svix",
            "SVIX_REDIS_DSN": f"redis://127.0.0.1:{redis_port}",
            "SVIX_QUEUE_TYPE": "redis",  # the other, in memory, loses what waits
            "SVIX_CACHE_TYPE": "memory",  # its makers' advice for one instance; faster than Redis
            "SVIX_JWT_SECRET": "bench",
            "SVIX_WHITELIST_SUBNETS": "[127.0.0.0/8]",
            "SVIX_DB_POOL_MAX_SIZE": "40",  # two cores have no use for the default, 100
            "SVIX_LOG_LEVEL": "info",  # the quietest there is
            "RUST_LOG": "error",
            "SVIX_ENVIRONMENT": "prod",
        }
        self._environment = environment
        _output(self._program, "migrate", environment=environment, folder=self._folder)
        said = _output(self._program, "jwt", "generate", environment=environment, folder=self._folder)
        self._headers = {"Authorization": f"Bearer {said.split()[-1]}", "Content-Type": "application/json"}
        server = Program(self._folder, "svix", (self._program,), environment)
        self._programs[server] = self._port, "/api/v1/health/ping"
        return self

    def connect(self, port: int) -> None:
        application = call(self._port, "POST", "/api/v1/app", {"name": "bench"}, self._headers)["id"]
        url = {"url": f"http://127.0.0.1:{port}/hook"}
        call(self._port, "POST", f"/api/v1/app/{application}/endpoint", url, self._headers)
        self._path = f"/api/v1/app/{application}/msg"

    def calls(self) -> Calls:
        body = b'{"eventType":"order.completed","payload":%b}' % payload()
        return Calls(self._port, self._path, self._headers, body)

    def roots(self) -> list[int]:
        assert self._postgres.process is not None
        return [*(each.pid for each in self._programs), self._postgres.process.pid, self._redis.pid]

    def version(self) -> str:
        return _output(self._program, "--version", folder=self._folder).split()[-1]


class Outpost(_OnStores):
    """Outpost with PostgreSQL, Redis and RabbitMQ: one process that does all (its makers also run it as three)."""

    name: ClassVar[str] = "outpost"
    title: ClassVar[str] = "Outpost"
    services: ClassVar[tuple[str, ...]] = ("outpost-server", "PostgreSQL", "Redis", "RabbitMQ")

    queue: ClassVar[str] = "bench-publish"

    def __init__(self, folder: Path, program: str) -> None:
        super().__init__(folder, program)
        self.rabbitmq_port = 0

    def __enter__(self) -> Outpost:
        from bench.peers.amqp import declare

        self._postgres = self._stack.enter_context(stores.postgres())
        self._redis, redis_port = self._stack.enter_context(stores.redis(self._folder))
        self._broker, self.rabbitmq_port = self._stack.enter_context(stores.rabbitmq(self._folder))
        self._postgres.admin("CREATE DATABASE outpost")
        declare(self.rabbitmq_port, self.queue)
        broker = f"amqp://guest:guest@127.0.0.1:{self.rabbitmq_port}"
        environment = {
            "API_PORT": str(self._port),
            "API_KEY": "bench",
            "API_JWT_SECRET": "bench",
            "AES_ENCRYPTION_SECRET": "bench-bench-bench-bench-bench-32",
            "TOPICS": "order.completed",
            "POSTGRES_URL": f"postgres://hookline@127.0.0.1:{self._postgres.port}/outpost?sslmode=disable",
            "REDIS_HOST": "127.0.0.1",
            "REDIS_PORT": str(redis_port),
            "RABBITMQ_SERVER_URL": broker,
            "PUBLISH_RABBITMQ_SERVER_URL": broker,  # its fastest way in: publishing through the queue
            "PUBLISH_RABBITMQ_QUEUE": self.queue,
            "PUBLISH_MAX_CONCURRENCY": "100",  # of the three: the default is 1
            "DELIVERY_MAX_CONCURRENCY": "100",
            "LOG_MAX_CONCURRENCY": "100",
            "LOG_BATCH_THRESHOLD_SECONDS": "1",  # deliveries are on record sooner than with 10
            "LOG_LEVEL": "error",
            "GIN_MODE": "release",
            "DISABLE_TELEMETRY": "true",
            "HOME": str(self._folder),
        }
        migrate = str(Path(self._program).with_name("outpost"))
        _output(migrate, "migrate", "apply", "--yes", environment=environment, folder=self._folder)
        server = Program(self._folder, "outpost", (self._program,), environment)
        self._programs[server] = self._port, "/healthz"
        return self

    def connect(self, port: int) -> None:
        headers = {"Authorization": "Bearer bench"}
        call(self._port, "PUT", "/api/v1/tenants/bench", {}, headers)
        wanted = {"type": "webhook", "topics": "*", "config": {"url": f"http://127.0.0.1:{port}/hook"}}
        call(self._port, "POST", "/api/v1/tenants/bench/destinations", wanted, headers)

    def calls(self) -> Calls:
        headers = {"Authorization": "Bearer bench", "Content-Type": "application/json"}
        return Calls(self._port, "/api/v1/publish", headers, self.message())

    def message(self) -> bytes:
        """Return what hands in one event, by the API and by the queue."""
        return b'{"tenant_id":"bench","topic":"order.completed","data":%b}' % payload()

    def roots(self) -> list[int]:
        assert self._postgres.process is not None
        return [*(each.pid for each in self._programs), self._postgres.process.pid, self._redis.pid, self._broker.pid]

    def version(self) -> str:
        return _output(self._program, "--version", folder=self._folder).split()[-1]


class Convoy(_OnStores):
    """Convoy's open build, server and agent, with PostgreSQL and Redis.

    Written after its source; not run yet, since nobody here had its program.
    """

    name: ClassVar[str] = "convoy"
    title: ClassVar[str] = "Convoy"
    services: ClassVar[tuple[str, ...]] = ("convoy server", "convoy agent", "PostgreSQL", "Redis")

    def __init__(self, folder: Path, program: str) -> None:
        super().__init__(folder, program)
        self._agent_port = free_port()
        self._events = ""
        self._endpoint = b""
        self._headers: dict[str, str] = {}

    def __enter__(self) -> Convoy:
        self._postgres = self._stack.enter_context(stores.postgres())
        self._redis, redis_port = self._stack.enter_context(stores.redis(self._folder))
        self._postgres.admin("CREATE DATABASE convoy")
        environment = {
            "PORT": str(self._port),
            "AGENT_PORT": str(self._agent_port),
            "CONVOY_DB_HOST": "127.0.0.1",
            "CONVOY_DB_PORT": str(self._postgres.port),
            "CONVOY_DB_SCHEME": "postgres",
            "CONVOY_DB_USERNAME": "hookline",
            "CONVOY_DB_DATABASE": "convoy",
            "CONVOY_DB_OPTIONS": "sslmode=disable",
            "CONVOY_DB_MAX_OPEN_CONN": "40",
            "CONVOY_REDIS_SCHEME": "redis",
            "CONVOY_REDIS_HOST": "127.0.0.1",
            "CONVOY_REDIS_PORT": str(redis_port),
            "CONVOY_JWT_SECRET": "bench-access",
            "CONVOY_JWT_REFRESH_SECRET": "bench-refresh",
            "CONVOY_HOST": f"http://127.0.0.1:{self._port}",
            "CONVOY_LOGGER_LEVEL": "error",
            "CONVOY_ANALYTICS_ENABLED": "false",
            "CONVOY_RETENTION_POLICY_ENABLED": "false",
            "CONVOY_INSTANCE_INGEST_RATE": "1000000",  # its limits are not what is measured
            "CONVOY_API_RATE_LIMIT": "1000000",
            "CONVOY_CONSUMER_POOL_SIZE": "100",
            "CONVOY_DISPATCHER_ALLOW_LIST": "127.0.0.0/8",
            "CONVOY_DISPATCHER_BLOCK_LIST": "10.255.255.255/32",  # an empty one is the default, which has 127.0.0.0/8
            "CONVOY_DISPATCHER_SKIP_PING_VALIDATION": "true",
            "CONVOY_ENV": "oss",
            "HOME": str(self._folder),
        }
        _output(self._program, "migrate", "up", environment=environment, folder=self._folder)
        wanted = ("bootstrap", "--email", "bench@example.com", "--first-name", "b", "--last-name", "b")
        said = _output(
            self._program, *wanted, "--format", "json", "--with-api-key", environment=environment, folder=self._folder
        )
        found = re.search(r"\{.*\}", said, re.DOTALL)
        if found is None:
            raise RuntimeError(f"convoy bootstrap said:\n{said}")
        self._owner: dict[str, str] = json.loads(found[0])
        server = Program(self._folder, "convoy", (self._program, "server"), environment)
        agent = Program(self._folder, "agent", (self._program, "agent"), environment)
        self._programs |= {server: (self._port, "/healthz"), agent: (self._agent_port, "/healthz")}
        return self

    def connect(self, port: int) -> None:
        owner = {"Authorization": f"Bearer {self._owner['api_key']}"}
        path = f"/api/v1/projects?orgID={self._owner['organisation_id']}"
        limit = {"ratelimit": {"count": 1_000_000, "duration": 1}, "ssl": {"enforce_secure_endpoints": False}}
        made = call(self._port, "POST", path, {"name": "bench", "type": "outgoing", "config": limit}, owner)["data"]
        project = f"/api/v1/projects/{made['project']['uid']}"
        self._headers = {"Authorization": f"Bearer {made['api_key']['key']}", "Content-Type": "application/json"}
        wanted = {"name": "receiver", "url": f"http://127.0.0.1:{port}/hook", "rate_limit": 0}
        endpoint = call(self._port, "POST", f"{project}/endpoints", wanted, self._headers)["data"]["uid"]
        subscription = {"name": "all", "endpoint_id": endpoint, "filter_config": {"event_types": ["*"]}}
        call(self._port, "POST", f"{project}/subscriptions", subscription, self._headers)
        self._events, self._endpoint = f"{project}/events", endpoint.encode()

    def calls(self) -> Calls:
        body = b'{"endpoint_id":"%b","event_type":"order.completed","data":%b}' % (self._endpoint, payload())
        return Calls(self._agent_port, self._events, self._headers, body)

    def roots(self) -> list[int]:
        assert self._postgres.process is not None
        return [*(each.pid for each in self._programs), self._postgres.process.pid, self._redis.pid]

    def version(self) -> str:
        return _output(self._program, "--version", folder=self._folder).split()[-1]
