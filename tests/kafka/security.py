"""What brokers need to ask for a password or a certificate: an authority, what it issued, and who may come in."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

USER = "hookline"
PASSWORD = "a-password-of-tests"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
KEY_PASSWORD = "a-password-of-a-key"

_VALID = datetime.timedelta(days=2)


class Certificates:
    """An authority, the certificate of the brokers and one of a client, and an authority that issued neither."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.authority = folder / "authority.pem"
        self.other_authority = folder / "other-authority.pem"
        self.broker = folder / "broker.pem"
        """Key and certificates, in the order in which a broker wants them."""
        self.client_certificate = folder / "client.pem"
        self.client_key = folder / "client.key"
        self.client_locked_key = folder / "client-locked.key"
        authority, signing = _issued("authority", None)
        self.authority.write_bytes(_pem(authority))
        self.other_authority.write_bytes(_pem(_issued("other authority", None)[0]))
        broker, key = _issued("broker", (authority, signing))
        self.broker.write_bytes(_key_pem(key) + _pem(broker) + _pem(authority))
        client, key = _issued(USER, (authority, signing))
        self.client_certificate.write_bytes(_pem(client))
        self.client_key.write_bytes(_key_pem(key))
        self.client_locked_key.write_bytes(_key_pem(key, KEY_PASSWORD))


def secured_listeners(certificates: Certificates) -> dict[str, object]:
    """The properties of a broker's listeners ``PASSWORD`` and ``CERTIFICATE``."""
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule"
    mechanisms = ("PLAIN", *SCRAM)
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": certificates.broker,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": certificates.authority,
        "listener.name.certificate.ssl.client.auth": "required",
        "listener.name.password.sasl.enabled.mechanisms": ",".join(mechanisms),
        "listener.name.password.plain.sasl.jaas.config": f'{plain} required user_{USER}="{PASSWORD}";',
        **{f"listener.name.password.{each.lower()}.sasl.jaas.config": f"{scram} required;" for each in SCRAM},
    }


def _issued(
    name: str, issuer: tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """A certificate for 127.0.0.1 with its key; without ``issuer`` an authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    signing = issuer[1] if issuer is not None else key
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer[0].subject if issuer is not None else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _VALID)
        .not_valid_after(now + _VALID)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(here, critical=False)
        .sign(signing, hashes.SHA256())
    )
    return certificate, key


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey, password: str | None = None) -> bytes:
    encryption = (
        serialization.BestAvailableEncryption(password.encode())
        if password is not None
        else serialization.NoEncryption()
    )
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
