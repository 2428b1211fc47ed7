"""``context.ip`` of events that browsers send: the caller's address, which no page can know by itself.

A request is a browser's when it has an ``Origin``, which browsers add to every POST and nothing else sends; or when its
source is a website and the library that its event names is one for browsers, where a proxy dropped that header.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from hookline.client_address import Network, client_address, forwarded
from hookline.collect.http.request import Exchange
from hookline.collect.http.router import SERVER_ONLY
from hookline.connections.model import Source

LIBRARIES = frozenset(("analytics.js", "RudderLabs JavaScript SDK"))
"""What browser SDKs call themselves in ``context.library.name``; Customer.io's and June's are Segment's."""

ADDRESSES_KEPT = 1_024
FORWARDED_BYTES_KEPT = 256


class _Library(msgspec.Struct, gc=False):
    name: str | None = None


class _Context(msgspec.Struct, gc=False):
    library: _Library | None = None


class _Event(msgspec.Struct, gc=False):
    context: _Context | None = None


class _Address(msgspec.Struct, gc=False):
    ip: msgspec.Raw = msgspec.Raw()


_decode_event = msgspec.json.Decoder(_Event).decode
_decode_address = msgspec.json.Decoder(_Address).decode


class BrowserAddresses:
    """Finds the address of a request's browser, as the member ``"ip":"…"`` of a context, empty for other requests."""

    __slots__ = ("_kept", "_trusted")

    def __init__(self, trusted: Sequence[Network]) -> None:
        self._trusted = trusted
        self._kept: dict[tuple[str, tuple[bytes, bytes]], bytes] = {}

    def member(self, exchange: Exchange, source: Source, events: Callable[[], Sequence[bytes]]) -> bytes:
        """Return the member for a request; ``events`` are asked, if need be, for the library's name."""
        headers = exchange.headers
        if b"origin" not in headers and (source.type != "web" or not any(map(_is_of_browser, events()))):
            return b""
        if headers.get(b"x-ip-policy", b"keep") != b"keep" or exchange.path.startswith(SERVER_ONLY):
            return b""  # Jitsu's SDK says where an address is not wanted
        said = forwarded(headers)
        key = exchange.line.peer, said
        member = self._kept.get(key)
        if member is None:
            address = client_address(key[0], [said], self._trusted)
            member = b'"ip":"%b"' % address.encode() if address else b""
            if len(said[1]) <= FORWARDED_BYTES_KEPT:
                if len(self._kept) >= ADDRESSES_KEPT:
                    self._kept.clear()
                self._kept[key] = member
        return member


def with_address(context: bytes, member: bytes) -> bytes:
    """Return a context, written as an object or empty for none, with the address where it has none."""
    if not context or not context[1:-1].strip():
        return b"{%b}" % member
    return context if bytes(_decode_address(context).ip) else b"{%b,%b" % (member, context[1:])


def _is_of_browser(event: bytes) -> bool:
    try:
        context = _decode_event(event).context
    except (ValueError, RecursionError):
        return False
    return context is not None and context.library is not None and context.library.name in LIBRARIES
