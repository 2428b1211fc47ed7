"""One receiver URL of a destination, with everything of its requests that does not change from event to event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookline.connections.model import Destination
from hookline.connections.receiver_url import parse_receiver_url
from hookline.deliver.clock import Clock
from hookline.deliver.event import Event
from hookline.deliver.signing import Signing, signing_of
from hookline.events.signature import Signer
from hookline.outcomes.progress import URL_BITS
from hookline.route.filters import Filters

if TYPE_CHECKING:
    from hookline.deliver.pool import Pool, Pools


class Target:
    """Builds the request bytes for one URL (SPEC 2.2, 5.1; DESIGN 6.2)."""

    __slots__ = ("_filters", "_prefix", "_signer", "index", "lingering", "pool", "tag", "url")

    def __init__(
        self,
        url: str,
        index: int,
        tag: int,
        pool: Pool,
        prefix: bytes,
        signer: Signer | None,
        filters: Filters | None = None,
    ) -> None:
        self.url = url
        self.index = index
        self.tag = tag
        self.pool = pool
        self.lingering = 0
        """Requests still running although another URL has taken their event."""
        self._prefix = prefix
        self._signer = signer
        self._filters = filters if filters is not None and filters.edits else None

    def request(self, event: Event) -> bytes:
        """The whole request: head and body in one piece, so that it leaves in one write."""
        signer = self._signer
        if signer is None:
            body = event.plain()
            if self._filters is not None:
                body = self._filters.body(event.record, body, canonical=False)
            return b"%b%b\r\nContent-Length: %d\r\n\r\n%b" % (self._prefix, event.message_id(), len(body), body)
        body = event.canonical()
        if self._filters is not None:
            body = self._filters.body(event.record, body, canonical=True)
        return b"%b%b\r\nX-Signature: %b\r\nContent-Length: %d\r\n\r\n%b" % (
            self._prefix,
            event.message_id(),
            signer.hex(body).encode("ascii"),
            len(body),
            body,
        )


class SignedTarget(Target):
    """A target that is signed in more than the SPEC's way; a class of its own, so that the others pay nothing."""

    __slots__ = ("_signing",)

    def __init__(
        self,
        url: str,
        index: int,
        tag: int,
        pool: Pool,
        prefix: bytes,
        signing: Signing,
        filters: Filters | None = None,
    ) -> None:
        super().__init__(url, index, tag, pool, prefix, None, filters)
        self._signing = signing

    def request(self, event: Event) -> bytes:
        """The whole request, with the time and the signatures of this attempt."""
        canonical = self._signing.canonical
        body = event.canonical() if canonical else event.plain()
        if self._filters is not None:
            body = self._filters.body(event.record, body, canonical)
        message_id = event.message_id()
        lines = self._signing.lines(message_id, body)
        return b"%b%b\r\n%bContent-Length: %d\r\n\r\n%b" % (self._prefix, message_id, lines, len(body), body)


def targets_of(
    destination: Destination,
    lane_number: int,
    secret: str | None,
    service_name: str,
    pools: Pools,
    clock: Clock,
    filters: Filters | None = None,
    replay: str | None = None,
) -> tuple[Target, ...]:
    """The targets of a destination, its secrets resolved. Without ``secret`` requests have no ``X-Signature``.

    ``replay`` is the id of the replay that they are for.
    """
    signer = Signer(secret) if secret else None
    signing = signing_of(destination, clock)
    made: list[Target] = []
    for index, webhook in enumerate(destination.settings.webhooks):
        url = parse_receiver_url(webhook.url)
        lines = [
            f"POST {url.target} HTTP/1.1",
            f"Host: {url.host_header}",
            f"User-Agent: {service_name}/1.0",
            "Content-Type: application/json",
            *(f"{name}: {value}" for name, value in webhook.headers.items()),
            *([f"X-Hookline-Replay: {replay}"] if replay else []),
            "X-Message-Id: ",
        ]
        prefix = "\r\n".join(lines).encode("latin-1")
        tag = lane_number << URL_BITS | index
        pool = pools.of(url)
        if signing is None:
            made.append(Target(webhook.url, index, tag, pool, prefix, signer, filters))
        else:
            made.append(SignedTarget(webhook.url, index, tag, pool, prefix, signing, filters))
    return tuple(made)
