"""The egress guard: which addresses a webhook request may go to.

Everything that is not a public address is refused, in whatever form it is written or carried, and so are this
machine's own addresses; ``deliver.allow_networks`` opens exceptions. The lists are the IANA special-purpose
registries and the metadata services of the clouds.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_BLOCKED_V4 = {
    "0.0.0.0/8": "unspecified",
    "10.0.0.0/8": "private",
    "100.64.0.0/10": "shared by a provider's customers",
    "127.0.0.0/8": "loopback",
    "168.63.129.16/32": "cloud metadata",
    "169.254.0.0/16": "link-local, cloud metadata",
    "172.16.0.0/12": "private",
    "192.0.0.0/24": "protocol assignments",
    "192.0.2.0/24": "documentation",
    "192.31.196.0/24": "AS112",
    "192.52.193.0/24": "AMT",
    "192.88.99.0/24": "6to4 relays",
    "192.168.0.0/16": "private",
    "192.175.48.0/24": "AS112",
    "198.18.0.0/15": "benchmarking",
    "198.51.100.0/24": "documentation",
    "203.0.113.0/24": "documentation",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved",
}
# Only 2000::/3 is public at all; these are the parts of it that are not.
_PUBLIC_V6 = IPv6Network("2000::/3")
_BLOCKED_V6 = {
    "2001::/23": "protocol assignments, Teredo",
    "2001:db8::/32": "documentation",
    "2620:4f:8000::/48": "AS112",
    "3fff::/20": "documentation",
}
# Networks whose addresses carry an IPv4 address, and how many bits lie to the right of it. What is carried is checked
# like any other; the second field says whether the outer address may be contacted when the inner one may.
_CARRIERS = (
    (IPv6Network("::ffff:0:0/96"), 0, True),  # mapped: a socket connects to the IPv4 address itself
    (IPv6Network("64:ff9b::/96"), 0, True),  # NAT64: how a host without IPv4 reaches it
    (IPv6Network("2002::/16"), 80, True),  # 6to4
    (IPv6Network("::/96"), 0, False),  # compatible, long abolished
    (IPv6Network("::ffff:0:0:0/96"), 0, False),  # translated (SIIT)
)
# ISATAP (RFC 5214) works under any prefix: these 32 bits, one of which says "unique" and counts for nothing, and then
# the IPv4 address that the packet goes to. NAT64 under a network's own prefix (RFC 6052) cannot be told by the address.
_ISATAP, _ISATAP_MASK = 0x0000_5EFE, 0xFDFF_FFFF
_BLOCKED = tuple((ip_network(text), why) for text, why in (_BLOCKED_V4 | _BLOCKED_V6).items())
# Names that mean this machine's or its cloud's insides wherever they resolve to.
_INSIDE_SUFFIXES = (".internal", ".metadata")


class Guard:
    """Decides whether an address may be contacted.

    ``allow_networks`` are exceptions to everything below; they also hold for IPv4 addresses carried in IPv6 ones.
    ``is_own`` says whether an address is one of this machine's: what listens there is not a receiver, public or not.
    """

    def __init__(self, allow_networks: Sequence[str], is_own: Callable[[str], bool] | None = None) -> None:
        self._allowed = tuple(ip_network(network, strict=False) for network in allow_networks)
        self._is_own = is_own or is_own_address

    def refusal(self, address: str) -> str | None:
        """Return why the numeric address may not be contacted, or None when it may."""
        try:
            parsed = ip_address(address)
        except ValueError:
            return f"{address[:64]!r} is not an IP address"
        if self._is_allowed(parsed):
            return None
        reason = _public_refusal(parsed)
        if reason is None and any(self._is_own(str(form)) for form in (*_forms(parsed), *_tunnelled(parsed))):
            reason = "an address of this machine"
        return f"{address} is not a public address ({reason}); deliver.allow_networks can allow it" if reason else None

    def name_refusal(self, host: str) -> str | None:
        """Return why the name may not even be looked up, or None: inside names need an exception to be of any use."""
        if self._allowed or not is_inside_name(host):
            return None
        return f"{host} is an inside name; deliver.allow_networks can allow its addresses"

    def is_exception(self, address: str) -> bool:
        """Return whether the address is one that ``allow_networks`` opens."""
        return self._is_allowed(ip_address(address))

    def _is_allowed(self, address: Address) -> bool:
        return any(form in network for form in _forms(address) for network in self._allowed)


def same_address(peer: str, checked: str) -> bool:
    """Return whether a socket's peer is the address that was checked."""
    return _plain(peer) == _plain(checked)


def is_inside_name(host: str) -> bool:
    """Return whether the name belongs to the inside of a network or cloud by its spelling alone."""
    return f".{host.lower().removesuffix('.')}".endswith(_INSIDE_SUFFIXES)


def is_own_address(address: str) -> bool:
    """Return whether the address belongs to an interface of this machine.

    The system picks the address itself as the sender's only then. Nothing is sent: a datagram socket's connect just
    looks the route up.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))
            return same_address(probe.getsockname()[0], address)
    except OSError:
        return False


def _public_refusal(address: Address) -> str | None:
    for network, right_bits, passes in _CARRIERS:
        if address in network:
            inner = IPv4Address(int(address) >> right_bits & 0xFFFF_FFFF)
            return _public_refusal(inner) or (None if passes else f"carries {inner} in an abolished form")
    for blocked, why in _BLOCKED:
        if address in blocked:
            return f"{blocked}: {why}"
    if address.version == 6 and address not in _PUBLIC_V6:
        return f"outside {_PUBLIC_V6}"
    return next((_public_refusal(inner) for inner in _tunnelled(address)), None)


def _forms(address: Address) -> Iterator[Address]:
    """Yield the address and, when it carries an IPv4 address, that one."""
    yield address
    for network, right_bits, _ in _CARRIERS:
        if address in network and int(address) > 0xFFFF:  # ::1 and :: are themselves, not 0.0.0.1 and 0.0.0.0
            yield IPv4Address(int(address) >> right_bits & 0xFFFF_FFFF)
            return


def _tunnelled(address: Address) -> Iterator[IPv4Address]:
    """Yield the IPv4 address that an ISATAP one leads to. An exception for that does not open this one, under any
    prefix."""
    if address.version == 6 and int(address) >> 32 & _ISATAP_MASK == _ISATAP:
        yield IPv4Address(int(address) & 0xFFFF_FFFF)


def _plain(address: str) -> Address:
    parsed = ip_address(address.partition("%")[0])
    return parsed.ipv4_mapped or parsed if isinstance(parsed, IPv6Address) else parsed
