"""HTTP/1.1 as it was on a connection: bytes in, requests and answers out, as far as SDKs and Hookline write it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Message:
    """A request or an answer; ``first`` is its first line, ``headers`` has lower-case names."""

    first: str
    headers: dict[str, str]
    body: bytes

    @property
    def method(self) -> str:
        """The method, of a request."""
        return self.first.split(" ")[0]

    @property
    def path(self) -> str:
        """Path and query, of a request."""
        return self.first.split(" ")[1]

    @property
    def status(self) -> int:
        """The status, of an answer."""
        return int(self.first.split(" ")[1])

    @property
    def json(self) -> Any:
        """The body as JSON, unpacked."""
        packed = self.headers.get("content-encoding") == "gzip"
        return json.loads(gzip.decompress(self.body) if packed else self.body)


def messages(stream: bytes) -> Iterator[Message]:
    """Every complete message of one direction of a connection, in order."""
    while b"\r\n\r\n" in stream:
        head, _, stream = stream.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if headers.get("transfer-encoding") == "chunked":
            whole, body, stream = _chunks(stream)
        else:
            length = int(headers.get("content-length", "0"))
            whole, body, stream = length <= len(stream), stream[:length], stream[length:]
        if not whole:
            return
        yield Message(first, headers, body)


def _chunks(stream: bytes) -> tuple[bool, bytes, bytes]:
    body = b""
    while b"\r\n" in stream:
        size, _, stream = stream.partition(b"\r\n")
        length = int(size.split(b";")[0], 16)
        body, stream = body + stream[:length], stream[length + 2 :]
        if length == 0:
            return True, body, stream
    return False, body, stream
