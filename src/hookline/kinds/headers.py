"""Static headers: which ones people may set, and how many."""

from __future__ import annotations

import re

HEADERS_MAX = 64
HEADERS_BYTES_MAX = 8 * 1024

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# A control character could end the header and begin another; beyond Latin-1 there are no bytes for it on the wire.
_UNSENDABLE = re.compile(r"[^\x20-\x7e\xa0-\xff]")
_HEADER_LINE_EXTRA_BYTES = len(": \r\n")

SET_BY_HOOKLINE = frozenset(
    {
        "host",
        "content-length",
        "content-type",
        "user-agent",
        "x-signature",
        "x-signature-next",
        "x-message-id",
        "x-hookline-replay",
    }
)
"""Headers of every webhook request that only Hookline writes."""

STANDARD_WEBHOOKS = frozenset({"webhook-id", "webhook-timestamp", "webhook-signature"})
"""Headers that Hookline writes where a destination asks for Standard Webhooks, and that are free elsewhere."""

HOP_BY_HOP = frozenset({"connection", "expect", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"})
"""Headers that belong to one connection, not to a message (RFC 9110 section 7.6.1); with every ``Proxy-*``."""


def check_static_headers(headers: dict[str, str]) -> None:
    """Raise ValueError naming the header that cannot be sent, and why."""
    if len(headers) > HEADERS_MAX:
        raise ValueError(f"at most {HEADERS_MAX} static headers are allowed, these are {len(headers)}")
    seen: dict[str, str] = {}
    size_bytes = 0
    for name, value in headers.items():
        _check_name(name)
        if (twin := seen.setdefault(name.lower(), name)) != name:
            raise ValueError(f"headers {twin!r} and {name!r} differ only in case: keep one of them")
        if (match := _UNSENDABLE.search(value)) is not None:
            found = f"U+{ord(match[0]):04X}"
            raise ValueError(f"header {name!r}: remove the character {found} (no control characters, Latin-1 only)")
        size_bytes += len(name) + len(value) + _HEADER_LINE_EXTRA_BYTES
        if size_bytes > HEADERS_BYTES_MAX:
            raise ValueError(f"header {name!r}: static headers may take {HEADERS_BYTES_MAX} bytes together")


def check_header_name(name: str) -> None:
    """Raise ValueError for what cannot be a header's name."""
    if _TOKEN.fullmatch(name) is None:
        shown = ascii(name[:64])
        raise ValueError(f"header {shown}: a header name is made of letters, digits and hyphens")


def _check_name(name: str) -> None:
    check_header_name(name)
    lowered = name.lower()
    if lowered in SET_BY_HOOKLINE:
        raise ValueError(f"header {name!r} is set by Hookline: leave it out")
    if lowered in HOP_BY_HOP or lowered.startswith("proxy-"):
        raise ValueError(f"header {name!r} concerns the connection, not the request: leave it out")
