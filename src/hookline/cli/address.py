"""From the address a role listens on to the URL that reaches it from this machine."""

from __future__ import annotations

from hookline.settings import parse_listen

WILDCARD_HOSTS = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def url_of(listen: str) -> str:
    """The URL at which a listening address can be reached from this machine."""
    host, port = parse_listen(listen)
    host = WILDCARD_HOSTS.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
