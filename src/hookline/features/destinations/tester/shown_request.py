"""One request as people see it: method, headers in their order, body, and what each signature is over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from hookline.connections.model import Destination
from hookline.connections.secrets import MASK, is_reference, is_secret_header, mask
from hookline.features.destinations.tester.request_writer import WrittenRequest

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
