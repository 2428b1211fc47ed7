"""The proxy between a program and the service, where the environment names one, as curl and most SDKs have it.

``HTTPS_PROXY`` counts for an endpoint with TLS and ``HTTP_PROXY`` for one without, in lower case too; ``NO_PROXY``
lists the hosts that are reached without one. This machine itself always is.
"""

from __future__ import annotations

import base64
import ipaddress
import socket
from typing import NamedTuple
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from hookline_client.deadline import DeadlineResponse, seconds_left
from hookline_client.endpoint import Endpoint


class Proxy(NamedTuple):
    """Say where it listens, and hold the headers that it alone reads."""

    host: str
    port: int
    headers: dict[str, str]


def proxy_to(endpoint: Endpoint) -> Proxy | None:
    """Return the proxy on the way to an endpoint, None for none. OSError for one that speaks no plain HTTP."""
    given = getproxies_environment().get("https" if endpoint.tls else "http")
    if not given or _is_here(endpoint.host) or proxy_bypass(address_of(endpoint)):
        return None
    try:
        parts = urlsplit(given if "://" in given else f"http://{given}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if host is None or parts.scheme != "http":
        variable = "HTTPS_PROXY" if endpoint.tls else "HTTP_PROXY"
        raise OSError(f"{variable} is no http:// address; a proxy of another kind needs the consumer lib_curl")
    user = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    credentials = {"Proxy-Authorization": "Basic " + base64.b64encode(user.encode()).decode()} if user != ":" else {}
    return Proxy(host, port or 80, credentials)


def ask_for_tunnel(sock: socket.socket, proxy: Proxy, endpoint: Endpoint, deadline: float) -> None:
    """Have the proxy pass on whatever comes next to the endpoint. OSError when it does not, TimeoutError after the
    deadline (monotonic seconds)."""
    address = address_of(endpoint)
    lines = [
        f"CONNECT {address} HTTP/1.1",
        f"Host: {address}",
        *(f"{n}: {v}" for n, v in proxy.headers.items()),
        "",
        "",
    ]
    sock.settimeout(seconds_left(deadline))
    sock.sendall("\r\n".join(lines).encode())
    with DeadlineResponse(sock, deadline, method="CONNECT") as response:
        response.begin()
        if not 200 <= response.status < 300:
            raise OSError(f"the proxy {proxy.host}:{proxy.port} answered {response.status} {response.reason}")


def address_of(endpoint: Endpoint) -> str:
    """Return ``host:port`` as a request writes it."""
    return f"[{endpoint.host}]:{endpoint.port}" if ":" in endpoint.host else f"{endpoint.host}:{endpoint.port}"


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
