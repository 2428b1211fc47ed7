"""Sends one request by the sender's rules and tells more of it: the whole answer, and where the time went.

The connection, its limits and what an answer means are deliver's own (``deliver.connection``, ``deliver.pool``,
``deliver.egress``); nothing is kept alive, tried again or recorded.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from time import monotonic

import msgspec

from hookline.connections.receiver_url import ReceiverUrl, parse_receiver_url
from hookline.control.tester.request_writer import WrittenRequest
from hookline.control.tester.shown_request import Header
from hookline.deliver.send.answer_head import HEAD_BYTES_MAX, answer_head
from hookline.deliver.send.burst import Burst
from hookline.deliver.send.client_certificate import ClientCertificate
from hookline.deliver.send.connection import BODY_BYTES_MAX, Connection
from hookline.deliver.send.dialer import Dialer
from hookline.deliver.send.failure import Failure
from hookline.deliver.send.pool import Pool, tls_context
from hookline.deliver.send.port import Sink
from hookline.deliver.send.request import Target
from hookline.deliver.send.resolver import Guard, Resolver
from hookline.outcomes.outcome import Outcome, from_number
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
    status: int | None
    headers: Sequence[Header]
    body: str
    body_cut: bool
    error: str | None
    address: str | None
    milliseconds: Timings


class Trials:
    """Sends requests one by one."""

    def __init__(self, settings: Settings) -> None:
        self._guard = Guard(settings.deliver.allow_networks)
        self._tls = tls_context(settings.deliver.ca_file)
        self._timeout_seconds = settings.deliver.timeout

    async def send(self, written: WrittenRequest, reveal: bool = False) -> TrialAnswer:
        """Send the request; never raises for what the network or the receiver does.

        Unless ``reveal`` is said, what a receiver sends back of its credentials is masked.
        """
        trial = _Trial()
        url, certificate = parse_receiver_url(written.url), written.target.pool.certificate
        pool = _TimedPool(url, trial, _TimedDialer(self._guard, trial), self._tls, set(), certificate)
        connection = pool.begin(written)
        try:
            await asyncio.wait_for(trial.ended.wait(), self._timeout_seconds)
        except TimeoutError:
            connection.expire()
        finally:
            pool.close()
        return _answer(written, trial, connection, (lambda text: text) if reveal else written.target.hidden)


class _Trial(Sink):
    """What is seen of one exchange; deliver's connection reports its result here."""

    def __init__(self) -> None:
        self.timings = Timings()
        self.address: str | None = None
        """The name's first one, which is shown when none of them could be connected to."""
        self.ended = asyncio.Event()
        self.result = 0
        self.failure: Failure | None = None

    def answered(self, token: object, target: Target, result: int, milliseconds: int, failure: Failure | None) -> None:
        self.result, self.failure = result, failure


class _TimedResolver(Resolver):
    def __init__(self, guard: Guard, trial: _Trial) -> None:
        super().__init__(guard)
        self._trial = trial

    async def resolve(self, host: str, port: int) -> list[str]:
        began = monotonic()
        try:
            addresses = await super().resolve(host, port)
        finally:
            self._trial.timings.dns = _since(began)
        self._trial.address = addresses[0]
        return addresses


class _TimedDialer(Dialer):
    def __init__(self, guard: Guard, trial: _Trial) -> None:
        super().__init__(_TimedResolver(guard, trial))
        self._trial = trial

    async def dial(self, host: str, port: int) -> tuple[str, socket.socket]:
        began, timings = monotonic(), self._trial.timings
        dialled = await super().dial(host, port)
        timings.connect = round(_since(began) - (timings.dns or 0.0), 1)
        return dialled


class _TimedConnection(Connection):
    """Keeps what deliver does not: the whole head, the body of a success, and when the first byte came."""

    def __init__(self, pool: Pool, trial: _Trial) -> None:
        super().__init__(pool)
        self.trial = trial
        self.head = b""
        self.body = b""
        self.body_cut = False
        self._asked = 0.0
        self._began = monotonic()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._asked = monotonic()
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        timings = self.trial.timings
        if timings.wait is None:
            timings.wait = _since(self._asked)
        if not self.body and len(self.head) <= HEAD_BYTES_MAX:
            self.head += data
        super().data_received(data)

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self.trial.timings.total = _since(self._began)

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        room = BODY_BYTES_MAX - len(self.body)
        self.body += body[:room]
        self.body_cut = self.body_cut or len(body) > room

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self.trial.ended.set()

    def close(self) -> None:
        super().close()
        self.trial.ended.set()

    def _keep(self, now: float) -> None:
        super()._keep(now)
        self.trial.ended.set()


class _TimedPool(Pool):
    def __init__(
        self,
        url: ReceiverUrl,
        trial: _Trial,
        dialer: Dialer,
        tls: ssl.SSLContext,
        active: set[Pool],
        certificate: ClientCertificate | None,
    ) -> None:
        super().__init__(url, trial, dialer, tls, active, certificate=certificate)
        self._trial = trial

    def begin(self, written: WrittenRequest) -> _TimedConnection:
        """Send on a new connection."""
        connection = _TimedConnection(self, self._trial)
        self._connections.add(connection)
        connection.begin(written, Burst(written.target, monotonic()), written.data)
        connection.task = asyncio.get_running_loop().create_task(self._connect(connection))
        return connection

    def is_plain(self, data: bytes) -> bool:
        """No answer is so plain that its body is of no interest."""
        return False

    async def _take_up(self, connection: Connection, plain: socket.socket) -> None:
        began = monotonic()
        try:
            await super()._take_up(connection, plain)
        finally:
            if self._tls is not None:
                self._trial.timings.tls = _since(began)


def _answer(
    written: WrittenRequest, trial: _Trial, connection: _TimedConnection, hidden: Callable[[str], str]
) -> TrialAnswer:
    outcome, status = (trial.failure.outcome, trial.failure.status) if trial.failure else from_number(trial.result)
    _, *lines = hidden(answer_head(connection.head, HEAD_BYTES_MAX)).split("\r\n")
    answered = status is not None
    return TrialAnswer(
        url=written.url,
        outcome=outcome,
        status=status,
        headers=[Header(name, value.strip()) for name, _, value in (line.partition(":") for line in lines if line)],
        body=hidden(connection.body.decode("utf-8", "replace")),
        body_cut=connection.body_cut,
        error=trial.failure.error if trial.failure is not None and not answered else None,
        address=connection.checked_address or trial.address,
        milliseconds=trial.timings,
    )


def _since(began: float) -> float:
    return round((monotonic() - began) * 1000, 1)
