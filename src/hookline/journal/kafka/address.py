"""Say where a journal on Kafka is and what its brokers are met with: ``kafka://`` addresses, TLS, user and password."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from hookline.journal.port import JournalUnusable
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


_URL = re.compile(r"kafka://([^/\s,@]+:\d{1,5}(?:,[^/\s,@]+:\d{1,5})*)/([A-Za-z0-9._-]{1,249})")

LEADERS_MS = 5_000
"""How often a client asks who leads."""
SILENCE_MS_MAX = 20_000
"""How long a broker may take to answer; one that has its clients wait for their quotas takes up to about 10 s."""

_EVERY_CLIENT: dict[str, Any] = {
    # Brokers that make topics on demand would make ours at the first look for it: with one partition and one copy.
    "allow.auto.create.topics": False,
    "client.id": "hookline",
    "socket.keepalive.enable": True,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 1_000,
    # A broker that stands still, or lost its power, closes nothing: who leads instead of it is heard of by asking.
    "topic.metadata.refresh.interval.ms": LEADERS_MS,
    "socket.timeout.ms": SILENCE_MS_MAX,
    "retry.backoff.ms": 50,
    # Its own lines would go to standard error: what matters comes back as an error of a call.
    "log_level": 0,
}


class KafkaAddress(NamedTuple):
    """``servers`` is ``host:port`` of some brokers, comma-separated; ``access`` is what they are met with."""

    servers: str
    topic: str
    access: KafkaAccess = PLAIN

    @property
    def url(self) -> str:
        """As it is written in ``journal.url``."""
        return f"kafka://{self.servers}/{self.topic}"

    @property
    def user(self) -> str:
        """Whom brokers take us for, in a sentence."""
        return self.access.sasl_username or "this client"

    @property
    def note(self) -> str:
        """Return all of it as a text for ``noted``, which says of secrets only where they are."""
        access = "" if self.access == PLAIN else msgspec.json.encode(self.access.without_secrets()).decode() + "\n"
        return f"{self.url}\n{access}"

    def client(self, **more: Any) -> dict[str, Any]:
        """Return the options of a client, and what is added for its kind (dots written as underscores); raise
        JournalUnusable when a password is not where the settings say."""
        options = {name.replace("_", "."): value for name, value in more.items()}
        try:
            access = self.access.options()
        except SecretMissing as missing:
            raise JournalUnusable(f"a password of the journal's settings: {missing}") from None
        return {**_EVERY_CLIENT, "bootstrap.servers": self.servers, **access, **options}


def parse_address(url: str, access: KafkaAccess = PLAIN) -> KafkaAddress:
    """Read a ``journal.url``; raise ValueError that says how it is written."""
    match = _URL.fullmatch(url)
    if match is None:
        raise ValueError("write kafka://host:port,host:port/topic")
    return KafkaAddress(match[1], match[2], access)


def address_of(settings: Settings) -> KafkaAddress:
    """Return what the settings say; raise JournalUnusable when no client can be made of it."""
    address = parse_address(settings.journal.url, access_of(settings))
    try:
        if address.access != PLAIN:
            AdminClient(address.client())  # reads the certificates
    except KafkaException as error:
        reason = error.args[0].str().removeprefix("Failed to create admin client: ")
        raise JournalUnusable(f"the files that journal.tls_… name cannot be used: {reason}") from None
    return address


def noted(text: str) -> KafkaAddress:
    """Return the address that ``note`` wrote down."""
    url, _, access = text.partition("\n")
    return parse_address(url, msgspec.json.decode(access, type=KafkaAccess) if access.strip() else PLAIN)
