"""``/api/v1/destinations/{id}/test``: the exact requests for one event, and what comes of sending them now.

The connection, its limits and what an answer means are deliver's own (``deliver.send``); nothing is kept alive, tried
again or recorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from litestar import Controller, post
from litestar.params import JSONBody
from msgspec.structs import replace

from hookline.api.audit.log import AuditChange, audit_log
from hookline.api.calls import the_call, the_caller
from hookline.api.handlers import FromServices
from hookline.api.listing import Id
from hookline.api.problem import FieldError, Problem, invalid_body, not_found, pointer_of
from hookline.api.services import Services
from hookline.connections.check import Problem as FoundProblem
from hookline.connections.check import check_destination, check_plan
from hookline.connections.kinds import no_delete_message
from hookline.connections.model import Destination, is_sink
from hookline.connections.receiver_url import parse_receiver_url
from hookline.connections.secrets import NothingToKeep, new_references, redact, restore
from hookline.deliver.lanes.mapped import failure_of
from hookline.deliver.send.answers import HEAD_BYTES_MAX, answer_head
from hookline.deliver.send.client_certificate import ClientCertificate
from hookline.deliver.send.exchange import Exchange
from hookline.deliver.send.pool import Exchanges
from hookline.deliver.send.port import Answer
from hookline.deliver.send.proxy import proxy_of
from hookline.deliver.send.resolver import BlockedAddress, Guard, NameNotResolved, Resolver
from hookline.deliver.send.tls import tls_context
from hookline.deliver.send.tokens import TokenRefused, read_token, token_request
from hookline.expressions.lexer import ExpressionError
from hookline.features.destinations.tester.chosen_event import SampleType, chosen_record
from hookline.features.destinations.tester.connection import ConnectionCheck, checked, test_room
from hookline.features.destinations.tester.preview import NOT_GIVEN, UNNAMED
from hookline.features.destinations.tester.request_writer import (
    Header,
    RequestWriter,
    ShownRequest,
    WrittenRequest,
    shown,
)
from hookline.journal.record import Record
from hookline.kinds.catalog import published_name
from hookline.kinds.model import Auth, Requests
from hookline.outcomes.outcome import FINAL, Outcome, advice_on
from hookline.route.decision import refusal
from hookline.route.filters import UNFILTERED_TYPE, Filters, rules_of
from hookline.settings import Settings


class Timings(msgspec.Struct, rename="camel"):
    """Milliseconds of each part, null for parts that were not reached. ``wait`` is the time from the request to the
    first byte of the answer, ``total`` the time until the end of its headers."""

    dns: float | None = None
    connect: float | None = None
    tls: float | None = None
    wait: float | None = None
    total: float | None = None


class TrialAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of one request. ``error`` says why there is no answer, or what an answer that was read by the
    rules of the request complains of; a body is cut after 64 KB. ``means`` is what would become of an event: it is
    accepted, tried again, or refused, so that it becomes a dead letter. ``nextStep`` is what to do if it is not
    accepted."""

    url: str
    outcome: Outcome
    means: Literal["accepted", "retried", "refused"]
    http_status: int | None
    headers: Sequence[Header]
    body: str
    body_cut: bool
    error: str | None
    next_step: str | None
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
        exchanges = Exchanges(
            Resolver(self._guard), self._tls, self._settings.deliver.timeout, proxy_of(self._settings)
        )
        if written.client is not None:
            try:
                written = written.with_token(await _token(exchanges, written.client))
            except TokenRefused as refused:
                said = written.hidden(str(refused))
                return _without_token(written, f"no token could be fetched: {said}")
        seen = await exchanges.send(written.receiver, written.data, certificate)
        hidden = (lambda text: text) if reveal else written.hidden
        outcome, error = _judged(written, seen)
        _, *lines = hidden(answer_head(seen.head, HEAD_BYTES_MAX)).split("\r\n")
        return TrialAnswer(
            url=written.url,
            outcome=outcome,
            means="accepted" if outcome is Outcome.SUCCESS else "refused" if outcome in FINAL else "retried",
            http_status=seen.status,
            headers=[Header(name, value.strip()) for name, _, value in (line.partition(":") for line in lines if line)],
            body=hidden(seen.body.decode("utf-8", "replace")),
            body_cut=seen.body_cut,
            error=None if error is None else hidden(error),
            next_step=None if outcome is Outcome.SUCCESS else advice_on(outcome, seen.status) or None,
            address=seen.address,
            milliseconds=Timings(seen.dns, seen.connect, seen.tls, seen.wait, seen.total),
        )


async def _token(exchanges: Exchanges, client: Auth) -> str:
    url = parse_receiver_url(client.token_url)
    token, _ = read_token(await exchanges.send(url, token_request(url, client)))
    return token


def _without_token(written: WrittenRequest, error: str) -> TrialAnswer:
    return TrialAnswer(
        url=written.url,
        outcome=Outcome.CONNECTION_FAILED,
        means="retried",
        http_status=None,
        headers=(),
        body="",
        body_cut=False,
        error=error,
        next_step="Check the token URL, the client id and the client secret in the destination's settings.",
        address=None,
        milliseconds=Timings(),
    )


def _judged(written: WrittenRequest, seen: Exchange) -> tuple[Outcome, str | None]:
    """Return what an answer is, by the rules of the request where it has some."""
    if written.judged is None or seen.status is None:
        return seen.outcome, seen.error
    answer = Answer(seen.status, answer_head(seen.head, HEAD_BYTES_MAX), seen.body)
    failure = failure_of(written.judged(answer), answer)
    return (Outcome.SUCCESS, None) if failure is None else (failure.outcome, failure.error or seen.error)


class EventTest(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The event to test with: an ``event`` as an SDK sends it, the ``messageId`` of a stored one, or a ``sample``.
    Of the type ``delete`` it is a delete message, with a ``userId``: a receiver acts on it.

    ``dryRun`` only shows the requests. ``reveal`` also shows credentials in headers, only to owners, and is recorded in
    the audit log. ``source`` is the source of the given event (default: the first source of the destination).
    ``mapping`` is tried in place of the saved one; its requests go to the same hosts.
    """

    event: msgspec.Raw = msgspec.field(default_factory=lambda: NOT_GIVEN)
    message_id: Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)] | None = None
    sample: SampleType | None = None
    source: Annotated[str, msgspec.Meta(max_length=64)] | None = None
    dry_run: bool = False
    reveal: bool = False
    mapping: Requests | None = None


class Routing(msgspec.Struct, frozen=True, rename="camel"):
    """The route of the event to the destination: why it would not be sent (``reason`` or the filter ``stoppedBy``), and
    the filters that would change it. A test is sent anyway, if the mapping makes a request of it. For a delete message
    that it makes none of, ``reason`` says what to do in place of it."""

    sent: bool
    reason: str | None
    stopped_by: str | None
    edited_by: Sequence[str]


class EventTestReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The requests and, unless it was a dry run, the answers of each URL. Nothing is recorded as delivered.

    ``problems`` say which requests of a mapping cannot be made of the event, and why. A destination of a kind without
    requests has its ``connection`` checked instead; no event is written.
    """

    destination: str
    message_id: str
    type: str
    routing: Routing
    dry_run: bool
    requests: Sequence[ShownRequest]
    problems: Sequence[FieldError]
    answers: Sequence[TrialAnswer] | None
    connection: ConnectionCheck | None


ALLOW = (
    "To allow it, add the receiver's network to deliver.allow_networks in hookline.yaml (for this machine:"
    " [127.0.0.0/8]) and restart Hookline."
)


class DestinationTests(Controller):
    """Tries a destination, enabled or not; nothing is stored."""

    path = "/destinations/{id:str}/test"

    @post(status_code=200, needs="editor")
    async def test_destination(
        self, services: FromServices, object_id: Id, data: JSONBody[EventTest | None] = None
    ) -> EventTestReport:
        """Show the requests for one event and, unless `dryRun`, send them to every URL now. Nothing is recorded."""
        stored = services.store.destination(object_id)
        if stored is None:
            raise not_found("destination", object_id)
        asked = data or EventTest()
        the_call().only_looked = asked.dry_run
        if asked.reveal:
            _note_reveal(services, stored.object)
        destination, now_ms = stored.object, services.store.now_ms()
        if asked.mapping is not None:
            destination = _with_mapping(services, destination, asked.mapping)
        source = asked.source or next(iter(destination.sources), "test")
        given = None if asked.event == NOT_GIVEN else asked.event
        record = await chosen_record(
            services, given, asked.message_id, asked.sample, source, now_ms, stored_of=asked.source
        )
        writer = RequestWriter(services.settings)
        with_secrets = asked.reveal or not asked.dry_run
        written, problems = writer.written(destination, record, now_ms, with_secrets=with_secrets)
        answers: Sequence[TrialAnswer] | None = None
        connection: ConnectionCheck | None = None
        if is_sink(destination.kind):
            connection = None if asked.dry_run else await checked(services, destination)
        elif not asked.dry_run:
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
            problems=problems,
            answers=answers,
            connection=connection,
        )


class ReceiverToCheck(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A webhook URL that is about to be saved."""

    url: Annotated[str, msgspec.Meta(min_length=1, max_length=2_000)]


class ReceiverCheck(msgspec.Struct, frozen=True, rename="camel"):
    """``code`` is that of the attempt that sending there would be; both are null when nothing is in the way."""

    code: str | None
    problem: str | None


@post("/receivers/check", status_code=200, needs="editor")
async def check_receiver(services: FromServices, data: JSONBody[ReceiverToCheck]) -> ReceiverCheck:
    """Check whether Hookline may send to a URL before you save it. The host name is resolved; nothing is sent."""
    the_call().only_looked = True
    room = test_room(services)
    if not room.acquire(blocking=False):
        raise Problem(429, "too_many_requests", "Too many tests are waiting for receivers; try again shortly.")
    try:
        parts = urlsplit(data.url)
        await Resolver(Guard(services.settings.deliver.allow_networks)).resolve(parts.hostname or "", parts.port or 443)
    except BlockedAddress as blocked:
        return ReceiverCheck(blocked.code, f"Hookline will refuse to send here: {blocked}. {ALLOW}")
    except NameNotResolved as unknown:
        return ReceiverCheck(unknown.code, f"This host has no address now ({unknown}). Check the spelling.")
    except ValueError:
        raise Problem(422, "invalid_object", "This is not a URL; write one like https://example.com/hook.") from None
    finally:
        room.release()
    return ReceiverCheck(None, None)


class ConnectionToCheck(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The ``id`` of a saved destination, and those of its ``settings`` that are to be tried instead of the saved ones
    (null removes one). For a destination that is not saved: its ``kind`` and all settings. Saved secrets are used only
    where all other settings are as saved."""

    id: Annotated[str, msgspec.Meta(max_length=64)] = ""
    kind: Annotated[str, msgspec.Meta(max_length=64)] = ""
    settings: dict[str, Any] = {}


@post("/destinations/check-connection", status_code=200, needs="editor")
async def check_connection(services: FromServices, data: JSONBody[ConnectionToCheck]) -> ConnectionCheck:
    """Check whether a destination of a kind without requests, such as `files` or `postgres`, can write where its
    settings say, saved or not. No event is written, and nothing is stored but who asked, in the audit log."""
    found = services.store.destination(data.id) if data.id else None
    stored = None if found is None or data.kind not in ("", found.object.kind) else found.object
    if stored is None and not data.kind:
        raise not_found("destination", data.id)
    fields: dict[str, Any] = {**UNNAMED, **({"id": data.id} if data.id else {}), "kind": data.kind}
    settings: dict[str, Any] = {}
    if stored is not None:
        fields = msgspec.to_builtins(redact(stored, keep=True))
        settings = fields["settings"]
    given = {name: value for name, value in {**settings, **data.settings}.items() if value is not None}
    try:
        wanted = msgspec.convert({**fields, "settings": given}, Destination)
    except msgspec.ValidationError as error:
        raise invalid_body(error) from None
    if not is_sink(wanted.kind):
        detail = "Destinations of this kind make requests. Send a test event: POST /api/v1/destinations/{id}/test."
        raise Problem(422, "makes_requests", detail, [FieldError("/kind", "makes requests")])
    answer = await checked(services, _savable(services, wanted, stored))
    target = f"destinations/{data.id}" if data.id else "destinations"
    the_call().changed(target, AuditChange(target, "checked", None, answer.place))
    return answer


def _with_mapping(services: Services, stored: Destination, mapping: Requests) -> Destination:
    """Return a stored destination with another mapping that is not saved, as it could be saved by the caller."""
    return _savable(services, replace(redact(stored, keep=True), mapping=mapping), stored)


def _savable(services: Services, wanted: Destination, stored: Destination | None) -> Destination:
    """Return a destination that is not saved with its secrets, those of the stored one where it says so.

    Raise Problem for one that the caller could not save: secrets stay with the hosts that have them.
    """
    found: list[FoundProblem] = []
    try:
        made = restore(wanted, stored)
        found += [*check_destination("", made), *check_plan("", made, services.settings.plan.level)]
        if not the_caller().may("owner"):
            text = "only an owner may have a referenced secret sent to another host"
            found += [FoundProblem("reference_needs_owner", path, text) for path in new_references(made, stored)]
    except NothingToKeep as error:
        made = wanted
        found.append(FoundProblem("nothing_to_keep", error.path, str(error)))
    if found:
        first = found[0]
        errors = [FieldError(pointer_of(each.path), each.message) for each in found]
        status = 403 if first.code == "reference_needs_owner" else 422
        raise Problem(status, first.code, f"{first}.", errors)
    return made


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
        filters = Filters(*rules_of(destination))
    except ExpressionError as error:  # stored before the language was what it is
        return Routing(False, str(error), None, ())
    decision = filters.decide(record)
    stopped = None if decision.stopped_by is None else filters.rule(decision.stopped_by)
    if stopped is not None and record.type == UNFILTERED_TYPE:
        reason = no_delete_message(destination)
    edited = [filters.rule(index) for index in filters.edited_by(record)]
    return Routing(reason is None and stopped is None, reason, stopped, edited)
