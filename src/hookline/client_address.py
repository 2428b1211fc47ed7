"""Who is at the other end of a request: behind reverse proxies, as far as these are trusted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

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
    """Return an address as proxies write it, with or without a port."""
    found = _WITH_PORT.fullmatch(text)
    try:
        address = ip_address((found[1] or found[2] or "") if found else text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
