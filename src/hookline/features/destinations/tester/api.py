"""``/api/v1/destinations/{id}/test``: the exact requests for one event, and what comes of sending them now.

The connection, its limits and what an answer means are deliver's own (``deliver.send``); nothing is kept alive, tried
again or recorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from threading import Semaphore
from typing import Annotated

import msgspec
from litestar import Controller, post
from litestar.params import JSONBody

from hookline.api.audit.log import audit_log
from hookline.api.calls import the_call, the_caller
from hookline.api.listing import Id
from hookline.api.problem import Problem, not_found
from hookline.api.services import FromServices, Services, part
from hookline.connections.catalog.kinds import published_name
from hookline.connections.model import Destination
from hookline.deliver.send.answers import HEAD_BYTES_MAX, answer_head
from hookline.deliver.send.client_certificate import ClientCertificate
from hookline.deliver.send.connector import tls_context
from hookline.deliver.send.pool import Exchanges
from hookline.deliver.send.resolver import Guard, Resolver
from hookline.expressions.lexer import ExpressionError
from hookline.features.destinations.tester.chosen_event import SampleType, chosen_record
from hookline.features.destinations.tester.request_writer import (
    Header,
    RequestWriter,
    ShownRequest,
    WrittenRequest,
    shown,
)
from hookline.journal.record import Record
from hookline.outcomes.outcome import Outcome
from hookline.route.decision import refusal
from hookline.route.filters import Filters
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
    """Hold what came of one request. ``error`` says why there is no answer; a body is cut after 64 KB."""

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


NOT_GIVEN = msgspec.Raw(b"null")
TESTS_MAX = 16
"""Tests that may wait for receivers at once."""


class EventTest(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The event to test with: an ``event`` as an SDK sends it, the ``messageId`` of a stored one, or a ``sample``.

    ``dryRun`` only shows the requests; ``reveal`` shows credentials in their headers too, to owners alone, and is
    noted in the audit log. ``source`` is the one that an event given counts as sent by, by default the first of the
    destination.
    """

    event: msgspec.Raw = msgspec.field(default_factory=lambda: NOT_GIVEN)
    message_id: Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)] | None = None
    sample: SampleType | None = None
    source: Annotated[str, msgspec.Meta(max_length=64)] | None = None
    dry_run: bool = False
    reveal: bool = False


class Routing(msgspec.Struct, frozen=True, rename="camel"):
    """The route of the event to the destination: ``reason`` or the filter ``stoppedBy`` when not, and the filters
    that take something out of it. A test is sent all the same."""

    sent: bool
    reason: str | None
    stopped_by: str | None
    edited_by: Sequence[str]


class EventTestReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The requests, and unless it was a dry run, what each URL answered. Nothing of it is recorded as delivered."""

    destination: str
    message_id: str
    type: str
    routing: Routing
    dry_run: bool
    requests: Sequence[ShownRequest]
    answers: Sequence[TrialAnswer] | None


@part
def test_room(services: Services) -> Semaphore:
    """Return what bounds the tests that wait for receivers."""
    return Semaphore(TESTS_MAX)


class DestinationTests(Controller):
    """Tries a destination, enabled or not; nothing is stored."""

    path = "/destinations/{id:str}/test"

    @post(status_code=200, needs="editor")
    async def test_destination(
        self, services: FromServices, object_id: Id, data: JSONBody[EventTest | None] = None
    ) -> EventTestReport:
        """Show the requests for one event and, without `dryRun`, send them to every URL now; nothing is recorded."""
        stored = services.store.destination(object_id)
        if stored is None:
            raise not_found("destination", object_id)
        asked = data or EventTest()
        the_call().only_looked = asked.dry_run
        if asked.reveal:
            _note_reveal(services, stored.object)
        destination, now_ms = stored.object, services.store.now_ms()
        source = asked.source or next(iter(destination.sources), "test")
        record = await chosen_record(
            services, None if asked.event == NOT_GIVEN else asked.event, asked.message_id, asked.sample, source, now_ms
        )
        writer = RequestWriter(services.settings)
        written = writer.requests(destination, record, now_ms)
        answers: Sequence[TrialAnswer] | None = None
        if not asked.dry_run:
            room = test_room(services)
            if not room.acquire(blocking=False):
                raise Problem(429, "too_many_requests", "Too many tests are waiting for receivers; try again shortly.")
            trials = Trials(services.settings)
            try:
                answers = await asyncio.gather(*(trials.send(request, asked.reveal) for request in written))
            finally:
                room.release()
        return EventTestReport(
            destination=destination.id,
            message_id=record.message_id,
            type=record.type,
            routing=routing_of(destination, record),
            dry_run=asked.dry_run,
            requests=[shown(request, destination, asked.reveal) for request in written],
            answers=answers,
        )


def _note_reveal(services: Services, destination: Destination) -> None:
    """Put it on record before anything is shown: what cannot be noted is not revealed. Raise Problem for no owner."""
    call, caller = the_call(), the_caller()
    if not caller.may("owner"):
        detail = f"Showing secrets needs the role owner; {caller.name} is {caller.role}. Leave reveal out."
        raise Problem(403, "forbidden", detail)
    audit_log(services).record(caller, "reveal_secrets", f"destinations/{destination.id}", call.address, call.id)


def routing_of(destination: Destination, record: Record) -> Routing:
    """Return whether the destination would get an event of this kind, by its sources, the event and its filters."""
    reason = None
    if record.to is None and record.source not in destination.sources:
        reason = "source_not_connected"
    reason = reason or refusal(record.selection, published_name(destination.kind))
    try:
        filters = Filters(destination.filters)
    except ExpressionError as error:  # stored before the language was what it is
        return Routing(False, str(error), None, ())
    decision = filters.decide(record)
    stopped = None if decision.stopped_by is None else filters.rule(decision.stopped_by)
    edited = [filters.rule(index) for index in filters.edited_by(record)]
    return Routing(reason is None and stopped is None, reason, stopped, edited)
