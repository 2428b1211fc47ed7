"""``POST /api/v1/destinations/preview``: the requests that an event would become at a destination that is not saved.

Nothing is sent or stored, and no secret is needed: where one would stand, the request shows its mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from litestar import post
from litestar.params import JSONBody

from hookline.api.calls import the_call
from hookline.api.handlers import FromServices
from hookline.api.problem import FieldError, Problem, invalid_body, pointer_of
from hookline.api.services import Services
from hookline.connections.check import check_destination, check_plan
from hookline.connections.kinds import no_delete_message
from hookline.connections.model import TOO_DEEP, Destination, is_too_deep, is_webhook
from hookline.connections.secrets import NothingToKeep, restore
from hookline.expressions.lexer import ExpressionError
from hookline.features.destinations.tester.chosen_event import SampleType, chosen_record
from hookline.features.destinations.tester.request_writer import (
    RequestWriter,
    ShownRequest,
    Written,
    shown,
    without_signatures,
)
from hookline.features.events.log import EventFilter, event_name
from hookline.features.events.service import event_log
from hookline.journal.record import Record
from hookline.kinds.catalog import published_name
from hookline.route.decision import refusal
from hookline.route.filters import UNFILTERED_TYPE, Filters, rules_of

NOT_GIVEN = msgspec.Raw(b"null")
EVENTS_LOOKED_AT = 20
"""For one that was not rejected."""
SEARCH_SECONDS_MAX = 0.1
UNNAMED = {"id": "unsaved", "name": "Unsaved"}
"""What a form may not have asked for yet."""


class Preview(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A destination as it would be saved (masked secrets stand for those of the stored one of its id), and the event:
    an ``event`` as an SDK sends it, the ``messageId`` of a stored one, or a ``sample``. Without any it is the newest
    stored event of ``source``, by default the destination's first, and a sample where there is none."""

    destination: dict[str, Any]
    event: msgspec.Raw = msgspec.field(default_factory=lambda: NOT_GIVEN)
    message_id: Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)] | None = None
    sample: SampleType | None = None
    source: Annotated[str, msgspec.Meta(max_length=64)] | None = None


class PreviewedEvent(msgspec.Struct, frozen=True, rename="camel"):
    """The event that was taken; ``isStored`` is false for one that was given, and for a sample."""

    message_id: str
    source: str
    type: str
    name: str | None
    is_stored: bool


class PreviewReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The exact requests, secrets masked; ``problems`` are why there are none or fewer, each with its place in the
    destination. ``stoppedBy``: the filter, the event's own choice, or the mapping, by which it would not be sent."""

    event: PreviewedEvent
    requests: Sequence[ShownRequest]
    problems: Sequence[FieldError]
    stopped_by: str | None


@post("/destinations/preview", status_code=200, needs="editor")
async def preview_destination(services: FromServices, data: JSONBody[Preview]) -> PreviewReport:
    """Show the requests that an event would become at a destination as it would be saved; nothing is sent or stored."""
    the_call().only_looked = True
    if is_too_deep(data.destination.get("settings")):
        raise Problem(422, "invalid_object", f"{TOO_DEEP}.", [FieldError("/destination/settings", TOO_DEEP)])
    record, is_stored = await _record(services, data)
    event = PreviewedEvent(record.message_id, record.source, record.type, event_name(record) or None, is_stored)
    try:
        wanted = msgspec.convert({**UNNAMED, **data.destination}, Destination)
    except msgspec.ValidationError as error:
        return PreviewReport(event=event, requests=(), problems=invalid_body(error).errors, stopped_by=None)
    destination, problems = _restored(services, wanted)
    problems += _problems(services, destination)
    if problems and (is_webhook(destination.kind) or any(each.pointer.startswith("/mapping") for each in problems)):
        return PreviewReport(event=event, requests=(), problems=problems, stopped_by=None)
    try:
        written = _written(services, destination, record)
        stopped_by = _stopping(destination, record)
    except Problem as problem:
        return PreviewReport(event=event, requests=(), problems=[FieldError("", problem.detail)], stopped_by=None)
    except ValueError as error:  # what is missing in the settings was said
        problems = problems or [FieldError("", f"{error}.")]
        return PreviewReport(event=event, requests=(), problems=problems, stopped_by=None)
    return PreviewReport(
        event=event,
        requests=[without_signatures(shown(each, destination, reveal=False)) for each in written.requests],
        problems=[*problems, *written.problems],
        stopped_by=stopped_by,
    )


async def _record(services: Services, data: Preview) -> tuple[Record, bool]:
    event = None if data.event == NOT_GIVEN else data.event
    sources = data.destination.get("sources")
    source = data.source or (sources[0] if isinstance(sources, list) and sources else None)
    source = source if isinstance(source, str) else None
    if event is None and data.message_id is None and data.sample is None and source is not None:
        filter = EventFilter(source=source)
        page = await event_log(services).newest(filter, EVENTS_LOOKED_AT, None, SEARCH_SECONDS_MAX)
        records = (each.record for each in page.events)
        # No delete message: most mappings say nothing of one, and nobody sent it.
        found = next((each for each in records if each.origin == "sdk" and not (each.rejection or each.erased)), None)
        if found is not None:
            return found, True
    now_ms = services.store.now_ms()
    record = await chosen_record(services, event, data.message_id, data.sample, source or "test", now_ms, data.source)
    return record, data.message_id is not None


def _restored(services: Services, wanted: Destination) -> tuple[Destination, list[FieldError]]:
    stored = services.store.destination(wanted.id)
    try:
        return restore(wanted, None if stored is None else stored.object), []
    except NothingToKeep as error:
        return wanted, [FieldError(pointer_of(error.path), str(error))]


def _problems(services: Services, destination: Destination) -> list[FieldError]:
    found = [*check_destination("", destination), *check_plan("", destination, services.settings.plan.level)]
    return [FieldError(pointer_of(each.path), each.message) for each in found]


def _written(services: Services, destination: Destination, record: Record) -> Written:
    writer = RequestWriter(services.settings)
    if is_webhook(destination.kind):
        return writer.written(destination, record, services.store.now_ms())
    return writer.shown_only(destination, record)


def _stopping(destination: Destination, record: Record) -> str | None:
    reason = refusal(record.selection, published_name(destination.kind))
    if reason is not None:
        return reason
    try:
        filters = Filters(*rules_of(destination))
    except ExpressionError as error:
        return str(error)
    index = filters.decide(record).stopped_by
    if index is None:
        return None
    return no_delete_message(destination) if record.type == UNFILTERED_TYPE else filters.rule(index)
