"""The names that control answers to, so that a web page cannot reach a local Hookline by rebinding its DNS."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from hookline.settings import Settings, parse_listen

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
# Probes come by whatever name the platform uses, and learn nothing but "alive".
OPEN_PATHS = frozenset({"/healthz", "/readyz"})


class HostNames:
    """A loopback name, the listen host, and the host of ``control.public_url``."""

    def __init__(self, settings: Settings) -> None:
        self._allowed, self._any_address = allowed_hosts(settings)

    def allows(self, host_header: str) -> bool:
        """Return whether a Host header names this server; its port does not matter."""
        host = _host_of(host_header)
        return host in self._allowed or (self._any_address and _is_address(host))


def allowed_hosts(settings: Settings) -> tuple[frozenset[str], bool]:
    """Return the names in lower case, and whether any IP address is one too.

    Listening on every interface, the server has addresses it need not know; rebinding needs a name, so a literal
    address is safe.
    """
    listen_host = parse_listen(settings.control.listen)[0].lower()
    names = set(LOOPBACK_NAMES) | {listen_host}
    if settings.control.public_url:
        names.add((urlsplit(settings.control.public_url).hostname or "").lower())
    return frozenset(names - {""}), listen_host in ("0.0.0.0", "::")


def _host_of(header: str) -> str:
    text = header.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0].removesuffix(".")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
