"""Where the service is: an endpoint as people write it, taken apart once."""

from __future__ import annotations

from typing import NamedTuple

from hookline_client.errors import InvalidOption


class Endpoint(NamedTuple):
    """Scheme, host, port and the path before ``/v1/batch``."""

    tls: bool
    host: str
    port: int
    path: str


def parse_endpoint(text: str, ssl: bool) -> Endpoint:
    """Read ``https://host:port/path``, or without a scheme ``host:port``, where ``ssl`` decides.

    InvalidOption when it is no address, or asks for TLS while ``ssl`` is False.
    """
    from urllib.parse import urlsplit  # here: it costs a sixth of the time in which the library is imported

    given = text if "://" in text else f"{'https' if ssl else 'http'}://{text}"
    try:
        parts = urlsplit(given)
        port = parts.port
        host = _ascii(parts.hostname or "")
    except ValueError:
        raise _wrong(text) from None
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment or "@" in parts.netloc:
        raise _wrong(text)
    tls = parts.scheme == "https"
    if tls and not ssl:
        raise InvalidOption("invalid_option", f"ssl=False contradicts endpoint={text!r}; write http:// there")
    path = parts.path.rstrip("/")
    if path.endswith("/v1"):  # as other libraries want it written
        path = path[:-3]
    if not path.isascii() or not path.isprintable() or " " in path:
        raise _wrong(text)
    return Endpoint(tls, host, port or (443 if tls else 80), path)


def _ascii(host: str) -> str:
    """The host as it is looked up; ValueError when it is none."""
    if not host.isascii():
        host = host.encode("idna").decode()
    if not host.isprintable() or " " in host:
        raise ValueError(host)
    return host


def _wrong(text: str) -> InvalidOption:
    shown = "have a user or password" if "@" in text else f"be {text!r}"  # a password does not belong into logs
    return InvalidOption("invalid_option", f"endpoint must look like https://host:port, and cannot {shown}")
