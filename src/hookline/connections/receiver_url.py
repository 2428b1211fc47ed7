"""Receiver URLs: the one parser of what people write, shared by the configuration check and the sender.

It is strict, so that no second parser can read another host out of the same text: what has two readings is refused
with a sentence that says what to write. Whether an address may be contacted is the egress guard's to decide.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from typing import Literal, cast
from urllib.parse import quote

import msgspec

URL_CHARACTERS_MAX = 2_048
HOST_CHARACTERS_MAX = 253
DEFAULT_PORTS = {"http": 80, "https": 443}
BAD_PORTS = frozenset(
    (
        *(1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109),
        *(110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530),
        *(531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045),
        *(4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080),
    )
)
"""Ports of other protocols, which browsers refuse too (the Fetch standard's "bad ports"): a mail server, say, may take
lines of a request for its own commands."""

_SHAPE = re.compile(r"(https?)://([^/?#]*)([^#]*)", re.IGNORECASE)
_PORT = re.compile(r":([0-9]{1,5})")
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_LONE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
# RFC 3986 sub-delims, pchar, "/" and "?", and "%" because what is already encoded stays as written.
_TARGET_SAFE = "%/?:@!$&'()*+,;=-._~[]"
# The codec below knows IDNA 2003, which folds these into other letters: to a browser they are another host.
_IDNA_DEVIATIONS = frozenset("\u00df\u03c2\u200c\u200d")


class ReceiverUrl(msgspec.Struct, frozen=True):
    """A receiver URL in the one form that is resolved, connected to and sent.

    ``host`` is a lower-case ASCII name without a trailing dot, or an IP address in its shortest form (no brackets).
    ``target`` is the path and query as they go into the request line, ``host_header`` the value of ``Host``.
    """

    scheme: Literal["http", "https"]
    host: str
    port: int
    target: str
    host_header: str
    is_ip: bool

    @property
    def origin(self) -> tuple[str, str, int]:
        """Return what connections are shared by: requests of one origin may use one keep-alive connection."""
        return self.scheme, self.host, self.port


def origin_of(url: str) -> tuple[str, ...]:
    """Return what receives a request to this URL: scheme, host and port; of a text that is no such URL, the text
    itself."""
    try:
        scheme, host, port = parse_receiver_url(url).origin
    except ValueError:
        return (url,)
    return scheme, host, str(port)


def parse_receiver_url(url: str) -> ReceiverUrl:
    """Read a receiver URL; raise ValueError with a sentence that says what to write instead."""
    _check_characters(url)
    match = _SHAPE.fullmatch(url)
    if match is None:
        if "#" in url:
            raise ValueError("a receiver URL has no fragment: leave out the # and what follows it")
        raise ValueError("write a full URL that begins with http:// or https://")
    scheme = cast(Literal["http", "https"], match[1].lower())
    if "@" in match[2]:
        raise ValueError("a receiver URL holds no user name or password: use a static Authorization header")
    literal, port = _split_port(match[2], DEFAULT_PORTS[scheme])
    if port in BAD_PORTS:
        raise ValueError(f"port {port} belongs to another protocol, and browsers refuse it too: use another one")
    host, is_ip = _parse_host(literal)
    shown = f"[{host}]" if ":" in host else host
    host_header = shown if port == DEFAULT_PORTS[scheme] else f"{shown}:{port}"
    return ReceiverUrl(scheme, host, port, _encode_target(match[3]), host_header, is_ip)


def _check_characters(url: str) -> None:
    if len(url) > URL_CHARACTERS_MAX:
        raise ValueError(f"a receiver URL has at most {URL_CHARACTERS_MAX} characters")
    for character in url:
        # Controls, formats (zero width, right to left), surrogates, separators: parsers drop or move them.
        if character == " " or (not "!" <= character <= "~" and unicodedata.category(character)[0] in "CZ"):
            raise ValueError(f"remove the character U+{ord(character):04X}: a URL has no spaces or control characters")
    if "\\" in url:
        raise ValueError("remove the backslash: some programs read it as the end of the host")


def _split_port(authority: str, default: int) -> tuple[str, int]:
    if authority.startswith("["):
        host, bracket, rest = authority.partition("]")
        host += bracket
    else:
        host, colon, rest = authority.partition(":")
        rest = colon + rest
    if not rest:
        return host, default
    match = _PORT.fullmatch(rest)
    if match is None or not 1 <= int(match[1]) <= 65_535:
        raise ValueError("write the port as a number from 1 to 65535 after the host, an IPv6 address in [brackets]")
    return host, int(match[1])


def _parse_host(literal: str) -> tuple[str, bool]:
    """Return the host in its one form, and whether it is an IP address."""
    if literal.startswith("["):
        try:
            return _parse_ipv6(literal), True
        except ValueError:
            raise ValueError("write an IPv6 address in brackets and without a zone, such as [2001:db8::1]") from None
    name = literal.lower() if literal.isascii() else _to_ascii(literal)
    name = name.removesuffix(".")
    labels = name.split(".")
    if not name or len(name) > HOST_CHARACTERS_MAX or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError("write a host name of letters, digits and hyphens, percent-encoding nothing in it")
    if not _NUMBER.fullmatch(labels[-1]):
        return name, False
    try:
        address = str(ipaddress.IPv4Address(literal))
    except ValueError:
        # Decimal, octal, hexadecimal and short forms mean different addresses to different programs.
        raise ValueError("write an IPv4 address as four decimal numbers, such as 192.0.2.1") from None
    return address, True


def _parse_ipv6(literal: str) -> str:
    if not literal.endswith("]") or "%" in literal:
        raise ValueError
    return str(ipaddress.IPv6Address(literal[1:-1]))


def _to_ascii(literal: str) -> str:
    """Return an international name as DNS knows it (xn--…)."""
    if not _IDNA_DEVIATIONS.isdisjoint(literal):
        raise ValueError("write this international host name in its xn-- form")
    try:
        return literal.encode("idna").decode("ascii").lower()
    except UnicodeError:
        raise ValueError("this international host name is not valid: write it in its xn-- form") from None


def _encode_target(written: str) -> str:
    target = quote(_LONE_PERCENT.sub("%25", written), safe=_TARGET_SAFE)
    return target if target.startswith("/") else "/" + target
