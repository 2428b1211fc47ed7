"""What brokers are met with: TLS, a certificate, a user and password. References to secrets stay references until a
client is made.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from hookline.secret_references import SecretMissing, is_reference, resolve_in
from hookline.settings import Settings, environment_name

SECRET_SETTINGS = ("journal.tls_key_password", "journal.sasl_password")
SECRET_VARIABLES = tuple(map(environment_name, SECRET_SETTINGS))


class KafkaAccess(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings ``journal.tls*`` and ``journal.sasl_*``; paths are absolute."""

    tls: bool = False
    tls_ca_file: str | None = None
    tls_certificate_file: str | None = None
    tls_key_file: str | None = None
    tls_key_password: str | None = None
    sasl_mechanism: str = "none"
    sasl_username: str | None = None
    sasl_password: str | None = None
    secrets_dir: str | None = None

    def options(self) -> dict[str, Any]:
        """Return the options of a client; raise SecretMissing when a reference leads nowhere."""
        has_sasl = self.sasl_mechanism != "none"
        if not (self.tls or has_sasl):
            return {}
        options = {
            "security.protocol": f"{'SASL_' if has_sasl else ''}{'SSL' if self.tls else 'PLAINTEXT'}",
            "ssl.ca.location": self.tls_ca_file,
            "ssl.certificate.location": self.tls_certificate_file,
            "ssl.key.location": self.tls_key_file,
            "ssl.key.password": self._secret(self.tls_key_password),
        }
        if has_sasl:
            options["sasl.mechanism"] = self.sasl_mechanism
            options["sasl.username"] = self.sasl_username
            options["sasl.password"] = self._secret(self.sasl_password)
        return {name: value for name, value in options.items() if value is not None}

    def without_secrets(self) -> KafkaAccess:
        """Return it as it may be written down: for a secret the variable that holds it in every process of ours."""
        key_password, password = SECRET_SETTINGS
        return msgspec.structs.replace(
            self,
            tls_key_password=_named(key_password, self.tls_key_password),
            sasl_password=_named(password, self.sasl_password),
        )

    def _secret(self, value: str | None) -> str | None:
        name = (value or "").removeprefix("env:")
        if name not in SECRET_VARIABLES:
            return None if value is None else resolve_in(value, self.secrets_dir)
        try:
            return os.environ[name]
        except KeyError:
            raise SecretMissing(f"set {name} where this runs, as it is set where Hookline runs") from None


def _named(key: str, value: str | None) -> str | None:
    return value if value is None or is_reference(value) else f"env:{environment_name(key)}"


PLAIN = KafkaAccess()
"""Neither TLS nor a password."""


def access_of(settings: Settings) -> KafkaAccess:
    """Return how these settings meet brokers."""
    journal = settings.journal
    return KafkaAccess(
        tls=journal.tls,
        tls_ca_file=_absolute(journal.tls_ca_file),
        tls_certificate_file=_absolute(journal.tls_certificate_file),
        tls_key_file=_absolute(journal.tls_key_file),
        tls_key_password=journal.tls_key_password,
        sasl_mechanism=journal.sasl_mechanism,
        sasl_username=journal.sasl_username,
        sasl_password=journal.sasl_password,
        secrets_dir=_absolute(settings.secrets.dir) if journal.tls or journal.sasl_mechanism != "none" else None,
    )


def _absolute(path: str | None) -> str | None:
    return None if path is None else str(Path(path).expanduser().absolute())
