"""A plain HTTP client for the two ports of the service: one request per connection, nothing retried."""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ANSWER_SECONDS = 300.0
"""A bound that only a failure reaches: an event with a thousand destinations takes seconds on a quiet machine."""


@dataclass(frozen=True)
class Answer:
    """What the service answered; ``headers`` has lower-case names."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


def basic(key: str) -> dict[str, str]:
    """The Authorization header the SDKs send: the write key as user name, an empty password."""
    return {"Authorization": "Basic " + base64.b64encode(f"{key}:".encode()).decode()}


def bearer(token: str) -> dict[str, str]:
    """The Authorization header of the admin API."""
    return {"Authorization": f"Bearer {token}"}


def send(
    port: int,
    method: str,
    path: str,
    body: object = None,
    headers: Mapping[str, str] | None = None,
    seconds: float = ANSWER_SECONDS,
) -> Answer:
    """Send one request to 127.0.0.1; ``body`` is bytes, or anything else as JSON. OSError when nobody answers."""
    data = body if isinstance(body, bytes) or body is None else json.dumps(body, ensure_ascii=False).encode()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        connection.request(method, path, body=data, headers=dict(headers or {}))
        response = connection.getresponse()
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
    except http.client.HTTPException as error:
        raise ConnectionError(f"no proper answer from port {port}: {error!r}") from error
    finally:
        connection.close()
