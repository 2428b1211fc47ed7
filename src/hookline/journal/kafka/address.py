"""Where a journal on Kafka is: the brokers to ask first and the topic, as ``kafka://host:port,host:port/topic``."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from hookline.journal.kafka.access import PLAIN, KafkaAccess, access_of
from hookline.journal.port import JournalUnusable
from hookline.secret_references import SecretMissing
from hookline.settings import Settings

_URL = re.compile(r"kafka://([^/\s,@]+:\d{1,5}(?:,[^/\s,@]+:\d{1,5})*)/([A-Za-z0-9._-]{1,249})")

_EVERY_CLIENT: dict[str, Any] = {
    # Brokers that make topics on demand would make ours at the first look for it: with one partition and one copy.
    "allow.auto.create.topics": False,
    "client.id": "hookline",
    "socket.keepalive.enable": True,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 1_000,
    "topic.metadata.refresh.interval.ms": 60_000,
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
