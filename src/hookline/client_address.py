"""Tell who is at the other end of a connection: behind reverse proxies, as far as these are trusted, and behind load
balancers that say it in the first bytes (PROXY protocol, versions 1 and 2).

The protocol: https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt. Only trusted peers are believed, and theirs
must begin with it: one that only might could not be told from a client that makes it up. Others' connections are taken
as they are. Made only where a setting asks for it: connections elsewhere never pass through here.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from time import monotonic
from typing import Any, NamedTuple, cast

from hookline.telemetry.log import logger

FORWARDED_FOR = b"x-forwarded-for"
FORWARDED = b"forwarded"
"""RFC 7239; counts only where there is no ``X-Forwarded-For``: most proxies write that one, and pass on a ``Forwarded``
that the client made up."""
FORWARDED_CHARACTERS_MAX = 2_048
"""Of the end of ``Forwarded``, where the trusted proxies write."""
HOPS_MAX = 20
"""Proxies that are followed; nobody has so many."""

_WITH_PORT = re.compile(r"\[([^\]]*)\](?::(?:\d+|_[\w.-]+))?|([^:]*):(?:\d+|_[\w.-]+)")
_PAIR = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+=(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+|\"(?:[^\"\\]|\\.)*\")"
_LAST_ELEMENT = re.compile(rf"(?:^|,)[ \t]*({_PAIR}(?:[ \t]*;[ \t]*{_PAIR})*)[ \t]*$")
_FOR = re.compile(r"(?:^|;)[ \t]*for=(?:\"((?:[^\"\\]|\\.)*)\"|([^;\"]*))", re.IGNORECASE)

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


def client_address(peer: str, headers: Iterable[tuple[bytes, bytes]], trusted: Sequence[Network]) -> str:
    """Return the nearest address that is no trusted proxy's (``collect.trusted_proxies``); the peer's where none is
    trusted.

    A proxy adds whom it was asked by at the end of ``X-Forwarded-For``, or of ``Forwarded`` where there is no such
    header. So only what a trusted one added is believed: whatever stands before that, the client may have made up.
    """
    if not is_trusted(peer, trusted):
        return plain(peer)
    named = [(name, value.decode("latin-1")) for name, value in headers if name in (FORWARDED_FOR, FORWARDED)]
    values = [value for name, value in named if name == FORWARDED_FOR]
    if values or not named:
        hops: Iterator[str] = (hop.strip() for hop in reversed(",".join(values).rsplit(",", HOPS_MAX)))
    else:
        hops = _forwarded_hops(", ".join(value for _, value in named))
    nearest = plain(peer)
    for hop in hops:
        found = _address(hop)
        if found is None:
            break
        nearest = str(found)
        if not is_trusted(nearest, trusted):
            break
    return nearest


def forwarded(headers: Mapping[bytes, bytes]) -> tuple[bytes, bytes]:
    """Return the header that says whom a proxy was asked by, the lists of each name already one."""
    value = headers.get(FORWARDED_FOR)
    return (FORWARDED_FOR, value) if value is not None else (FORWARDED, headers.get(FORWARDED, b""))


def plain(peer: str) -> str:
    """Return a peer's address, an IPv4 one as such: on a port of both kinds it comes as ``::ffff:192.0.2.1``."""
    return peer.removeprefix("::ffff:") if "." in peer else peer


def network_of(address: str) -> str:
    """Return what is counted as one client: the address itself; of IPv6 the /64 that a single machine is given."""
    found = _address(address)
    if found is None or found.version == 4:
        return address if found is None else str(found)
    return str(ip_network((found, 64), strict=False))


def is_trusted(text: str, trusted: Sequence[Network]) -> bool:
    """Return whether an address is a trusted proxy's."""
    address = _address(text)
    return address is not None and any(address in network for network in trusted)


def _forwarded_hops(text: str) -> Iterator[str]:
    """Yield the ``for`` of each element, the last first; ends at one that has none.

    Read from the end, an element by itself: a quote that a client left open begins nothing that a proxy wrote.
    """
    if len(text) > FORWARDED_CHARACTERS_MAX:
        text = text[-FORWARDED_CHARACTERS_MAX:].partition(",")[2]
    for _ in range(HOPS_MAX):
        element = _LAST_ELEMENT.search(text)
        found = _FOR.search(element[1]) if element is not None else None
        if element is None or found is None:
            return
        yield re.sub(r"\\(.)", r"\1", found[1]) if found[1] is not None else found[2].strip()
        text = text[: element.start()]


def _address(text: str) -> Address | None:
    """Return an address as proxies write it, with or without a port. A zone is left away: it says something only where
    the address is used, and may hold any characters."""
    found = _WITH_PORT.fullmatch(text)
    try:
        address = ip_address((found[1] or found[2] or "") if found else text)
    except ValueError:
        return None
    if address.version == 6 and address.scope_id is not None:
        address = IPv6Address(int(address))
    return getattr(address, "ipv4_mapped", None) or address


HEADER_SECONDS_MAX = 10.0
V1_BYTES_MAX = 107
"""As the protocol has it, with the line end."""
V2_BYTES_MAX = 4 * 1024
"""Of what follows the first 16 bytes: two addresses, and whatever a balancer adds; certificates are the longest."""
LOG_SECONDS = 60.0
"""From one log line about connections without a header to the next."""

_V1 = b"PROXY "
_V2 = b"\r\n\r\n\x00\r\nQUIT\n"
_V2_HEAD_BYTES = len(_V2) + 4
_V1_LINE = re.compile(rb"PROXY (TCP4|TCP6) ([0-9A-Fa-f.:]+) ([0-9A-Fa-f.:]+) (\d{1,5}) (\d{1,5})")


class Malformed(ValueError):
    """These bytes begin no connection that a load balancer hands on."""


class Announced(NamedTuple):
    """A header: the client's address and port, None where the balancer speaks for itself, and the header's length."""

    peer: tuple[str, int] | None
    bytes: int


def parse(data: bytes) -> Announced | None:
    """Read the header at the beginning of a connection, None while it is not whole; raise Malformed."""
    if data.startswith(_V2):
        return _second(data)
    if data.startswith(_V1):
        return _first(data)
    if _V2.startswith(data) or _V1.startswith(data):
        return None
    raise Malformed("no PROXY header")


def _first(data: bytes) -> Announced | None:
    end = data.find(b"\r\n", 0, V1_BYTES_MAX)
    if end < 0:
        if len(data) >= V1_BYTES_MAX:
            raise Malformed("the line is too long")
        return None
    line = data[:end]
    if line == b"PROXY UNKNOWN" or line.startswith(b"PROXY UNKNOWN "):
        return Announced(None, end + 2)
    found = _V1_LINE.fullmatch(line)
    if found is None:
        raise Malformed("not as the protocol has it")
    kind = IPv4Address if found[1] == b"TCP4" else IPv6Address
    try:
        client, _ = (kind(found[number].decode()) for number in (2, 3))
    except ValueError:
        raise Malformed("no address") from None
    ports = [int(found[number]) for number in (4, 5)]
    if max(ports) > 65_535:
        raise Malformed("no port")
    return Announced((str(client), ports[0]), end + 2)


def _second(data: bytes) -> Announced | None:
    if len(data) < _V2_HEAD_BYTES:
        return None
    version, command = data[12] >> 4, data[12] & 0x0F
    length = int.from_bytes(data[14:16], "big")
    if version != 2 or command > 1 or length > V2_BYTES_MAX:
        raise Malformed("not as the protocol has it")
    end = _V2_HEAD_BYTES + length
    if len(data) < end:
        return None
    address_bytes = {0x11: 4, 0x21: 16}.get(data[13])  # TCP over IPv4, over IPv6; a UNIX socket has no address
    if command == 0 or address_bytes is None:
        return Announced(None, end)
    if length < 2 * address_bytes + 4:
        raise Malformed("no addresses")
    address = data[16 : 16 + address_bytes]
    client = IPv4Address(address) if address_bytes == 4 else IPv6Address(address)
    port = int.from_bytes(data[16 + 2 * address_bytes : 18 + 2 * address_bytes], "big")
    return Announced((str(client), port), end)


class HandedOn:
    """A transport of a connection whose client is at another address than the peer."""

    def __init__(self, transport: asyncio.Transport, peer: tuple[str, int]) -> None:
        self._transport = transport
        self.peer = peer
        self.write = transport.write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """As the transport's; the peer is the client."""
        return self.peer if name == "peername" else self._transport.get_extra_info(name, default)


class ProxyHeader(asyncio.Protocol):
    """A new connection until it has said whose it is; ``connect`` makes the protocol that takes it then."""

    def __init__(self, trusted: Sequence[Network], connect: Callable[[], asyncio.Protocol]) -> None:
        self._trusted = trusted
        self._connect = connect
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Hand on at once what nobody trusted has sent."""
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        if peer is None or not is_trusted(peer[0], self._trusted):
            self._hand_on(None, b"")
        else:
            self._timer = asyncio.get_running_loop().call_later(HEADER_SECONDS_MAX, self._refuse, "it came too slowly")

    def data_received(self, data: bytes) -> None:
        """Read on until the header is whole."""
        self._data += data  # at most its bounds and what one read brings
        try:
            found = parse(self._data)
        except Malformed as error:
            self._refuse(str(error))
            return
        if found is not None:
            self._hand_on(found.peer, self._data[found.bytes :])

    def connection_lost(self, error: Exception | None) -> None:
        """The peer went away."""
        if self._timer is not None:
            self._timer.cancel()
        self._transport = None

    def _hand_on(self, peer: tuple[str, int] | None, rest: bytes) -> None:
        transport = self._transport
        assert transport is not None, "what arrives is of a connection"
        if self._timer is not None:
            self._timer.cancel()
        self._data = b""
        protocol = self._connect()
        transport.set_protocol(protocol)
        protocol.connection_made(transport if peer is None else cast(asyncio.Transport, HandedOn(transport, peer)))
        if rest and not transport.is_closing():
            protocol.data_received(rest)

    def _refuse(self, why: str) -> None:
        transport, self._transport = self._transport, None
        if transport is None:
            return
        _log(transport.get_extra_info("peername"), why)
        transport.abort()


_logged_at = [-LOG_SECONDS]


def _log(peer: object, why: str) -> None:
    if monotonic() - _logged_at[0] >= LOG_SECONDS:
        _logged_at[0] = monotonic()
        next_step = "have it send the PROXY protocol, or take it out of collect.trusted_proxies"
        logger().warning("proxy_header_refused", peer=str(peer), reason=why, next_step=next_step)
