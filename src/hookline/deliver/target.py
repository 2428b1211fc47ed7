"""One receiver URL of a destination, with everything of its requests that does not change from event to event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookline.connections.model import Destination
from hookline.connections.receiver_url import parse_receiver_url
from hookline.deliver.event import Event
from hookline.events.signature import Signer
from hookline.outcomes.progress import URL_BITS

if TYPE_CHECKING:
    from hookline.deliver.pool import Pool, Pools


class Target:
    """Builds the request bytes for one URL (SPEC 2.2, 5.1; DESIGN 6.2)."""

    __slots__ = ("_prefix", "_signer", "index", "lingering", "pool", "tag", "url")

    def __init__(self, url: str, index: int, tag: int, pool: Pool, prefix: bytes, signer: Signer | None) -> None:
        self.url = url
        self.index = index
        self.tag = tag
        self.pool = pool
        self.lingering = 0
        """Requests still running although another URL has taken their event."""
        self._prefix = prefix
        self._signer = signer

    def request(self, event: Event) -> bytes:
        """The whole request: head and body in one piece, so that it leaves in one write."""
        signer = self._signer
        if signer is None:
            body = event.plain()
            return b"%b%b\r\nContent-Length: %d\r\n\r\n%b" % (self._prefix, event.message_id(), len(body), body)
        body = event.canonical()
        return b"%b%b\r\nX-Signature: %b\r\nContent-Length: %d\r\n\r\n%b" % (
            self._prefix,
            event.message_id(),
            signer.hex(body).encode("ascii"),
            len(body),
            body,
        )


def targets_of(
    destination: Destination, lane_number: int, secret: str | None, service_name: str, pools: Pools
) -> tuple[Target, ...]:
    """The targets of a destination. ``secret`` is resolved; None sends unsigned requests."""
    signer = Signer(secret) if secret else None
    made = []
    for index, webhook in enumerate(destination.settings.webhooks):
        url = parse_receiver_url(webhook.url)
        lines = [
            f"POST {url.target} HTTP/1.1",
            f"Host: {url.host_header}",
            f"User-Agent: {service_name}/1.0",
            "Content-Type: application/json",
            *(f"{name}: {value}" for name, value in webhook.headers.items()),
            "X-Message-Id: ",
        ]
        prefix = "\r\n".join(lines).encode("latin-1")
        tag = lane_number << URL_BITS | index
        made.append(Target(webhook.url, index, tag, pools.of(url), prefix, signer))
    return tuple(made)
