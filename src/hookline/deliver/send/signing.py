"""What a request is signed with when that is more than the one ``X-Signature`` of the SPEC: Standard Webhooks, two
secrets while one rotates, or both.

The order of the two secrets is in docs/decisions/0006: until the overlap ends, what receivers knew before stays as it
was, and the new secret's signature comes in addition.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from hookline.connections.model import Destination, SecretSetting
from hookline.connections.rotation import running_rotation, secret_of, until_ms
from hookline.deliver.clock import Clock
from hookline.events.signature import Signer
from hookline.events.standard_signature import StandardSigner, webhook_id

SignerT = TypeVar("SignerT", Signer, StandardSigner)


class Signers(NamedTuple, Generic[SignerT]):
    """Who signs for one setting: the secret's signer, and until ``until_ms``, by the service's own clock, also that of
    the one it replaces."""

    current: SignerT
    previous: SignerT | None
    until_ms: int


class Signing:
    """The signature headers of one destination's requests; each attempt has the time of its own."""

    __slots__ = ("_clock", "_shared", "_standard")

    def __init__(self, shared: Signers[Signer] | None, standard: Signers[StandardSigner] | None, clock: Clock) -> None:
        self._shared = shared
        self._standard = standard
        self._clock = clock

    @property
    def canonical(self) -> bool:
        """Return whether the body must be as JavaScript writes it: X-Signature is checked that way too (SPEC 5.1),
        Standard Webhooks over the raw bytes only, so that there numbers stay as the caller wrote them."""
        return self._shared is not None

    def lines(self, message_id_header: bytes, body: bytes) -> bytes:
        """Return the header lines of an attempt that is made now, each with its end."""
        steady_ms = self._clock.steady_ms()
        lines = b""
        if self._shared is not None:
            lines += _shared_lines(self._shared, body, steady_ms)
        if self._standard is not None:
            seconds = self._clock.now_ms() // 1000
            lines += _standard_lines(self._standard, message_id_header, body, steady_ms, seconds)
        return lines


def signing_of(destination: Destination, clock: Clock) -> Signing | None:
    """Return how a destination (its secrets resolved) signs, None if one ``X-Signature`` or nothing is all.

    Raise ValueError for a Standard Webhooks secret that cannot be one.
    """
    now_ms = clock.steady_ms()
    settings = destination.settings
    if settings.standard_webhooks is None and running_rotation(destination, "sharedSecret", now_ms) is None:
        return None
    shared = _signers(destination, "sharedSecret", Signer, now_ms)
    return Signing(shared, _signers(destination, "standardWebhooks", StandardSigner, now_ms), clock)


def _signers(
    destination: Destination, setting: SecretSetting, kind: type[SignerT], now_ms: int
) -> Signers[SignerT] | None:
    secret = secret_of(destination.settings, setting)
    if not secret:
        return None
    rotation = running_rotation(destination, setting, now_ms)
    if rotation is None or not rotation.previous:
        return Signers(kind(secret), None, 0)
    return Signers(kind(secret), kind(rotation.previous), until_ms(rotation))


def _shared_lines(signers: Signers[Signer], body: bytes, now_ms: int) -> bytes:
    current = signers.current.hex(body)
    if signers.previous is None or now_ms >= signers.until_ms:
        return b"X-Signature: %b\r\n" % current
    return b"X-Signature: %b\r\nX-Signature-Next: %b\r\n" % (signers.previous.hex(body), current)


def _standard_lines(
    signers: Signers[StandardSigner], message_id_header: bytes, body: bytes, now_ms: int, timestamp_seconds: int
) -> bytes:
    id = webhook_id(message_id_header)
    signature = signers.current.sign(id, timestamp_seconds, body)
    if signers.previous is not None and now_ms < signers.until_ms:
        signature += b" " + signers.previous.sign(id, timestamp_seconds, body)
    return b"webhook-id: %b\r\nwebhook-timestamp: %d\r\nwebhook-signature: %b\r\n" % (id, timestamp_seconds, signature)
