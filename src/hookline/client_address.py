"""Who is at the other end of a request: behind reverse proxies, as far as these are trusted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

FORWARDED_FOR = b"x-forwarded-for"
HOPS_MAX = 20
"""Proxies that are followed; nobody has so many."""

_WITH_PORT = re.compile(r"\[([^\]]*)\](?::\d+)?|([^:]*):\d+")

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


def client_address(peer: str, headers: Iterable[tuple[bytes, bytes]], trusted: Sequence[Network]) -> str:
    """The nearest address that is no trusted proxy's (``collect.trusted_proxies``); the peer's where none is trusted.

    A proxy adds whom it was asked by at the end of ``X-Forwarded-For``. So only what a trusted one added is believed:
    whatever stands before that, the client may have made up.
    """
    if not is_trusted(peer, trusted):
        return plain(peer)
    values = [value.decode("latin-1") for name, value in headers if name == FORWARDED_FOR]
    nearest = plain(peer)
    for hop in reversed(",".join(values).rsplit(",", HOPS_MAX)):
        found = _address(hop.strip())
        if found is None:
            break
        nearest = str(found)
        if not is_trusted(nearest, trusted):
            break
    return nearest


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


def _address(text: str) -> Address | None:
    """An address as proxies write it, with or without a port."""
    found = _WITH_PORT.fullmatch(text)
    try:
        address = ip_address((found[1] or found[2] or "") if found else text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
