"""The PROXY protocol's header: what it says, however it is cut, and what is none."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from hookline.client_address import V2_BYTES_MAX, Announced, Malformed, parse

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"


def second(command: int, kind: int, content: bytes) -> bytes:
    """A header of version 2."""
    return SIGNATURE + bytes([0x20 | command, kind]) + len(content).to_bytes(2, "big") + content


def addresses(client: str, server: str) -> bytes:
    """Two addresses and ports as version 2 has them."""
    return ip_address(client).packed + ip_address(server).packed + (4711).to_bytes(2, "big") + (80).to_bytes(2, "big")


GOOD = {
    b"PROXY TCP4 203.0.113.9 10.0.0.1 4711 80\r\n": ("203.0.113.9", 4711),
    b"PROXY TCP6 2001:db8::9 fd00::1 4711 80\r\n": ("2001:db8::9", 4711),
    b"PROXY UNKNOWN\r\n": None,
    b"PROXY UNKNOWN whatever it says\r\n": None,
    second(1, 0x11, addresses("203.0.113.9", "10.0.0.1")): ("203.0.113.9", 4711),
    second(1, 0x21, addresses("2001:db8::9", "fd00::1") + b"\x04\x00\x03abc"): ("2001:db8::9", 4711),
    second(1, 0x11, addresses("203.0.113.9", "10.0.0.1").ljust(V2_BYTES_MAX, b"x")): ("203.0.113.9", 4711),
    second(1, 0x31, b"u" * 216): None,
    second(0, 0x00, b""): None,
    second(0, 0x11, addresses("203.0.113.9", "10.0.0.1")): None,
}


@pytest.mark.parametrize("header", GOOD)
def test_a_header_is_read_however_it_is_cut(header: bytes) -> None:
    """Nothing is said before the last byte, and what follows is left alone."""
    assert all(parse(header[:end]) is None for end in range(0, len(header), 1 + len(header) // 300))
    assert parse(header + b"GET / HTTP/1.1") == Announced(GOOD[header], len(header))


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n",
        b"PROXY TCP4 203.0.113.9 10.0.0.1 4711\r\n",
        b"PROXY TCP4 2001:db8::9 fd00::1 4711 80\r\n",
        b"PROXY TCP4 203.0.113.9 10.0.0.1 4711 65536\r\n",
        b"PROXY TCP4 203.0.113.999 10.0.0.1 4711 80\r\n",
        b"PROXY TCP4  203.0.113.9 10.0.0.1 4711 80\r\n",
        b"PROXY UNKNOWN " + b"x" * 107,
        b"PROXY UDP4 203.0.113.9 10.0.0.1 4711 80\r\n",
        SIGNATURE + b"\x11\x11\x00\x00",
        SIGNATURE + b"\x22\x11\x00\x00",
        SIGNATURE + b"\x21\x11" + (V2_BYTES_MAX + 1).to_bytes(2, "big"),
        second(1, 0x11, b"short"),
    ],
)
def test_anything_else_is_refused(data: bytes) -> None:
    """What is not the protocol to the letter, or longer than it may be, is refused at once."""
    with pytest.raises(Malformed):
        parse(data)
