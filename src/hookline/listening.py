"""Where the service's ports listen: what an address in the settings means to the system."""

from __future__ import annotations

import socket

EVERYWHERE = "::"
"""Every address that the machine has, of either kind: what people mean by ``[::]``."""


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to the address and does not listen yet; raise OSError.

    ``::`` takes IPv4 too, whatever the system's default is.
    """
    family, kind, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    found = socket.socket(family, kind)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if host == EVERYWHERE:
            found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        found.bind(place)
    except OSError:
        found.close()
        raise
    return found
