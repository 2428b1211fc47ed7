"""All open connections of the edge: how many there may be, the clock that closes slow ones, and the end of them all.

Room is shared by address: the last quarter of it is for those who hold less than their even share, so that one flood
from one place shuts nobody else out. A trusted proxy speaks for many and is held to the bounds of all alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from hookline.client_address import Network, client_address, forwarded, is_trusted, network_of
from hookline.collect.counters import Counters
from hookline.collect.decode import (
    BUFFERED_BYTES_MAX,
    CONNECTIONS_MAX,
    DROP_CLIENTS_MAX,
    DROP_SECONDS,
    UNPROVEN_CONNECTIONS_MAX,
)
from hookline.settings import Collect


class Address:
    """Hold what the connections of one address hold together; ``unproven`` ones have not sent a whole request yet."""

    __slots__ = ("buffered_bytes", "connections", "group", "host", "trusted", "unproven")

    def __init__(self, group: str, host: str, trusted: bool) -> None:
        self.group = group
        self.host = host
        self.trusted = trusted
        self.connections = self.unproven = self.buffered_bytes = 0


NETWORKS_KEPT = 1_024
FORWARDED_BYTES_KEPT = 256


class ClientNetworks:
    """Distinguishes the clients of trusted proxies by what the proxies say of them."""

    __slots__ = ("_by_said", "_networks", "_trusted")

    def __init__(self, trusted: Sequence[Network]) -> None:
        self._trusted = trusted
        self._by_said: dict[tuple[str, tuple[bytes, bytes]], str] = {}
        self._networks: dict[str, str] = {}

    def of(self, proxy: Address, headers: Mapping[bytes, bytes]) -> str:
        """Return what is counted as one client of a trusted proxy. Of the same one it is the same object, as long as it
        is kept: to compare that costs nothing."""
        said = forwarded(headers)
        key = proxy.host, said
        network = self._by_said.get(key)
        if network is None:
            found = network_of(client_address(proxy.host, [said], self._trusted))
            if max(len(self._networks), len(self._by_said)) >= NETWORKS_KEPT:
                self._networks.clear()
                self._by_said.clear()
            network = self._networks.setdefault(found, found)
            if len(said[1]) <= FORWARDED_BYTES_KEPT:
                self._by_said[key] = network
        return network


class Client(Protocol):
    """One open connection; ``deadline`` is when it expires on the clients' clock.

    ``address`` is set, and ``unproven`` kept, by ``Clients``.
    """

    deadline: float
    address: Address | None
    unproven: bool

    @property
    def is_idle(self) -> bool:
        """Return whether it has been served and asks for nothing."""

    @property
    def is_sending(self) -> bool:
        """Return whether a request of it has begun and is not whole."""

    def read_on(self) -> None:
        """Read the next part of what is dropped."""

    def expire(self) -> None:
        """The deadline has passed: answer what is due and close."""

    def drain(self) -> None:
        """Close as soon as what has been asked is answered."""

    def abort(self) -> None:
        """Close now."""


class Clients:
    """The open connections. ``now`` is a coarse clock, advanced by ``sweep``: no timer object per request."""

    def __init__(
        self,
        counters: Counters,
        clock: Callable[[], float],
        connections_max: int = CONNECTIONS_MAX,
        buffered_bytes_max: int = BUFFERED_BYTES_MAX,
        unproven_max: int = UNPROVEN_CONNECTIONS_MAX,
        trusted_proxies: Sequence[Network] = (),
        settings: Collect = Collect(),  # noqa: B008 - it is frozen
    ) -> None:
        self.counters = counters
        self.now = clock()
        self.idle_until = self.now + settings.idle_timeout
        """The deadline of who becomes idle now."""
        self.draining = False
        """Whether every answer is its connection's last."""
        self.refused_body_bytes_max = settings.refused_body_max
        self._idle_seconds_max = settings.idle_timeout
        self._clock = clock
        self._open: set[Client] = set()
        self._connections_max = connections_max
        self._buffered_bytes_max = buffered_bytes_max
        self._unproven_max = unproven_max
        self._trusted_proxies = trusted_proxies
        self._addresses: dict[str, Address] = {}
        self._buffering_addresses = 0
        self._dropping: deque[Client] = deque()
        self._emptied = asyncio.Event()

    def enter(self, client: Client, host: str = "") -> bool:
        """Take a new connection in; False when there are too many, or too many of its address."""
        counters = self.counters
        counters.connections += 1
        address = self._address(host)
        if not self._has_room(address):
            counters.refused_connections += 1
            return False
        self._addresses[address.group] = client.address = address
        address.connections += 1
        address.unproven += 1
        self._open.add(client)
        counters.open_connections = len(self._open)
        return True

    def leave(self, client: Client) -> None:
        """Forget a connection; harmless when it is not known."""
        self._open.discard(client)
        address, client.address = client.address, None
        if address is not None:
            address.connections -= 1
            address.unproven -= client.unproven
            if not address.connections:
                del self._addresses[address.group]
        self.counters.open_connections = len(self._open)
        if not self._open:
            self._emptied.set()

    def prove(self, client: Client) -> None:
        """Note that a connection has sent a whole request."""
        client.unproven = False
        if client.address is not None:
            client.address.unproven -= 1

    def buffer(self, address: Address, more_bytes: int) -> bool:
        """Account for bytes of unfinished requests and of unread answers (negative: given back); False when there are
        too many."""
        counters, before = self.counters, address.buffered_bytes
        address.buffered_bytes += more_bytes
        counters.buffered_bytes += more_bytes
        self._buffering_addresses += bool(address.buffered_bytes) - bool(before)
        if more_bytes <= 0:
            return True
        held_bytes = 0 if address.trusted else address.buffered_bytes
        return is_fair(held_bytes, self._buffering_addresses, counters.buffered_bytes, self._buffered_bytes_max)

    def sweep(self) -> None:
        """Advance the clock, expire every connection whose deadline has passed, and idle ones when there are many."""
        self.now = now = self._clock()
        self.idle_until = now + self._idle_seconds_max
        for client in [client for client in self._open if client.deadline <= now]:
            client.expire()
        surplus = len(self._open) - self._connections_max * 3 // 4
        if surplus > 0:
            self._shed(surplus)

    def wait_to_drop(self, client: Client) -> None:
        """Have the next part of a refused body read a little later, in turn with those of others.

        So it arrives, as its sender may need before it looks for the answer, and takes neither memory nor time that
        others wait for.
        """
        if not self._dropping:
            asyncio.get_running_loop().call_later(DROP_SECONDS, self._drop_on)
        self._dropping.append(client)

    async def uploaded(self, seconds_max: float) -> None:
        """Wait for the requests that are arriving now to be whole, but no longer than that."""
        sending = {client for client in self._open if client.is_sending}
        for _ in range(round(seconds_max / DROP_SECONDS)):
            if not any(client.is_sending for client in sending & self._open):
                break
            await asyncio.sleep(DROP_SECONDS)

    async def emptied(self, seconds_max: float) -> bool:
        """Wait until no connection is open; False when that takes longer."""
        self._emptied.clear()
        if self._open:
            try:
                await asyncio.wait_for(self._emptied.wait(), seconds_max)
            except TimeoutError:
                return False
        return True

    async def drain(self, seconds_max: float) -> None:
        """Let every connection finish what it has been asked; abort those that take longer than ``seconds_max``."""
        self.draining = True
        for client in list(self._open):
            # Closing resets what came and was not read: calls that arrive while others are closed are read before.
            await asyncio.sleep(0)
            client.drain()
        if not await self.emptied(seconds_max):
            for client in list(self._open):
                client.abort()

    def _drop_on(self) -> None:
        for _ in range(min(DROP_CLIENTS_MAX, len(self._dropping))):
            self._dropping.popleft().read_on()
        if self._dropping:
            asyncio.get_running_loop().call_later(DROP_SECONDS, self._drop_on)

    def _shed(self, surplus: int) -> None:
        """Close idle connections, the oldest of the addresses that have most; trusted proxies speak for many."""

        def order(client: Client) -> tuple[int, float]:
            address = client.address
            return (0 if address is None or address.trusted else -address.connections, client.deadline)

        for client in sorted((client for client in self._open if client.is_idle), key=order)[:surplus]:
            client.expire()
            self.counters.shed_connections += 1

    def _address(self, host: str) -> Address:
        trusted = bool(self._trusted_proxies) and is_trusted(host, self._trusted_proxies)
        group = host if trusted else network_of(host)
        return self._addresses.get(group) or Address(group, host, trusted)

    def _has_room(self, address: Address) -> bool:
        """Return whether one connection more of this address is within all bounds."""
        if not address.trusted and address.unproven >= self._unproven_max:
            return False
        others = len(self._addresses) - (address.group in self._addresses)
        held = 0 if address.trusted else address.connections
        return is_fair(held, others + 1, len(self._open) + 1, self._connections_max)


def is_fair(held: int, holders: int, total: int, total_max: int) -> bool:
    """Return whether a holder may hold this much of what there is ``total_max`` of for everybody.

    Up to three quarters of it everybody may have; above that only who stays within an even share, one holder more
    than there are counted in: room that is left is left for others.
    """
    return total <= total_max and (total <= total_max * 3 // 4 or held * (holders + 1) <= total_max)
