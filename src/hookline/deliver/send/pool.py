"""Sends by HTTP/1.1: the sender behind the port, with keep-alive connections per origin and client certificate.

Pools put no limit on requests; lanes do. So two destinations on one host cannot take each other's room.
"""

from __future__ import annotations

import asyncio
import math
import re
import ssl
from collections import deque
from collections.abc import Callable, Iterable, Set
from random import random, sample
from time import monotonic

from hookline.connections.receiver_url import ReceiverUrl
from hookline.deliver.send.answers import PlainAnswers, RequestBatch, plain_success
from hookline.deliver.send.client_certificate import ClientCertificate
from hookline.deliver.send.connection import REST_SECONDS_MAX, RESTED_SECONDS, SPARE_REST_SECONDS, Connection
from hookline.deliver.send.connector import Connector, Dialer
from hookline.deliver.send.exchange import Exchange
from hookline.deliver.send.port import Opaque, Pair, Route, Sink
from hookline.deliver.send.proxy import Proxy
from hookline.deliver.send.resolver import NameNotResolved, Resolver, open_files_max
from hookline.deliver.send.tls import Sessions

CONNECTION_AGE_SECONDS = 60.0
"""Older connections take no other request, so that a receiver that moves is followed however busy it is."""
LOOK_AGAIN_SECONDS = 30.0
"""From one look at a name to the next while there are connections: the system's look-up does not say how long its
answer holds."""
LEAVING_SECONDS = 10.0
"""Connections to an address that is no longer one of the name's end within this, not all at the same moment."""
UNREAD_FIRST = 64
"""Connections of one origin whose request has succeeded by the answer's head, and whose body is still to come: each
holds a socket but no place of its lane. Beyond so many a connection closes at the head. Each body that comes makes room
for one more, up to ``UNREAD_MAX``: a receiver whose bodies come late keeps its connections. One that does not come in
time takes all of that back."""
UNREAD_MAX = 512
"""What a lane's allowance may grow to as well."""
PLAIN_ANSWER_BYTES_MAX = 4 * 1024
"""Longer answers are the parser's: what is remembered takes memory per origin."""
REST_SHARE = 0.75
"""Of the time for which a receiver says that it keeps an idle connection (`Keep-Alive: timeout=5`), or was seen to."""
BELIEVED_SECONDS = 3600.0
"""So long it is believed what was seen: one that restarts closes all of its connections once."""
IDLE_MAX = 10_000
"""Of all origins together, or half of the open files that are allowed: one with TLS holds 34 KB."""
ROUND_SECONDS = 1.0
"""In so long each pool is swept whose connections are all at rest: of ten thousand a few at a time."""
LATE_SECONDS = 1.0
"""A process whose last sweep is longer ago stood still, or the machine did: a busy one sweeps twenty times in it."""

_KEEP_ALIVE = re.compile(rb"\nkeep-alive:[^\r\n]*?\btimeout=[ \t]*([0-9]{1,9})", re.IGNORECASE)


class Pool:
    """The connections to one origin."""

    def __init__(
        self,
        url: ReceiverUrl,
        sink: Sink,
        connector: Connector,
        active: set[Pool] | None = None,
        answers: PlainAnswers[Connection] | None = None,
        age_seconds: float = CONNECTION_AGE_SECONDS,
        certificate: ClientCertificate | None = None,
        busy: set[Pool] | None = None,
    ) -> None:
        self.sink = sink
        self.age_seconds = age_seconds
        self.answers: PlainAnswers[Connection] = answers or PlainAnswers(sink)
        self._active = set() if active is None else active
        self._busy = set() if busy is None else busy
        self._url = url
        self._certificate = certificate
        """What new connections show of us where the receiver asks."""
        self._connector = connector
        self.rest_seconds = REST_SECONDS_MAX
        """A connection that was idle for longer is not used again."""
        self._closes_after = math.inf
        """How long the receiver was seen to keep an idle connection."""
        self._believed_until = 0.0
        self._look_again_at = 0.0
        self._looking: asyncio.Task[None] | None = None
        self.idle: deque[Connection] = deque()
        """Connections whose answer has been read to its end, the one used last at the right."""
        self._connections: set[Connection] = set()
        self._unread: set[Connection] = set()
        """Those whose request has succeeded and whose body is still to come."""
        self._unread_max = UNREAD_FIRST
        self.plain_answer = b""
        self.plain_answer_status = 0
        self.sessions = Sessions()

    def send(self, target: Opaque, requests: Iterable[tuple[Opaque, bytes]]) -> None:
        """Send requests, each with its token, on idle connections, else on new ones; the sink is told the results."""
        self._busy.add(self)
        now = monotonic()
        self._close_stale(now)
        idle, batch, rested_since = self.idle, RequestBatch(target, now), now - RESTED_SECONDS
        for token, request in requests:
            if idle:
                connection = idle.pop()
                if connection.idle_since < rested_since and not connection.is_silent:
                    connection.close()
                    self.send_afresh(token, batch, request)
                    continue
                connection.token = token
                connection.batch = batch
                connection.request = request
                connection.transport.write(request)  # type: ignore[union-attr]  # kept only while it is open
            else:
                self.send_afresh(token, batch, request)

    def ask(self, target: Opaque, requests: Iterable[tuple[Opaque, bytes]], body_bytes_max: int) -> None:
        """Send requests whose answers are read whole, on idle connections, else on new ones."""
        self._busy.add(self)
        now = monotonic()
        self._close_stale(now)
        batch = RequestBatch(target, now, body_bytes_max)
        for token, request in requests:
            connection = self.idle.pop() if self.idle else None
            if connection is not None and not connection.is_silent:
                connection.close()
                connection = None
            if connection is None:
                self.send_afresh(token, batch, request)
            else:
                connection.begin(token, batch, request)
                connection.read_whole()
                connection.transport.write(request)  # type: ignore[union-attr]  # kept only while it is open

    def unauthorized(self, milliseconds: int) -> bool:
        """Return False: what its requests carry does not change."""
        return False

    def send_afresh(
        self, token: Opaque, batch: RequestBatch, request: bytes, watch: Exchange | None = None
    ) -> Connection:
        """Send a request on a new connection; its time runs since its batch began."""
        connection = Connection(self, watch)
        self._connections.add(connection)
        self._active.add(self)
        self._busy.add(self)
        connection.begin(token, batch, request)
        self._connector.begin(connection, self._url, self._certificate)
        return connection

    def is_plain(self, data: bytes) -> bool:
        """Return whether it is a whole, ordinary 2xx answer; remembered, as within a second most are the same to the
        byte."""
        status = plain_success(data) if len(data) <= PLAIN_ANSWER_BYTES_MAX else 0
        if status:
            self.note_keep_alive(data)
            if status != self.plain_answer_status:
                self.answers.batch = None  # a run is of one status
            self.plain_answer, self.plain_answer_status = data, status
        return bool(status)

    def note_keep_alive(self, head: bytes) -> None:
        """Note how long the receiver keeps an idle connection, where it says so: the end of that is left to it."""
        found = _KEEP_ALIVE.search(head) if b"eep-" in head else None
        kept = min(self._closes_after, int(found[1])) if found else self._closes_after
        self.rest_seconds = min(REST_SECONDS_MAX, kept * REST_SHARE)

    def wait_for_body(self, connection: Connection) -> None:
        """Keep a connection that gives its request's place back before its answer has ended, or close it: those kept
        already stay, because their bodies may be on the way."""
        if connection.transport is None or connection.transport.is_closing():
            return
        if len(self._unread) < self._unread_max:
            self._unread.add(connection)
        else:
            connection.close()

    def body_came(self, connection: Connection) -> None:
        """Make room for one more such connection if this was one."""
        if connection in self._unread:
            self._unread.remove(connection)
            self._unread_max = min(UNREAD_MAX, self._unread_max + 1)

    def lost(self, connection: Connection) -> None:
        """Note after what time the other end closed a connection at rest, so that the next request does not meet that.

        What closes sooner than spare ones are closed here is none's time to keep connections: it restarts, perhaps.
        """
        now = monotonic()
        if connection in self._connections and connection.batch is None:
            rested = now - connection.idle_since
            if SPARE_REST_SECONDS <= rested < self._closes_after:
                self._closes_after, self._believed_until = rested, now + BELIEVED_SECONDS
                self.rest_seconds = min(self.rest_seconds, rested * REST_SHARE)
        self.forget(connection)

    def forget(self, connection: Connection) -> None:
        """A connection was closed."""
        self._connections.discard(connection)
        self._unread.discard(connection)
        if connection.batch is None:
            if connection in self.idle:
                self.idle.remove(connection)
            self.answers.forget(connection)

    def sweep(self, now_seconds: float, timeout_seconds: float) -> None:
        """End exchanges that take too long, and connections that were idle too long or have become old."""
        overdue = now_seconds - timeout_seconds
        for each in self._connections:
            batch = each.batch
            if (batch is not None and batch.began <= overdue) or each.old_at <= now_seconds:
                self._end_due(now_seconds, overdue)
                break
        self._close_stale(now_seconds)
        if now_seconds >= self._look_again_at:
            self._look_again_at = now_seconds + LOOK_AGAIN_SECONDS
            if now_seconds >= self._believed_until:
                self._closes_after = math.inf
            self._looking = asyncio.get_running_loop().create_task(self._look_again())

    def _end_due(self, now_seconds: float, overdue: float) -> None:
        for connection in [c for c in self._connections if c.batch is not None and c.batch.began <= overdue]:
            if connection in self._unread:
                self._unread_max = UNREAD_FIRST
            connection.expire()
        for connection in [c for c in self._connections if c.old_at <= now_seconds]:
            connection.retire()

    async def _look_again(self) -> None:
        """Leave addresses that the name has no longer."""
        try:
            addresses = await self._connector.addresses(self._url)
        except NameNotResolved:
            return  # a name server that is away takes no receiver away that is there
        now = monotonic()
        for connection in self._connections:
            if connection.transport is not None and connection.checked_address not in addresses:
                connection.old_at = min(connection.old_at, now + random() * LEAVING_SECONDS)

    def _close_stale(self, now_seconds: float) -> None:
        """Close connections that were idle too long; those at the left were so the longest, to within a turn.

        The one used last may rest for long: a receiver that gets an event now and then is spared a connection for each.
        """
        while self._stale_at() < now_seconds:
            self.idle.popleft().close()

    def _stale_at(self) -> float:
        if not self.idle:
            return math.inf
        is_spare = len(self.idle) > 1
        return self.idle[0].idle_since + (min(self.rest_seconds, SPARE_REST_SECONDS) if is_spare else self.rest_seconds)

    def close(self) -> None:
        """Drop every connection."""
        if self._looking is not None:
            self._looking.cancel()
        for connection in list(self._connections):
            connection.close()

    @property
    def is_at_rest(self) -> bool:
        """Return whether no request is under way."""
        return len(self.idle) == len(self._connections)

    def __len__(self) -> int:
        return len(self._connections)


class Pools:
    """All pools of a process, by origin and client certificate."""

    def __init__(
        self,
        sink: Sink,
        resolver: Resolver,
        tls: ssl.SSLContext,
        age_seconds: float = CONNECTION_AGE_SECONDS,
        certificate_of: Callable[[Pair], ClientCertificate] | None = None,
        proxy: Proxy | None = None,
    ) -> None:
        self._sink = sink
        self._answers: PlainAnswers[Connection] = PlainAnswers(sink)
        self._connector = Connector(Dialer(resolver, proxy=proxy), tls, self._make_room)
        self._age_seconds = age_seconds
        self._certificate_of = certificate_of
        self._pools: dict[tuple[object, ...], Pool] = {}
        self._active: set[Pool] = set()
        """Pools that have connections: the others cost nothing."""
        self._busy: set[Pool] = set()
        """Those that had a request under way when they were swept last, and all that were asked since."""
        self._round: list[Pool] = []
        """Those that are still to be swept in this round, at rest or not."""
        self._swept_seconds = 0.0
        self._reads_first = False
        """Whether the sweep before this one left the answers to be read."""

    def of(self, url: ReceiverUrl, pair: Pair | None = None) -> Pool:
        """Return the pool of a URL's origin; ``pair`` refers to the client certificate shown there and its key."""
        key = (url.origin, pair)
        pool = self._pools.get(key)
        if pool is None:
            certificate = self._certificate_of(pair) if self._certificate_of is not None and pair is not None else None
            parts = self._sink, self._connector, self._active, self._answers, self._age_seconds
            pool = Pool(url, *parts, certificate, self._busy)
            self._pools[key] = pool
        return pool

    @property
    def connections(self) -> int:
        """Return how many there are."""
        return sum(len(pool) for pool in self._active)

    def keep_only(self, used: Set[Route]) -> None:
        """Forget origins that no destination leads to any more, once their last answers are in."""
        self._pools = {key: pool for key, pool in self._pools.items() if pool in used or len(pool)}

    def sweep(self, timeout_seconds: float) -> None:
        """Sweep the pools with requests under way, and some of those at rest."""
        now = monotonic()
        if not self._round:
            self._limit_idle()
            self._round = list(self._active)
        some = math.ceil(len(self._active) * min(1.0, (now - self._swept_seconds) / ROUND_SECONDS))
        # Answers that came while the process stood still are in its sockets: they are read before their time is judged,
        # but only once, for who is late each time would wait for ever.
        self._reads_first = not self._reads_first and now - self._swept_seconds > LATE_SECONDS
        if self._reads_first:
            timeout_seconds = math.inf
        self._swept_seconds = now
        for pool in self._busy.union(self._round[:some]):
            pool.sweep(now, timeout_seconds)
            if pool.is_at_rest:
                self._busy.discard(pool)
            if not len(pool):
                self._active.discard(pool)
        del self._round[:some]

    def close(self) -> None:
        """Drop every connection; what has been answered by then is told."""
        self._answers.hand_over()
        for pool in self._pools.values():
            pool.close()

    def _limit_idle(self) -> None:
        """Close some where too many are at rest, by chance: with more origins than room that get an event in turn, the
        one at rest the longest is needed next."""
        most = min(IDLE_MAX, open_files_max() // 2)
        excess = sum(len(pool.idle) for pool in self._active) - most
        if excess > 0:
            resting = [pool for pool in self._active if pool.idle]
            for pool in sample(resting, min(excess, len(resting))):
                pool.idle.popleft().close()

    def _make_room(self) -> None:
        for pool in self._active:
            if pool.idle:
                pool.idle.popleft().close()
                break


class Exchanges:
    """Sends requests one by one, each on a connection of its own, by the rules of all the others.

    For the tester, which shows people what a receiver answered, and for what control sends of its own. Nothing is kept
    alive, tried again or recorded. ``timeout_seconds`` is for all of an exchange, from the look-up on.
    """

    def __init__(
        self, resolver: Resolver, tls: ssl.SSLContext, timeout_seconds: float, proxy: Proxy | None = None
    ) -> None:
        self._connector = Connector(Dialer(resolver, proxy=proxy), tls)
        self._timeout_seconds = timeout_seconds

    async def send(self, url: ReceiverUrl, request: bytes, certificate: ClientCertificate | None = None) -> Exchange:
        """Send the request and return what came of it; never raises for what the network or the receiver does."""
        exchange = Exchange()
        pool = Pool(url, exchange, self._connector, certificate=certificate)
        connection = pool.send_afresh(exchange, RequestBatch(url, monotonic()), request, exchange)
        try:
            await asyncio.wait_for(exchange.ended.wait(), self._timeout_seconds)
        except TimeoutError:
            connection.expire(f"no answer within {self._timeout_seconds:g} s")
        finally:
            pool.close()
        return exchange
