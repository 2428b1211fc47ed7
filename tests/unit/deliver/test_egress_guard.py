"""The egress guard: what is refused in every spelling, what passes, and what exceptions open."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest

from hookline.connections.receiver_url import parse_receiver_url
from hookline.deliver.send.resolver import Guard, is_own_address, same_address

BLOCKED_V4 = [
    *("0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255", "100.100.100.200"),
    *("127.0.0.1", "127.1.2.3", "127.255.255.255", "169.254.169.254", "169.254.170.2", "172.16.0.1", "172.31.255.255"),
    *("192.0.0.1", "192.0.0.192", "192.0.2.1", "192.31.196.1", "192.52.193.1", "192.88.99.1", "192.168.0.1"),
    *("192.168.255.255", "192.175.48.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.255"),
    *("224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "168.63.129.16"),
]
BLOCKED_V6 = [
    *("::", "::1", "::2", "100::1", "100:0:0:1::1", "64:ff9b:1::1", "64:ff9b:1::808:808", "2001::1", "2001:1ff::1"),
    *("2001:db8::1", "2620:4f:8000::1", "3fff::1", "3fff:fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fdff::1"),
    *("fe80::1", "febf::1", "fec0::1", "feff::1", "ff02::1", "ff0e::1", "4000::1", "1fff::1", "8000::1"),
]
PUBLIC = [
    *("1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255"),
    *("128.0.0.0", "169.253.255.255", "172.15.255.255", "172.32.0.0", "192.0.1.1", "198.17.255.255", "198.20.0.0"),
    *("223.255.255.255", "2606:4700::1111", "2a00:1450::1", "2001:200::1", "2001:4860:4860::8888", "2400::1"),
    *("::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1", "2606:4700::5efe:808:808", "2606:4700::100:5efe:a00:1"),
    *("2002:808:808::5efe:101:101", "2002:808:808::100:5efe:a00:1"),
]
PART_FORMS: tuple[Callable[[int], str], ...] = (str, hex, "0{:o}".format)


def no_own(address: str) -> bool:
    """Stands for a machine none of whose addresses are asked about."""
    return False


def v4_spellings(address: str) -> Iterator[str]:
    """Every way of writing an IPv4 address that some program understands."""
    a, b, c, d = IPv4Address(address).packed
    for forms in itertools.product(PART_FORMS, repeat=4):
        yield ".".join(form(part) for form, part in zip(forms, (a, b, c, d), strict=True))
    for form in (*PART_FORMS, "0x{:08X}".format):
        yield form(int(IPv4Address(address)))
        yield f"{form(a)}.{form(b << 16 | c << 8 | d)}"
        yield f"{form(a)}.{form(b)}.{form(c << 8 | d)}"
    yield f"{a:03}.{b:03}.{c:03}.{d:03}"
    yield f"{a}.{b}.{c}.{d}."
    yield f"{a + 256}.{b}.{c}.{d}"
    yield str(int(IPv4Address(address)) + 2**32)
    for zero in (0xFF10, 0x1D7CE, 0x1D7F6):  # full-width, bold, monospace
        yield address.translate({48 + digit: chr(zero + digit) for digit in range(10)})
    circled = {48: "\u24ea"} | {48 + digit: chr(0x2460 + digit - 1) for digit in range(1, 10)}
    yield address.translate(circled)
    for dot in "\u3002\uff0e\uff61":
        yield address.replace(".", dot)


def v6_spellings(address: str) -> Iterator[str]:
    """Every IPv6 form that carries an IPv4 address."""
    number = int(IPv4Address(address))
    high, low = f"{number >> 16:x}", f"{number & 0xFFFF:x}"
    for prefix in ("::ffff:", "::", "::ffff:0:", "64:ff9b::", "0:0:0:0:0:ffff:", "0000::FFFF:", "64:FF9B:0:0::"):
        yield f"{prefix}{address}"
        yield f"{prefix}{high}:{low}"
    for suffix in ("::", "::1", ":1:2:3:4:5"):
        yield f"2002:{high}:{low}{suffix}"
    for tunnel in ("5efe", "200:5efe"):
        yield f"2002:808:808::{tunnel}:{high}:{low}"
    yield f"64:ff9b:1::{address}"
    for prefix in ("2606:4700::", "2606:4700:1:2:", "fe80::"):
        yield f"{prefix}{'0:' if prefix.endswith('2:') else ''}5efe:{address}"
        yield f"{prefix}200:5efe:{high}:{low}"
    yield IPv6Address(0xFFFF << 32 | number).exploded


def urls(address: str) -> Iterator[str]:
    """URLs that lead to the address in some program's reading."""
    spellings = list(v4_spellings(address)) if ":" not in address else []
    for spelling in spellings:
        yield f"http://{spelling}/"
    for carried in [*v6_spellings(address)] if ":" not in address else [address, IPv6Address(address).exploded]:
        yield f"http://[{carried}]/"
        yield f"https://[{carried.upper()}]:8443/x?y"
        yield f"http://[{carried}%25eth0]/"
    host = f"[{address}]" if ":" in address else address
    for trick in ("http://{}/", "https://{}:443", "http://a@{}/", "http://example.com@{}/", "http://{}#example.com"):
        yield trick.format(host)
    for trick in ("http://example.com\\@{}/", "http:\\\\{}/", "http://\t{}/", "http://{}\n/", "http://{}%2f.x.com/"):
        yield trick.format(host)


def stopped(url: str, guard: Guard) -> bool:
    """Whether the parser or the guard stops the URL; what is a name, not a literal, would still be looked up."""
    try:
        parsed = parse_receiver_url(url)
    except ValueError:
        return True
    return parsed.is_ip and guard.refusal(parsed.host) is not None


def test_thousands_of_spellings_of_blocked_addresses_are_all_stopped() -> None:
    """No encoding, embedding or URL trick takes a blocked address through parser and guard."""
    guard = Guard((), no_own)
    tried = {url for address in BLOCKED_V4 + BLOCKED_V6 for url in urls(address)}
    assert len(tried) > 4_000
    assert [url for url in tried if not stopped(url, guard)] == []


@pytest.mark.parametrize("address", BLOCKED_V4 + BLOCKED_V6)
def test_a_blocked_address_is_refused_with_a_reason(address: str) -> None:
    """The refusal names the address and says how to allow it."""
    refusal = Guard((), no_own).refusal(address)
    assert refusal is not None
    assert refusal.startswith(f"{address} is not a public address (")
    assert "deliver.allow_networks" in refusal


def test_carried_addresses_are_refused_as_the_address_they_carry() -> None:
    """Each v6 form of each blocked v4 address is refused by the guard alone."""
    guard = Guard((), no_own)
    forms = [form for address in BLOCKED_V4 for form in v6_spellings(address)]
    assert [form for form in forms if guard.refusal(form) is None] == []


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_passes(address: str) -> None:
    """Neighbours of every blocked range and carried public addresses may be contacted."""
    assert Guard((), no_own).refusal(address) is None


@pytest.mark.parametrize("network", ["10.0.0.0/8", "172.16.0.0/12", "100.64.0.0/10", "198.18.0.0/15", "169.254.0.0/16"])
def test_a_blocked_range_ends_where_it_should(network: str) -> None:
    """First and last address of a range are refused, the ones beside it are not."""
    guard, found = Guard((), no_own), ip_network(network)
    assert guard.refusal(str(found[0]))
    assert guard.refusal(str(found[-1]))
    assert guard.refusal(str(found[0] - 1)) is None
    assert guard.refusal(str(found[-1] + 1)) is None


@pytest.mark.parametrize("text", ["", "example.com", "127.1", "0x7f000001", "2130706433", "1.2.3.4.5", "[::1]", "::1]"])
def test_what_is_not_a_numeric_address_is_refused(text: str) -> None:
    """The guard passes nothing that it cannot read."""
    assert "is not an IP address" in (Guard((), no_own).refusal(text) or "")


def test_an_exception_opens_its_network_and_nothing_beside_it() -> None:
    """allow_networks holds for the address, also when an IPv6 address carries it."""
    guard = Guard(["10.1.0.0/16", "fd12::/16"], no_own)
    for allowed in ("10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3", "2002:a01:203::1", "fd12::1"):
        assert guard.refusal(allowed) is None
    for refused in ("10.2.0.1", "::ffff:10.2.0.1", "127.0.0.1", "fd13::1", "::1", "fd13::5efe:10.1.2.3"):
        assert guard.refusal(refused) is not None


def test_allowing_all_of_ipv4_does_not_allow_ipv6_loopback() -> None:
    """``::1`` is an address of its own, not 0.0.0.1 in disguise."""
    assert Guard(["0.0.0.0/0"], no_own).refusal("::1") is not None


def test_an_own_address_is_refused_even_when_public() -> None:
    """What listens on this machine is not a receiver, whichever of its addresses is used, until allowed."""
    own = {"8.8.8.8"}.__contains__
    assert "an address of this machine" in (Guard((), own).refusal("8.8.8.8") or "")
    assert "an address of this machine" in (Guard((), own).refusal("::ffff:8.8.8.8") or "")
    assert Guard(["8.8.8.8/32"], own).refusal("8.8.8.8") is None


def test_own_addresses_are_recognised_by_asking_the_system() -> None:
    """Loopback is ours; a documentation address is not."""
    assert is_own_address("127.0.0.1")
    assert not is_own_address("192.0.2.77")
    if socket.has_ipv6 and (found := [line.split()[0] for line in _interfaces()]):
        assert all(is_own_address(str(IPv6Address(bytes.fromhex(text)))) for text in found)


def _interfaces() -> list[str]:
    """Global and loopback IPv6 addresses as the kernel lists them (link-local ones need a zone)."""
    try:
        with open("/proc/net/if_inet6") as table:
            return [line for line in table if line.split()[3] in ("00", "10")]
    except OSError:
        return []


@pytest.mark.parametrize(
    ("peer", "checked", "same"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("::ffff:127.0.0.1", "127.0.0.1", True),
        ("2001:DB8:0::1", "2001:db8::1", True),
        ("fe80::1%eth0", "fe80::1", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("::1", "127.0.0.1", False),
        ("::127.0.0.1", "127.0.0.1", False),
    ],
)
def test_a_peer_is_compared_as_an_address_not_as_text(peer: str, checked: str, same: bool) -> None:
    """Spelling does not matter, the address does."""
    assert same_address(peer, checked) is same
