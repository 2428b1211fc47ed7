"""Where a journal on Kafka is: the brokers to ask first and the topic, as ``kafka://host:port,host:port/topic``."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

_URL = re.compile(r"kafka://([^/\s,@]+:\d{1,5}(?:,[^/\s,@]+:\d{1,5})*)/([A-Za-z0-9._-]{1,249})")

_EVERY_CLIENT: dict[str, Any] = {
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
    """``servers`` is ``host:port`` of some brokers, comma-separated."""

    servers: str
    topic: str

    @property
    def url(self) -> str:
        """As it is written in ``journal.url``."""
        return f"kafka://{self.servers}/{self.topic}"

    def client(self, **more: Any) -> dict[str, Any]:
        """The options of a client, and what is added for its kind (dots written as underscores)."""
        options = {name.replace("_", "."): value for name, value in more.items()}
        return {**_EVERY_CLIENT, "bootstrap.servers": self.servers, **options}


def parse_address(url: str) -> KafkaAddress:
    """Read a ``journal.url``; raise ValueError that says how it is written."""
    match = _URL.fullmatch(url)
    if match is None:
        raise ValueError("write kafka://host:port,host:port/topic")
    return KafkaAddress(match[1], match[2])
