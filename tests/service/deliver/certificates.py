"""A certificate authority of our own, and server contexts that are right or wrong in one thing each."""

from __future__ import annotations

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = timedelta(days=1)


class Authority:
    """Signs server certificates; ``file`` is what ``deliver.ca_file`` points to."""

    def __init__(self, folder: Path, name: str = "Test Authority") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        builder = _builder(self._name, self._name, self._key.public_key(), now - DAY, now + 30 * DAY)
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        certificate = (
            builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.file = folder / f"{name.replace(' ', '-')}.pem"
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def server(
        self,
        host: str = "127.0.0.1",
        *,
        begins: timedelta = -DAY,
        ends: timedelta = DAY,
        self_signed: bool = False,
    ) -> ssl.SSLContext:
        """A server context with a certificate for the host, valid from ``begins`` to ``ends`` from now."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server_file(host, begins=begins, ends=ends, self_signed=self_signed))
        return context

    def server_file(
        self, host: str, *, begins: timedelta = -DAY, ends: timedelta = DAY, self_signed: bool = False
    ) -> Path:
        """The same certificate and its key in one file (PEM), for servers that are programs."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        issuer, signer = (subject, key) if self_signed else (self._name, self._key)
        now = datetime.now(UTC)
        certificate = (
            _builder(subject, issuer, key.public_key(), now + begins, now + ends)
            .add_extension(x509.SubjectAlternativeName([_alternative(host)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
            .sign(signer, hashes.SHA256())
        )
        file = self._folder / f"{certificate.serial_number:x}.pem"
        encoding = serialization.Encoding.PEM
        secret = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        file.write_bytes(certificate.public_bytes(encoding) + secret)
        return file

    def client(
        self, name: str = "hookline", *, begins: timedelta = -DAY, ends: timedelta = 90 * DAY
    ) -> tuple[bytes, bytes]:
        """A client certificate and its key, PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = (
            _builder(subject, self._name, key.public_key(), now + begins, now + ends)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        pem = serialization.Encoding.PEM
        secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return certificate.public_bytes(pem), secret


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, begins: datetime, ends: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
