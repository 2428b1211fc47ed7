"""One POST to a receiver, by the rules of webhook requests: a checked address, verified certificates, one deadline.

For the few requests that control sends itself; events go through deliver's lanes and connections.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Mapping
from typing import NamedTuple

from hookline.connections.receiver_url import ReceiverUrl
from hookline.deliver.send.answer_head import HEAD_BYTES_MAX
from hookline.deliver.send.dialer import Dialer
from hookline.deliver.send.resolver import BlockedAddress, NameNotResolved, Resolver
from hookline.outcomes.outcome import Outcome, of_status

_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})[ \r\n]")


class Answered(NamedTuple):
    """What the request came to."""

    outcome: Outcome
    status: int | None = None
    error: str | None = None


class GuardedPost:
    """Sends; ``timeout_seconds`` is for the whole exchange, from the look-up to the end of the answer's head."""

    def __init__(self, resolver: Resolver, tls: ssl.SSLContext, timeout_seconds: float) -> None:
        self._dialer = Dialer(resolver)
        self._tls = tls
        self._timeout_seconds = timeout_seconds

    async def send(self, url: ReceiverUrl, headers: Mapping[str, str], body: bytes) -> Answered:
        """Send the body and return what came of it; never raises for what the network or the receiver does."""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self._exchange(url, _request(url, headers, body))
        except BlockedAddress as error:
            return Answered(Outcome.BLOCKED_ADDRESS, error=error.reason)
        except NameNotResolved as error:
            return Answered(Outcome.NAME_NOT_RESOLVED, error=str(error))
        except TimeoutError:
            return Answered(Outcome.TIMED_OUT, error=f"no answer within {self._timeout_seconds:g} s")
        except ssl.SSLError as error:
            return Answered(Outcome.TLS_REFUSED, error=getattr(error, "verify_message", "") or error.reason)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return Answered(Outcome.BAD_RESPONSE, error="the answer is not whole, or its head is too long")
        except OSError as error:
            return Answered(Outcome.CONNECTION_FAILED, error=error.strerror or str(error) or "closed at once")

    async def _exchange(self, url: ReceiverUrl, request: bytes) -> Answered:
        _, plain = await self._dialer.dial(url.host, url.port)
        tls = self._tls if url.scheme == "https" else None
        host = url.host if tls is not None else None
        reader, writer = await asyncio.open_connection(sock=plain, ssl=tls, server_hostname=host, limit=HEAD_BYTES_MAX)
        try:
            writer.write(request)
            while True:
                match = _STATUS.match(await _head(reader))
                if match is None:
                    return Answered(Outcome.BAD_RESPONSE, error="the answer is not HTTP")
                status = int(match[1])
                if status >= 200:  # others announce the answer
                    return Answered(of_status(status), status)
        finally:
            writer.transport.abort()


async def _head(reader: asyncio.StreamReader) -> bytes:
    """Return the next head; a line may end with a bare LF, as in the answers to events."""
    head = line = b""
    while not head or line.strip(b"\r\n"):
        line = await reader.readuntil(b"\n")
        head += line
        if len(head) > HEAD_BYTES_MAX:
            raise asyncio.LimitOverrunError("the head is too long", len(head))
    return head


def _request(url: ReceiverUrl, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = [
        f"POST {url.target} HTTP/1.1",
        f"Host: {url.host_header}",
        "Connection: close",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body
