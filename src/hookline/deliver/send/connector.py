"""Makes the connections: look the name up, check, connect to an address that was checked, and shake hands.

Where this machine has too few descriptors, or too little memory, for another connection, requests wait for those under
way; no receiver is blamed for it."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from io import FileIO
from itertools import chain, zip_longest
from random import shuffle
from time import monotonic
from typing import NamedTuple

from hookline.connections.receiver_url import ReceiverUrl
from hookline.deliver.send.answers import RequestBatch
from hookline.deliver.send.client_certificate import ClientCertificate, tls_reason
from hookline.deliver.send.connection import Connection
from hookline.deliver.send.exchange import Exchange
from hookline.deliver.send.proxy import SHORT, TRY_ANOTHER, Proxy, ProxyFailed, connected
from hookline.deliver.send.resolver import BlockedAddress, NameNotResolved, Resolver, open_files_max
from hookline.deliver.send.tls import TlsTransport
from hookline.outcomes.outcome import Outcome
from hookline.telemetry.log import logger

STAGGER_SECONDS = 0.25
"""From one address to the next as long as none has answered (RFC 8305 section 5): four dead ones cost a second."""
ASKED_LAST_SECONDS = 30.0
"""An address that did not answer is asked after the others for so long; then by one connection, to see whether it is
back."""
ASKED_LAST_MAX = 10_000


class Dialled(NamedTuple):
    """Hold a socket that leads to an address that was checked; ``peer`` is the proxy's where there is one."""

    address: str
    peer: str
    socket: socket.socket


class Dialer:
    """Connects to receivers' names, through a proxy where there is one; remembers which addresses were dead."""

    def __init__(self, resolver: Resolver, clock: Callable[[], float] = monotonic, proxy: Proxy | None = None) -> None:
        self.resolver = resolver
        self._proxy = proxy
        self._clock = clock
        self._asked_last: dict[tuple[str, int], float] = {}
        """Until when, by address and port."""

    async def dial(
        self, host: str, port: int, watch: Exchange | None = None, reserved: FileIO | None = None
    ) -> Dialled:
        """Return one of the name's addresses and a socket that is connected to it; the caller bounds the time.

        ``reserved`` holds a descriptor, and is closed where the first socket takes it.
        Raise what the resolver raises, or the OSError of the address that was asked first.
        """
        began = monotonic()
        addresses: list[str] | None = None
        try:
            addresses = await self.resolver.resolve(host, port)
        finally:
            if watch is not None:
                watch.resolved(began, addresses)
        try:
            if self._proxy is not None:
                dialled = await self._through(self._proxy, addresses, port, reserved)
            elif len(addresses) == 1:
                dialled = Dialled(addresses[0], addresses[0], await connected(addresses[0], port, reserved))
            else:
                address, plain = await self._first_of(self.in_order(addresses, port), port, reserved)
                dialled = Dialled(address, address, plain)
        except (OSError, asyncio.CancelledError) as error:
            if getattr(error, "errno", None) not in SHORT:
                self.resolver.led_nowhere(host)
            raise
        if watch is not None:
            watch.connected(began, dialled.address)
        return dialled

    async def _through(self, proxy: Proxy, addresses: Sequence[str], port: int, reserved: FileIO | None) -> Dialled:
        """Ask the proxy for one address after the other: what it cannot reach it says by itself."""
        failed: ProxyFailed | None = None
        for address in self.in_order(addresses, port):
            try:
                peer, plain = await proxy.connect(address, port, reserved)
            except ProxyFailed as error:
                if error.status not in TRY_ANOTHER:
                    raise
                self.was_dead(address, port)
                failed = error
            else:
                self._asked_last.pop((address, port), None)
                return Dialled(address, peer, plain)
        raise failed or OSError("the name has no address")

    def in_order(self, addresses: Sequence[str], port: int) -> list[str]:
        """Return the addresses as they are to be asked: healthy ones in turn, those that were dead at the end.

        The family that the system prefers comes first; its addresses share the connections.
        """
        now = self._clock()
        well: list[str] = []
        dead: list[str] = []
        back: list[str] = []
        for address in addresses:
            until = self._asked_last.get((address, port))
            if until is None:
                well.append(address)
            elif until <= now and not back:
                back.append(address)
                self.was_dead(address, port)  # for everybody else, until it has connected
            else:
                dead.append(address)
        shuffle(well)
        shuffle(dead)
        is_preferred = ":" in addresses[0]
        first = [address for address in well if (":" in address) is is_preferred]
        second = [address for address in well if (":" in address) is not is_preferred]
        healthy = [address for address in chain(*zip_longest(first, second)) if address is not None]
        return back + healthy + dead

    def was_dead(self, address: str, port: int) -> None:
        """Ask an address last for a while: it refused, or did not answer."""
        self._asked_last.pop((address, port), None)
        if len(self._asked_last) >= ASKED_LAST_MAX:
            del self._asked_last[next(iter(self._asked_last))]
        self._asked_last[address, port] = self._clock() + ASKED_LAST_SECONDS

    async def _first_of(
        self, addresses: Sequence[str], port: int, reserved: FileIO | None
    ) -> tuple[str, socket.socket]:
        """Ask one after the other, each beside those that have not answered yet, as far as there are descriptors; the
        first to connect is taken."""
        left = deque(addresses)
        beside: list[FileIO] = []
        asked: list[tuple[str, asyncio.Task[socket.socket]]] = []
        failed: OSError | None = None
        try:
            while left or asked:
                if left and (not asked or (reserved := _reserved_descriptor()) is not None):
                    if reserved is not None:
                        beside.append(reserved)
                    address = left.popleft()
                    asking = connected(address, port, reserved)
                    asked.append((address, asyncio.get_running_loop().create_task(asking)))
                wait_seconds = STAGGER_SECONDS if left else None
                await asyncio.wait(
                    [task for _, task in asked], timeout=wait_seconds, return_when=asyncio.FIRST_COMPLETED
                )
                for each in [each for each in asked if each[1].done()]:
                    address, task = each
                    if (error := task.exception()) is None:
                        self._has_answered(address, port, asked[: asked.index(each)])
                        asked.remove(each)
                        return address, task.result()
                    asked.remove(each)
                    if not isinstance(error, OSError):
                        raise error
                    if error.errno in SHORT:
                        failed = error
                    else:
                        self.was_dead(address, port)
                        failed = failed or error
            raise failed or OSError("the name has no address")
        except asyncio.CancelledError:  # the time for all of it is over
            for address, _ in asked:
                self.was_dead(address, port)
            raise
        finally:
            for held in beside:
                held.close()
            for _, task in asked:
                task.cancel()
                task.add_done_callback(_let_go)

    def _has_answered(self, address: str, port: int, before: Sequence[tuple[str, object]]) -> None:
        """An address has connected, and those that were asked ``before`` it have not."""
        self._asked_last.pop((address, port), None)
        for slow, _ in before:
            self.was_dead(slow, port)


def _let_go(task: asyncio.Task[socket.socket]) -> None:
    """Close what has connected although another address was taken."""
    if not task.cancelled() and task.exception() is None:
        task.result().close()


DESCRIPTORS_KEPT = 64
"""Of those that the process may have: left for its own files, and for looking names up."""
SHORT_SECONDS = 0.02
"""From one look for a free descriptor to the next."""
SHORT_LOG_SECONDS = 60.0


class Connector:
    """Connects; ``make_room`` closes a connection that rests, if there is one."""

    def __init__(self, dialer: Dialer, tls: ssl.SSLContext, make_room: Callable[[], None] = lambda: None) -> None:
        self._dialer = dialer
        self._tls = tls
        self._make_room = make_room

    def begin(self, connection: Connection, url: ReceiverUrl, certificate: ClientCertificate | None) -> None:
        """Have the connection made, with its request as the first one; it takes what comes of that as its result."""
        connection.task = asyncio.get_running_loop().create_task(self._connect(connection, url, certificate))

    async def addresses(self, url: ReceiverUrl) -> list[str]:
        """Return where connections may lead now; none for a name that leads where none may. Raise NameNotResolved."""
        try:
            return await self._dialer.resolver.resolve(url.host, url.port, anew=True)
        except BlockedAddress:
            return []

    async def _connect(self, connection: Connection, url: ReceiverUrl, certificate: ClientCertificate | None) -> None:
        while not await self._has_connected(connection, url, certificate):
            await self._wait_for_descriptors(connection)

    async def _has_connected(
        self, connection: Connection, url: ReceiverUrl, certificate: ClientCertificate | None
    ) -> bool:
        """Try once; False while this machine has too little of something for another connection."""
        reserved = _reserved_descriptor()
        if reserved is None:
            return False
        try:
            with reserved:
                dialled = await self._dialer.dial(url.host, url.port, connection.watch, reserved)
            connection.checked_address, connection.peer_address = dialled.address, dialled.peer
            await self._take_up(connection, dialled.socket, url, certificate)
            connection.task = None
        except BlockedAddress as error:
            _refused(connection, Outcome.BLOCKED_ADDRESS, str(error))
        except NameNotResolved as error:
            _refused(connection, Outcome.NAME_NOT_RESOLVED, str(error))
        except ssl.SSLError as error:
            _refused(connection, Outcome.TLS_REFUSED, tls_reason(error))
        except OSError as error:
            if error.errno in SHORT:
                return False
            _refused(connection, Outcome.CONNECTION_FAILED, error.strerror or str(error) or "closed at once")
        return True

    async def _wait_for_descriptors(self, connection: Connection) -> None:
        """Make room among connections that rest, and begin the exchange anew: its time has not begun."""
        _log_shortage()
        self._make_room()
        await asyncio.sleep(SHORT_SECONDS)
        if connection.batch is not None:
            connection.batch = RequestBatch(connection.batch.target, monotonic(), connection.batch.whole)

    async def _take_up(
        self, connection: Connection, plain: socket.socket, url: ReceiverUrl, certificate: ClientCertificate | None
    ) -> None:
        """Begin the exchange on a socket that is connected, with TLS where that is to be."""
        is_tls = url.scheme == "https"
        tls = None if not is_tls else self._tls if certificate is None else certificate.context()
        began = monotonic()
        try:
            if tls is None:
                await asyncio.get_running_loop().create_connection(lambda: connection, sock=plain)
            else:
                await self._secure(connection, plain, url.host, tls)
        except (OSError, asyncio.CancelledError):
            self._dialer.was_dead(connection.checked_address, url.port)  # there are others, perhaps, that get further
            raise
        finally:
            if is_tls and connection.watch is not None:
                connection.watch.secured(began)

    async def _secure(self, connection: Connection, plain: socket.socket, host: str, tls: ssl.SSLContext) -> None:
        address, sessions = connection.checked_address, connection.pool.sessions
        _, secured = await asyncio.get_running_loop().create_connection(
            lambda: TlsTransport(connection, tls, host, address, sessions), sock=plain
        )
        try:
            await secured.made
        except BaseException:
            secured.abort()
            raise
        finally:
            del secured  # it knows the error, which knows this frame


def _refused(connection: Connection, outcome: Outcome, error: str) -> None:
    connection.task = None
    if connection.token is not None:
        connection.refuse(outcome, error)
    else:
        connection.close()


def _reserved_descriptor() -> FileIO | None:
    """Return what holds a descriptor until a socket takes its place, None where too few would be left to the others.

    The system gives the lowest that is free. Held, because many connections may begin, and look their names up, before
    the first has its socket: each is to see those before it.
    """
    try:
        reserved = FileIO(os.devnull)
    except OSError:
        return None
    most = open_files_max()
    if reserved.fileno() >= most - min(DESCRIPTORS_KEPT, most // 4):
        reserved.close()
        return None
    return reserved


_shortage_logged = [-SHORT_LOG_SECONDS]


def _log_shortage() -> None:
    now = monotonic()
    if now - _shortage_logged[0] >= SHORT_LOG_SECONDS:
        _shortage_logged[0] = now
        next_step = "requests wait for those under way; raise the limit of open files of the service"
        logger().warning("too_few_descriptors", allowed=open_files_max(), next_step=next_step)
