"""Client certificates, with which the sender shows receivers who it is (mutual TLS), and why TLS fails, in words.

A destination refers to a certificate and its key; both are read here, judged, and read again when they change, as
cert-manager and its like renew them. No key leaves this module.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from hookline.deliver.send.port import Pair
from hookline.secret_references import SecretMissing, resolve_in
from hookline.telemetry.log import logger

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

    from hookline.settings import Settings

PEM_BYTES_MAX = 64 * 1024
"""A certificate with those of its authorities is a few thousand bytes each."""
POLL_SECONDS = 1.0
"""From one look for a changed certificate to the next, at most one per new connection."""
NAME_CHARACTERS_MAX = 200


class ClientCertificateUnusable(ssl.SSLError):
    """The certificate, or its key, cannot be used; ``reason`` says why and what to do."""

    code = "client_certificate_unusable"

    def __init__(self, reason: str) -> None:
        super().__init__(ssl.SSLErrorNumber.SSL_ERROR_SSL, reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


class CertificateDetails(NamedTuple):
    """Hold what people see of a certificate."""

    subject: str
    issuer: str
    valid_from: datetime
    expires_at: datetime


def fault_and_details(
    pair: Pair, settings: Settings, now: datetime | None = None
) -> tuple[str | None, CertificateDetails | None]:
    """Return what is wrong with a certificate and what to do, None when receivers can be shown it now; and what it
    says of itself, None where it cannot be read."""
    details = None
    try:
        certificate, key = _read(pair, settings)
        details = _judged(certificate, key)
        _load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), certificate, key)
    except ClientCertificateUnusable as error:
        return error.reason, details
    now = now or datetime.now(UTC)
    if details.expires_at <= now:
        return f"it expired at {details.expires_at:%Y-%m-%d %H:%M} UTC; have it renewed", details
    if details.valid_from > now:
        return f"it is valid only from {details.valid_from:%Y-%m-%d %H:%M} UTC on; wait until then", details
    return None, details


def fault_of(pair: Pair, settings: Settings) -> str | None:
    """Return what is wrong with a certificate now, and what to do."""
    return fault_and_details(pair, settings)[0]


class ClientCertificate:
    """One certificate with its key, as the sender's next connection uses it."""

    def __init__(self, pair: Pair, settings: Settings, new_context: Callable[[], ssl.SSLContext]) -> None:
        self._pair = pair
        self._settings = settings
        self._new_context = new_context
        self._read: Pair | None = None
        self._context: ssl.SSLContext | None = None
        self._looked_at = 0.0
        self._fault = ""

    def context(self) -> ssl.SSLContext:
        """Return the TLS of the next connection. What was good stays in use while its successor cannot be used.

        Raise ClientCertificateUnusable while there has been none that could.
        """
        now = monotonic()
        if self._context is None or now - self._looked_at >= POLL_SECONDS:
            self._looked_at = now
            try:
                self._renew()
            except ClientCertificateUnusable as error:
                if self._context is None:
                    raise
                self._report(error.reason)
        assert self._context is not None
        return self._context

    def _renew(self) -> None:
        found = _read(self._pair, self._settings)
        if found != self._read:
            context = self._new_context()
            _load(context, *found)
            self._context, self._read = context, found
        self._fault = ""

    def _report(self, fault: str) -> None:
        if fault != self._fault:
            self._fault = fault
            logger().warning("client_certificate_not_renewed", certificate=self._pair[0], error=fault)


_ALERTS = {
    "CERTIFICATE_REQUIRED": "it asks for one: give the destination clientCertificate and clientKey",
    "UNKNOWN_CA": "it does not trust the authority that issued it",
    "CERTIFICATE_EXPIRED": "it has expired",
    "CERTIFICATE_REVOKED": "it was revoked",
    "BAD_CERTIFICATE": "none was shown, or it is not one that it accepts",
    "UNSUPPORTED_CERTIFICATE": "it is not of a kind that it accepts, such as one for clients",
    "CERTIFICATE_UNKNOWN": "it does not accept it",
    "ACCESS_DENIED": "whom it names is not let in",
}
"""What a receiver says of our certificate (RFC 8446, section 6.2), by OpenSSL's names."""


def tls_reason(error: ssl.SSLError) -> str:
    """Say what is wrong with which certificate where it is a certificate, else give OpenSSL's name for the failure."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate refused: {error.verify_message}"
    reason = error.reason or str(error)
    alert = reason.partition("_ALERT_")[2]
    if alert in _ALERTS:
        return f"the receiver refused our client certificate: {_ALERTS[alert]} ({reason})"
    if alert == "HANDSHAKE_FAILURE":
        return f"the receiver ended the TLS handshake; it may ask for a client certificate ({reason})"
    return reason


def _read(pair: Pair, settings: Settings) -> Pair:
    try:
        certificate, key = (resolve_in(each, settings.secrets.dir, bytes_max=PEM_BYTES_MAX) for each in pair)
    except SecretMissing as error:
        raise ClientCertificateUnusable(str(error)) from None
    return certificate, key


def _judged(certificate: str, key: str) -> CertificateDetails:
    """Return what the first certificate of a text says, once the key is its."""
    # Here: only who shows a certificate to people pays for the import; the sender does not.
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from cryptography.x509 import load_pem_x509_certificates

    try:
        leaf = load_pem_x509_certificates(certificate.encode())[0]
    except (ValueError, UnsupportedAlgorithm):
        raise ClientCertificateUnusable(
            "clientCertificate leads to no certificate; write it there as PEM (-----BEGIN CERTIFICATE-----)"
        ) from None
    try:
        private = load_pem_private_key(key.encode(), password=None)
    except TypeError:
        raise ClientCertificateUnusable(
            "the key has a passphrase; write it without one (openssl pkey -in KEY), readable for the service alone"
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise ClientCertificateUnusable(
            "clientKey leads to no private key; write it there as PEM (-----BEGIN PRIVATE KEY-----)"
        ) from None
    if leaf.public_key() != private.public_key():
        raise ClientCertificateUnusable(
            "the key is not that of the certificate; put the two that belong together, the certificate first of its"
            " chain"
        )
    return _details(leaf)


def _details(leaf: Certificate) -> CertificateDetails:
    names = [each.rfc4514_string()[:NAME_CHARACTERS_MAX] for each in (leaf.subject, leaf.issuer)]
    return CertificateDetails(names[0], names[1], leaf.not_valid_before_utc, leaf.not_valid_after_utc)


def _load(context: ssl.SSLContext, certificate: str, key: str) -> None:
    try:
        with _as_file(f"{certificate}\n{key}\n".encode()) as path:
            context.load_cert_chain(path, password=lambda: b"")  # without it OpenSSL asks at the terminal
    except (ssl.SSLError, OSError) as error:
        _judged(certificate, key)  # says it better where it can
        reason = getattr(error, "reason", None) or error.strerror
        raise ClientCertificateUnusable(
            f"the client certificate cannot be used ({reason}); have a new one made"
        ) from None


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Lend a path, which is all that OpenSSL reads from by way of Python; the key is on no disk where that can be."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("client-certificate", os.MFD_CLOEXEC)
        try:
            with os.fdopen(descriptor, "wb", closefd=False) as file:
                file.write(content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile() as file:  # readable for its owner alone
            file.write(content)
            file.flush()
            yield file.name
