"""Makes the connections: look the name up, check, connect to an address that was checked, and shake hands.

Where this machine has too few descriptors, or too little memory, for another connection, requests wait for those under
way; no receiver is blamed for it.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import ssl
from collections.abc import Callable
from time import monotonic

from hookline.connections.receiver_url import ReceiverUrl
from hookline.deliver.send.answers import RequestBatch
from hookline.deliver.send.client_certificate import ClientCertificate, tls_reason
from hookline.deliver.send.connection import Connection
from hookline.deliver.send.dialer import SHORT, Dialer
from hookline.deliver.send.resolver import BlockedAddress, NameNotResolved
from hookline.outcomes.outcome import Outcome
from hookline.telemetry.log import logger

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
            return await self._dialer.resolver.resolve(url.host, url.port)
        except BlockedAddress:
            return []

    async def _connect(self, connection: Connection, url: ReceiverUrl, certificate: ClientCertificate | None) -> None:
        while not await self._has_connected(connection, url, certificate):
            await self._wait_for_descriptors(connection)

    async def _has_connected(
        self, connection: Connection, url: ReceiverUrl, certificate: ClientCertificate | None
    ) -> bool:
        """Try once; False while this machine has too little of something for another connection."""
        if not _may_open():
            return False
        try:
            connection.checked_address, plain = await self._dialer.dial(url.host, url.port, connection.watch)
            await self._take_up(connection, plain, url, certificate)
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
        _tell_of_shortage()
        self._make_room()
        await asyncio.sleep(SHORT_SECONDS)
        if connection.batch is not None:
            connection.batch = RequestBatch(connection.batch.target, monotonic())

    async def _take_up(
        self, connection: Connection, plain: socket.socket, url: ReceiverUrl, certificate: ClientCertificate | None
    ) -> None:
        """Begin the exchange on a socket that is connected, with TLS where that is to be."""
        is_tls = url.scheme == "https"
        tls = None if not is_tls else self._tls if certificate is None else certificate.context()
        began = monotonic()
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: connection, sock=plain, ssl=tls, server_hostname=url.host if is_tls else None
            )
        except (OSError, asyncio.CancelledError):
            self._dialer.was_dead(connection.checked_address, url.port)  # there are others, perhaps, that get further
            raise
        finally:
            if is_tls and connection.watch is not None:
                connection.watch.secured(began)


def _refused(connection: Connection, outcome: Outcome, error: str) -> None:
    connection.task = None
    if connection.token is not None:
        connection.refuse(outcome, error)
    else:
        connection.close()


def _may_open() -> bool:
    """Return whether another descriptor leaves enough to the others: the system gives the lowest that is free."""
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
    """Return TLS that verifies certificates and host names always; ``ca_file`` adds to the system's authorities."""
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
