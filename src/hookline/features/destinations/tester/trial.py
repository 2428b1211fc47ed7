"""Sends one request by the sender's rules and tells more of it: the whole answer, and where the time went.

The connection, its limits and what an answer means are deliver's own (``deliver.send``); nothing is kept alive, tried
again or recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from hookline.deliver.send.answers import HEAD_BYTES_MAX, answer_head
from hookline.deliver.send.client_certificate import ClientCertificate
from hookline.deliver.send.connector import tls_context
from hookline.deliver.send.guard import Guard
from hookline.deliver.send.pool import Exchanges
from hookline.deliver.send.resolver import Resolver
from hookline.features.destinations.tester.request_writer import WrittenRequest
from hookline.features.destinations.tester.shown_request import Header
from hookline.outcomes.outcome import Outcome
from hookline.settings import Settings


class Timings(msgspec.Struct, rename="camel"):
    """Milliseconds of each part; null for a part that was not come to. ``wait`` is from the request to the answer's
    first byte, ``total`` to the end of its head."""

    dns: float | None = None
    connect: float | None = None
    tls: float | None = None
    wait: float | None = None
    total: float | None = None


class TrialAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What came of one request. ``error`` says why there is no answer; a body is cut after 64 KB."""

    url: str
    outcome: Outcome
    http_status: int | None
    headers: Sequence[Header]
    body: str
    body_cut: bool
    error: str | None
    address: str | None
    milliseconds: Timings


class Trials:
    """Sends requests one by one; looks each name up anew, so that it is seen how long that takes."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._guard = Guard(settings.deliver.allow_networks)
        self._new_tls = partial(tls_context, settings.deliver.ca_file)
        self._tls = self._new_tls()

    async def send(self, written: WrittenRequest, reveal: bool = False) -> TrialAnswer:
        """Send the request; never raises for what the network or the receiver does.

        Unless ``reveal`` is said, what a receiver sends back of its credentials is masked.
        """
        pair, certificate = written.certificate, None
        if pair is not None:
            certificate = ClientCertificate(pair, self._settings, self._new_tls)
        exchanges = Exchanges(Resolver(self._guard), self._tls, self._settings.deliver.timeout)
        seen = await exchanges.send(written.receiver, written.data, certificate)
        hidden = (lambda text: text) if reveal else written.hidden
        _, *lines = hidden(answer_head(seen.head, HEAD_BYTES_MAX)).split("\r\n")
        return TrialAnswer(
            url=written.url,
            outcome=seen.outcome,
            http_status=seen.status,
            headers=[Header(name, value.strip()) for name, _, value in (line.partition(":") for line in lines if line)],
            body=hidden(seen.body.decode("utf-8", "replace")),
            body_cut=seen.body_cut,
            error=seen.error,
            address=seen.address,
            milliseconds=Timings(seen.dns, seen.connect, seen.tls, seen.wait, seen.total),
        )
