"""Keep-alive connections per origin, and how a new one is made: resolve, check, connect to the checked address.

Pools put no limit on requests; lanes do. So two destinations on one host cannot take each other's places.
"""

from __future__ import annotations

import asyncio
import os
import re
import resource
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from random import random
from time import monotonic

from hookline.connections.receiver_url import ReceiverUrl
from hookline.deliver.send.answers import PlainAnswers, plain_success
from hookline.deliver.send.burst import Burst
from hookline.deliver.send.client_certificate import ClientCertificate, Pair, tls_reason
from hookline.deliver.send.connection import REST_SECONDS_MAX, RESTED_SECONDS, Connection
from hookline.deliver.send.dialer import SHORT, Dialer
from hookline.deliver.send.port import Sink
from hookline.deliver.send.request import Target
from hookline.deliver.send.resolver import BlockedAddress, NameNotResolved, Resolver
from hookline.outcomes.outcome import Outcome
from hookline.telemetry.log import logger

CONNECTION_AGE_SECONDS = 60.0
"""Older connections take no other request, so that a receiver that moves is followed however busy it is."""
LOOK_AGAIN_SECONDS = 30.0
"""From one look at a name to the next while there are connections: the system's look-up does not say how long its
answer holds."""
LEAVING_SECONDS = 10.0
"""Connections to an address that is no longer one of the name's end within this, not all at the same moment."""
PLAIN_ANSWER_BYTES_MAX = 4 * 1024
"""Longer answers are the parser's: what is remembered takes memory per origin."""
REST_SHARE = 0.75
"""Of the time for which a receiver says that it keeps an idle connection (`Keep-Alive: timeout=5`)."""
DESCRIPTORS_KEPT = 64
"""Of those that the process may have: left for its own files, and for looking names up."""
SHORT_SECONDS = 0.02
"""From one look for a free descriptor to the next."""
SHORT_LOG_SECONDS = 60.0

_KEEP_ALIVE = re.compile(rb"\nkeep-alive:[^\r\n]*?\btimeout=[ \t]*([0-9]{1,9})", re.IGNORECASE)


class Pool:
    """The connections to one origin."""

    def __init__(
        self,
        url: ReceiverUrl,
        sink: Sink,
        dialer: Dialer,
        tls: ssl.SSLContext,
        active: set[Pool],
        answers: PlainAnswers | None = None,
        age_seconds: float = CONNECTION_AGE_SECONDS,
        certificate: ClientCertificate | None = None,
    ) -> None:
        self.sink = sink
        self.age_seconds = age_seconds
        self.answers = answers or PlainAnswers(sink)
        self._active = active
        self._host = url.host
        self._port = url.port
        self._tls = tls if url.scheme == "https" else None
        self.certificate = certificate if self._tls is not None else None
        """What new connections show of us where the receiver asks."""
        self._dialer = dialer
        self.rest_seconds = REST_SECONDS_MAX
        """Connections that were idle for longer are not used again."""
        self._look_again_at = 0.0
        self._looking: asyncio.Task[None] | None = None
        self.idle: deque[Connection] = deque()
        """Connections whose answer has been read to its end, the one used last at the right."""
        self._connections: set[Connection] = set()
        self.plain_answer = b""
        self.plain_answer_status = 0

    def send(self, target: Target, requests: Iterable[tuple[object, bytes]]) -> None:
        """Send requests, each with its token, on idle connections, else on new ones; the sink is told the results."""
        now = monotonic()
        self._close_stale(now)
        idle, burst, rested_since = self.idle, Burst(target, now), now - RESTED_SECONDS
        for token, request in requests:
            if idle:
                connection = idle.pop()
                if connection.idle_since < rested_since and not connection.is_silent:
                    connection.close()
                    self.send_afresh(token, burst, request)
                    continue
                connection.token = token
                connection.burst = burst
                connection.request = request
                connection.transport.write(request)  # type: ignore[union-attr]  # kept only while it is open
            else:
                self.send_afresh(token, burst, request)

    def send_afresh(self, token: object, burst: Burst, request: bytes) -> None:
        """Send a request on a new connection; its time runs since its burst began."""
        connection = Connection(self)
        self._connections.add(connection)
        self._active.add(self)
        connection.begin(token, burst, request)
        connection.task = asyncio.get_running_loop().create_task(self._connect(connection))

    def is_plain(self, data: bytes) -> bool:
        """Whether it is a whole, ordinary 2xx answer; remembered, as within a second most are the same to the byte."""
        status = plain_success(data) if len(data) <= PLAIN_ANSWER_BYTES_MAX else 0
        if status:
            self.note_keep_alive(data)
            if status != self.plain_answer_status:
                self.answers.burst = None  # a run is of one status
            self.plain_answer, self.plain_answer_status = data, status
        return bool(status)

    def note_keep_alive(self, head: bytes) -> None:
        """Note how long the receiver keeps an idle connection, where it says so: the end of that is left to it."""
        found = _KEEP_ALIVE.search(head) if b"eep-" in head else None
        self.rest_seconds = min(REST_SECONDS_MAX, int(found[1]) * REST_SHARE) if found else REST_SECONDS_MAX

    def forget(self, connection: Connection) -> None:
        """A connection was closed."""
        self._connections.discard(connection)
        if connection.burst is None:
            if connection in self.idle:
                self.idle.remove(connection)
            self.answers.forget(connection)

    def sweep(self, now_seconds: float, timeout_seconds: float) -> None:
        """End exchanges that take too long, and connections that were idle too long or have become old."""
        overdue = now_seconds - timeout_seconds
        for connection in [c for c in self._connections if c.burst is not None and c.burst.began <= overdue]:
            connection.expire()
        self._close_stale(now_seconds)
        for connection in [c for c in self._connections if c.old_at <= now_seconds]:
            connection.retire()
        if now_seconds >= self._look_again_at:
            self._look_again_at = now_seconds + LOOK_AGAIN_SECONDS
            self._looking = asyncio.get_running_loop().create_task(self._look_again())

    async def _look_again(self) -> None:
        """Leave addresses that the name has no longer."""
        try:
            addresses = await self._dialer.resolver.resolve(self._host, self._port)
        except NameNotResolved:
            return  # a name server that is away takes no receiver away that is there
        except BlockedAddress:
            addresses = []
        now = monotonic()
        for connection in self._connections:
            if connection.transport is not None and connection.checked_address not in addresses:
                connection.old_at = min(connection.old_at, now + random() * LEAVING_SECONDS)

    def _close_stale(self, now_seconds: float) -> None:
        """Close connections that were idle too long; those at the left were so the longest, to within a turn."""
        idle, usable_since = self.idle, now_seconds - self.rest_seconds
        while idle and idle[0].idle_since < usable_since:
            idle.popleft().close()

    def close(self) -> None:
        """Drop every connection."""
        if self._looking is not None:
            self._looking.cancel()
        for connection in list(self._connections):
            connection.close()

    def __len__(self) -> int:
        return len(self._connections)

    async def _connect(self, connection: Connection) -> None:
        while not await self._has_connected(connection):
            await self._wait_for_descriptors(connection)

    async def _has_connected(self, connection: Connection) -> bool:
        """Try once; False while this machine has too few descriptors, or too little memory, for another connection."""
        if not _may_open():
            return False
        try:
            connection.checked_address, plain = await self._dialer.dial(self._host, self._port)
            await self._take_up(connection, plain)
            connection.task = None
        except BlockedAddress as error:
            self._refused(connection, Outcome.BLOCKED_ADDRESS, str(error))
        except NameNotResolved as error:
            self._refused(connection, Outcome.NAME_NOT_RESOLVED, str(error))
        except ssl.SSLError as error:
            self._refused(connection, Outcome.TLS_REFUSED, tls_reason(error))
        except OSError as error:
            if error.errno in SHORT:
                return False
            self._refused(connection, Outcome.CONNECTION_FAILED, error.strerror or str(error) or "closed at once")
        return True

    async def _wait_for_descriptors(self, connection: Connection) -> None:
        """Make room among connections that rest, and begin the exchange anew: its time has not begun."""
        _tell_of_shortage()
        for pool in self._active:
            if pool.idle:
                pool.idle.popleft().close()
                break
        await asyncio.sleep(SHORT_SECONDS)
        if connection.burst is not None:
            connection.burst = Burst(connection.burst.target, monotonic())

    async def _take_up(self, connection: Connection, plain: socket.socket) -> None:
        """Begin the exchange on a socket that is connected, with TLS where that is to be."""
        host = self._host if self._tls is not None else None
        loop = asyncio.get_running_loop()
        tls = self._tls if self.certificate is None else self.certificate.context()
        try:
            await loop.create_connection(lambda: connection, sock=plain, ssl=tls, server_hostname=host)
        except (OSError, asyncio.CancelledError):
            self._dialer.was_dead(connection.checked_address, self._port)  # there are others, perhaps, that get further
            raise

    def _refused(self, connection: Connection, outcome: Outcome, error: str) -> None:
        connection.task = None
        if connection.token is not None:
            connection.refuse(outcome, error)
        else:
            connection.close()


class Pools:
    """All pools of a process, by origin and client certificate."""

    def __init__(
        self,
        sink: Sink,
        resolver: Resolver,
        tls: ssl.SSLContext,
        age_seconds: float = CONNECTION_AGE_SECONDS,
        certificate_of: Callable[[Pair], ClientCertificate] | None = None,
    ) -> None:
        self._sink = sink
        self._answers = PlainAnswers(sink)
        self._dialer = Dialer(resolver)
        self._tls = tls
        self._age_seconds = age_seconds
        self._certificate_of = certificate_of
        self._pools: dict[tuple[object, ...], Pool] = {}
        self._active: set[Pool] = set()
        """Pools that have connections: the others cost nothing."""

    def of(self, url: ReceiverUrl, pair: Pair | None = None) -> Pool:
        """The pool of a URL's origin; ``pair`` refers to the client certificate shown there and its key."""
        key = (url.origin, pair)
        pool = self._pools.get(key)
        if pool is None:
            certificate = self._certificate_of(pair) if self._certificate_of is not None and pair is not None else None
            parts = self._sink, self._dialer, self._tls, self._active, self._answers, self._age_seconds
            pool = Pool(url, *parts, certificate)
            self._pools[key] = pool
        return pool

    @property
    def connections(self) -> int:
        """How many there are."""
        return sum(len(pool) for pool in self._active)

    def keep_only(self, used: set[Pool]) -> None:
        """Forget origins that no destination leads to any more, once their last answers are in."""
        self._pools = {key: pool for key, pool in self._pools.items() if pool in used or len(pool)}

    def sweep(self, timeout_seconds: float) -> int:
        """Sweep every pool that has connections; return how many connections are left."""
        now = monotonic()
        left = 0
        for pool in list(self._active):
            pool.sweep(now, timeout_seconds)
            left += len(pool)
            if not len(pool):
                self._active.discard(pool)
        return left

    def close(self) -> None:
        """Drop every connection; what has been answered by then is told."""
        self._answers.tell()
        for pool in self._pools.values():
            pool.close()


def _may_open() -> bool:
    """Whether another descriptor leaves enough to the others: the system gives the lowest number that is free."""
    try:
        number = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    os.close(number)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return most == resource.RLIM_INFINITY or number < most - min(DESCRIPTORS_KEPT, most // 4)


_told_of_shortage = [-SHORT_LOG_SECONDS]


def _tell_of_shortage() -> None:
    now = monotonic()
    if now - _told_of_shortage[0] >= SHORT_LOG_SECONDS:
        _told_of_shortage[0] = now
        next_step = "requests wait for those under way; raise the limit of open files of the service"
        logger().warning(
            "too_few_descriptors", allowed=resource.getrlimit(resource.RLIMIT_NOFILE)[0], next_step=next_step
        )


def tls_context(ca_file: str | None) -> ssl.SSLContext:
    """Verify certificates and host names always; ``ca_file`` adds authorities to those of the system."""
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
