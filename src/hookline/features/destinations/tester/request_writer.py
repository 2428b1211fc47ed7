"""Write the requests for one event with the very code that deliver sends with, and show them as people read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from hookline.api.problem import Problem
from hookline.connections.model import Destination
from hookline.connections.receiver_url import ReceiverUrl
from hookline.connections.secrets import (
    MASK,
    SecretMissing,
    is_reference,
    is_secret_header,
    mask,
    resolve_all,
    with_placeholders,
)
from hookline.deliver.event import Event
from hookline.deliver.send.port import Pair
from hookline.deliver.send.request import templates_of
from hookline.journal.record import Record
from hookline.route.filters import Filters
from hookline.settings import Settings


class Moment:
    """A clock that stands still: signatures carry the time of the attempt that is shown."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return self._now_ms

    def steady_ms(self) -> int:
        """Return the same."""
        return self._now_ms

    def monotonic(self) -> float:
        """Seconds."""
        return self._now_ms / 1000


class WrittenRequest(NamedTuple):
    """One request as it goes out."""

    number: int
    """Of its URL, from 0."""
    url: str
    data: bytes
    receiver: ReceiverUrl
    certificate: Pair | None
    """What is shown to the receiver of us, as references."""
    hidden: Callable[[str], str]
    """Masks what a receiver sends back of the credentials."""


class RequestWriter:
    """Writes requests; knows what all of them share, the service's name."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def requests(
        self, destination: Destination, record: Record, at_ms: int, replay: str | None = None
    ) -> list[WrittenRequest]:
        """Return the request for each URL of a destination, its secrets as they are stored, as of a time.

        Raise Problem when they cannot be made, as deliver could not make them either.
        """
        try:
            filters = Filters(destination.filters) if destination.filters else None
            resolved = resolve_all(with_placeholders(destination), self._settings, at_ms)
            secret, name = resolved.settings.shared_secret, self._settings.service_name
            event, pair = Event(0, record), resolved.settings.certificate_pair
            return [
                WrittenRequest(number, each.url, each.request(event), each.receiver, pair, each.hidden)
                for number, each in enumerate(templates_of(resolved, secret, name, Moment(at_ms), filters, replay))
            ]
        except (SecretMissing, ValueError) as error:
            raise Problem(409, "destination_unusable", f"The request cannot be made: {error}.") from None


SIGNATURE_HEADERS = ("X-Signature", "X-Signature-Next")


class Header(msgspec.Struct, frozen=True):
    """One header line."""

    name: str
    value: str


class Signature(msgspec.Struct, frozen=True, rename="camel"):
    """A header that signs the request: ``algorithm`` over exactly ``signedContent``, keyed with ``secret``."""

    header: str
    value: str
    algorithm: str
    secret: str
    signed_content: str


class ShownRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A request as it goes over the wire; with ``masked`` values of headers that are credentials are not shown."""

    url: str
    method: str
    target: str
    headers: Sequence[Header]
    body: str
    body_bytes: int
    signatures: Sequence[Signature]
    masked: bool


def shown(written: WrittenRequest, destination: Destination, reveal: bool) -> ShownRequest:
    """Return the request taken apart; ``destination`` as it is stored says which headers hold secrets."""
    head, _, body = written.data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = [Header(name, value) for name, _, value in (line.partition(": ") for line in lines)]
    static = destination.settings.webhooks[written.number].headers
    text = body.decode("utf-8", "replace")
    hidden = [header if reveal else _masked(header, static) for header in headers]
    return ShownRequest(
        url=written.url,
        method=method,
        target=target,
        headers=hidden,
        body=text,
        body_bytes=len(body),
        signatures=_signatures(headers, text),
        masked=hidden != headers,
    )


def without_signatures(request: ShownRequest) -> ShownRequest:
    """Return the request with its signatures masked: those of secrets that are not known would be wrong."""
    signatures = {each.header for each in request.signatures}
    headers = [Header(each.name, MASK) if each.name in signatures else each for each in request.headers]
    return msgspec.structs.replace(request, headers=headers, signatures=(), masked=True)


def _masked(header: Header, static: Mapping[str, str]) -> Header:
    stored = static.get(header.name)
    if stored is None or not (is_secret_header(header.name) or is_reference(stored)):
        return header
    return Header(header.name, MASK if is_reference(stored) else mask(header.value))


def _signatures(headers: Sequence[Header], body: str) -> list[Signature]:
    by_name = {header.name: header.value for header in headers}
    found = [
        Signature(name, by_name[name], "HMAC-SHA1, hex", "sharedSecret", body)
        for name in SIGNATURE_HEADERS
        if name in by_name
    ]
    if "webhook-signature" in by_name:
        signed = f"{by_name['webhook-id']}.{by_name['webhook-timestamp']}.{body}"
        value = by_name["webhook-signature"]
        found.append(Signature("webhook-signature", value, "HMAC-SHA256, base64", "standardWebhooks.secret", signed))
    return found
