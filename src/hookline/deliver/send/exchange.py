"""What came of one request that was sent by itself, and what was seen of it on its way (``pool.Exchanges`` sends)."""

from __future__ import annotations

import asyncio
from time import monotonic

from hookline.deliver.send.answers import BODY_BYTES_MAX, HEAD_BYTES_MAX
from hookline.deliver.send.port import Failure, Opaque, Sink
from hookline.outcomes.outcome import Outcome, from_number


class Exchange(Sink):
    """Hold what came of one request, and what was seen of it. Times are milliseconds, None for what was not come to."""

    def __init__(self) -> None:
        self.outcome = Outcome.CONNECTION_FAILED
        self.status: int | None = None
        self.error: str | None = None
        """Why there is no answer."""
        self.address: str | None = None
        """The one that was connected to; the name's first where none of them could be."""
        self.dns: float | None = None
        self.connect: float | None = None
        self.tls: float | None = None
        self.wait: float | None = None
        """From the request to the answer's first byte."""
        self.total: float | None = None
        """To the end of the answer's head."""
        self.head = b""
        """Of all answers, interim ones included; a piece of the body may be at its end."""
        self.body = b""
        self.body_cut = False
        self.ended = asyncio.Event()
        self._began = self._asked = monotonic()

    def answered(self, token: Opaque, target: Opaque, result: int, milliseconds: int, failure: Failure | None) -> None:
        """Take the result."""
        self.outcome, self.status = (failure.outcome, failure.status) if failure else from_number(result)
        self.error = failure.error if failure is not None and failure.status is None else None

    # what the sender's parts note on the way

    def resolved(self, began: float, addresses: list[str] | None) -> None:
        """Note when the name's addresses were known, or known to be none."""
        self.dns = since(began)
        self.address = addresses[0] if addresses else None

    def connected(self, began: float, address: str) -> None:
        """Note when, of a dial begun then, an address had answered."""
        self.connect = round(since(began) - (self.dns or 0.0), 1)
        self.address = address

    def secured(self, began: float) -> None:
        """Note the end of a TLS handshake."""
        self.tls = since(began)

    def asked(self) -> None:
        """Note that the request is being written."""
        self._asked = monotonic()

    def received(self, data: bytes) -> None:
        """Note a piece of the answer."""
        if self.wait is None:
            self.wait = since(self._asked)
        if not self.body and len(self.head) <= HEAD_BYTES_MAX:
            self.head += data

    def head_ended(self) -> None:
        """Note the end of a head."""
        self.total = since(self._began)

    def received_body(self, body: bytes) -> None:
        """Keep the beginning of the body."""
        room = BODY_BYTES_MAX - len(self.body)
        self.body += body[:room]
        self.body_cut = self.body_cut or len(body) > room


def since(began: float) -> float:
    """Return the milliseconds that have passed, to a tenth."""
    return round((monotonic() - began) * 1000, 1)
