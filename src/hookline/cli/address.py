"""From the address a role listens on to the URL that reaches it from this machine."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from hookline.settings import parse_listen

WILDCARD_HOSTS = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def url_of(listen: str) -> str:
    """The URL at which a listening address can be reached from this machine."""
    host, port = parse_listen(listen)
    host = WILDCARD_HOSTS.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(url: str) -> bool:
    """Return whether a URL stays on this machine."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def is_same_port(url: str, local: str) -> bool:
    """Return whether a URL leads to the port that a server of this machine listens on, at ``local``."""
    try:
        named, own = urlsplit(url), urlsplit(local)
        if (named.scheme, named.port) != (own.scheme, own.port):
            return False
    except ValueError:
        return False
    return named.hostname == own.hostname or (is_loopback(url) and is_loopback(local))
