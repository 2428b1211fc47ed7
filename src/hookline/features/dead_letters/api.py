"""``/api/v1/dead-letters``: the events that a destination did not get; look at them, retry or discard them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import msgspec
from litestar import Controller, get, post
from litestar.params import JSONBody, QueryParameter
from litestar.response import Stream

from hookline.api.audit.log import AuditChange
from hookline.api.calls import current_author, list_thread, note_unchanged, the_call
from hookline.api.export import Format, export
from hookline.api.handlers import FromServices
from hookline.api.listing import (
    TIME,
    After,
    Id,
    Limit,
    Listing,
    OfDestination,
    OfEvent,
    OfSource,
    OfType,
    milliseconds,
    number_after,
)
from hookline.api.problem import Problem, not_found
from hookline.api.services import Services, deliver_reader, list_reader, part
from hookline.features.dead_letters.service import DeadLetter, dead_letter_of
from hookline.features.events.service import event_log
from hookline.features.replays.api import begin_all
from hookline.features.replays.service import ReplayView, ask_deliver, replay_store, view_of
from hookline.outcomes.delivery import Attempt
from hookline.replays.dead_letters import DeadLetterFilter, Ids, Text
from hookline.replays.model import Moment, Rate, Replay, ReplayRequest, replay_id

DISCARD_SECONDS = 2.0
"""How long the answer to a discard waits for deliver to carry it out."""
POLL_SECONDS = 0.05
RETRIED_DESTINATIONS_MAX = 50


OfOutcome = Annotated[
    str | None, QueryParameter(max_length=1_000, description="Only those whose last attempt had this outcome.")
]
OfHttpStatus = Annotated[
    int | None,
    QueryParameter(name="httpStatus", ge=100, le=599, description="Only those whose last answer had this status."),
]
OfStatus = Annotated[str | None, QueryParameter(max_length=1_000, description="`failed`, `expired` or `discarded`.")]
Since = Annotated[
    str | None,
    QueryParameter(
        name="from", max_length=64, description="Only those that failed at or after this time.", schema_extra=TIME
    ),
]
Until = Annotated[
    str | None,
    QueryParameter(name="to", max_length=64, description="Only those that failed before this time.", schema_extra=TIME),
]


class DeadLetterSelection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A selection of dead letters. A field that is not given does not restrict it, except that discarded ones are
    selected only with that ``status``. ``from`` and ``to`` are times of failure. With ``lastId`` those with a higher id
    are left out: what was listed is then all that is acted on, whatever fails meanwhile. ``rate`` (events per second)
    applies to a retry."""

    destination: Text | None = None
    source: Text | None = None
    type: Text | None = None
    event: Text | None = None
    outcome: Text | None = None
    http_status: Annotated[int, msgspec.Meta(ge=100, le=599)] | None = msgspec.field(default=None, name="httpStatus")
    status: Literal["failed", "expired", "discarded"] | None = None
    since: Moment | None = msgspec.field(default=None, name="from")
    until: Moment | None = msgspec.field(default=None, name="to")
    ids: Ids | None = None
    last_id: Annotated[int, msgspec.Meta(ge=0)] | None = msgspec.field(default=None, name="lastId")
    rate: Rate | None = None


class DeadLetterDetail(DeadLetter, frozen=True, kw_only=True, rename="camel"):
    """A dead letter with all attempts and the event as it was received (null if it is no longer stored)."""

    payload: Any = None
    history: tuple[Attempt, ...] = ()


class Discarded(msgspec.Struct, frozen=True):
    """``discarded`` is null if the deliver process is not running; it then happens when it runs again."""

    matched: int
    discarded: int | None


class DeadLetters(Controller):
    """Deliver writes them; a retry is a replay of their events."""

    path = "/dead-letters"

    @get(needs="viewer")
    async def list_dead_letters(
        self,
        services: FromServices,
        limit: Limit = 50,
        after: After = None,
        destination: OfDestination = None,
        source: OfSource = None,
        type_: OfType = None,
        event: OfEvent = None,
        outcome: OfOutcome = None,
        http_status: OfHttpStatus = None,
        status: OfStatus = None,
        since: Since = None,
        until: Until = None,
    ) -> Listing[DeadLetter]:
        """List the matching dead letters, newest first. Discarded ones are included only with `status=discarded`."""
        wanted = _wanted(destination, source, type_, event, outcome, http_status, status, since, until)
        return await list_thread(services).run(_listed, services, wanted, limit, after)

    @get("/export", needs="viewer", media_type="text/csv")
    async def export_dead_letters(
        self,
        services: FromServices,
        format_: Format = "csv",
        destination: OfDestination = None,
        source: OfSource = None,
        type_: OfType = None,
        event: OfEvent = None,
        outcome: OfOutcome = None,
        http_status: OfHttpStatus = None,
        status: OfStatus = None,
        since: Since = None,
        until: Until = None,
    ) -> Stream:
        """Return the matching dead letters as a CSV or JSON file, newest first."""
        wanted = _wanted(destination, source, type_, event, outcome, http_status, status, since, until)

        async def page(limit: int, after: str | None) -> Listing[DeadLetter]:
            return await list_thread(services).run(_listed, services, wanted, limit, after)

        return export(format_, "dead-letters", DeadLetter.__struct_encode_fields__, msgspec.to_builtins, page)

    @get("/{id:str}", needs="viewer")
    async def get_dead_letter(self, services: FromServices, dead_letter_id: Id) -> DeadLetterDetail:
        """Return one dead letter with its event, all attempts and the receiver's last answer."""
        letter = _letter(services, dead_letter_id)
        found = await event_log(services).events_at([(letter.partition, letter.offset)])
        statuses = found[0].status.destinations if found else ()
        return DeadLetterDetail(
            **msgspec.structs.asdict(letter),
            payload=found[0].status.event if found else None,
            history=next((each.attempts for each in statuses if each.id == letter.destination), ()),
        )

    @post("/{id:str}/retry", status_code=201, needs="editor")
    async def retry_dead_letter(self, services: FromServices, dead_letter_id: Id) -> ReplayView:
        """Send one dead letter again, as a replay of one event."""
        letter = _letter(services, dead_letter_id)
        wanted = DeadLetterFilter(destination=letter.destination, ids=(letter.id,), status=letter.status)
        (made,) = await begin_retries(services, [ReplayRequest(destination=letter.destination, dead_letters=wanted)])
        return view_of(services, made)

    @post("/{id:str}/discard", status_code=200, needs="editor")
    async def discard_dead_letter(self, services: FromServices, dead_letter_id: Id) -> Discarded:
        """Discard one dead letter: its status becomes `discarded`."""
        letter = _letter(services, dead_letter_id)
        return await _discard(services, DeadLetterFilter(ids=(letter.id,)))

    @post("/retry", status_code=200, needs="editor")
    async def retry_dead_letters(
        self, services: FromServices, data: JSONBody[DeadLetterSelection]
    ) -> Listing[ReplayView]:
        """Send all matching dead letters again, with one replay per destination: to all of them, or to none if one is
        refused. Deleted destinations are left out unless one is named, and so are destinations whose dead letters are
        all being sent by a replay already."""
        wanted = _filter(services, data)
        counted = sorted(await list_thread(services).run(list_reader(services).dead_letters.count, wanted))
        destinations = [each for each in counted if wanted.destination is not None or services.store.destination(each)]
        if len(destinations) > RETRIED_DESTINATIONS_MAX:
            detail = f"They belong to {len(destinations)} destinations; name one of them."
            raise Problem(409, "too_many_replays", detail)
        requests = [
            ReplayRequest(
                destination=each, rate=data.rate, dead_letters=msgspec.structs.replace(wanted, destination=each)
            )
            for each in destinations
        ]
        note_unchanged()  # but for the replays that begin
        return Listing([view_of(services, each) for each in await begin_retries(services, requests)])

    @post("/discard", status_code=200, needs="editor")
    async def discard_dead_letters(self, services: FromServices, data: JSONBody[DeadLetterSelection]) -> Discarded:
        """Discard all matching dead letters."""
        return await _discard(services, _filter(services, data))


@part
def _retry_turn(services: Services) -> asyncio.Lock:
    """Return what keeps two who retry in the same moment from beginning a replay each."""
    return asyncio.Lock()


async def begin_retries(services: Services, requests: Sequence[ReplayRequest]) -> list[Replay]:
    """Begin the replays of dead letters that no open replay sends already; raise Problem where nothing else is asked
    for, or one of the others cannot be."""
    async with _retry_turn(services):
        sent = [await list_thread(services).run(_sender_of_all, services, each) for each in requests]
        left = [request for request, replay in zip(requests, sent, strict=True) if replay is None]
        if not left and (under_way := sorted({each.lane for each in sent if each is not None})):
            named = " and ".join(f"replay {replay_id(lane)}" for lane in under_way)
            detail = f"All of these dead letters are already being sent by {named}; wait for it, or cancel it."
            raise Problem(409, "already_retried", detail)
        return await begin_all(services, left)


def _sender_of_all(services: Services, request: ReplayRequest) -> Replay | None:
    """Return an open replay that sends every dead letter that a request asks for; None where there is none. Those that
    it could not deliver are no longer among them: each failure is a dead letter of its own."""
    assert request.dead_letters is not None
    letters, matched = list_reader(services).dead_letters, -1
    for replay in replay_store(services).open_ones():
        asked = replay.request.dead_letters
        if asked is None or replay.state == "cancelled" or replay.request.destination != request.destination:
            continue
        both = _in_both(asked, request.dead_letters)
        if both is not None:
            matched = sum(letters.count(request.dead_letters).values()) if matched < 0 else matched
            if matched and sum(letters.count(both).values()) == matched:
                return replay
    return None


_JOINED: dict[str, Callable[[Any, Any], Any]] = {
    "since_ms": max,
    "until_ms": min,
    "last_id": min,
    "ids": lambda one, other: tuple(set(one) & set(other)) or None,
    "other_causes": lambda one, other: tuple({*one, *other}),
}
"""Joins a field that both of two filters restrict; of all other fields both must say the same."""


def _in_both(first: DeadLetterFilter, second: DeadLetterFilter) -> DeadLetterFilter | None:
    """Return what two filters ask for both; None where they have nothing in common."""
    if first.status != second.status and "discarded" in (first.status, second.status):
        return None  # a filter without a status does not ask for these
    fields: dict[str, Any] = {}
    for name in DeadLetterFilter.__struct_fields__:
        given = [each for each in (getattr(first, name), getattr(second, name)) if each is not None]
        if len(given) == 2 and name in _JOINED:
            given = [_JOINED[name](*given)]
        if given and (given[0] is None or given[-1] != given[0]):
            return None
        fields[name] = given[0] if given else None
    return DeadLetterFilter(**fields)


def _wanted(
    destination: str | None,
    source: str | None,
    type: str | None,
    event: str | None,
    outcome: str | None,
    http_status: int | None,
    status: str | None,
    since: str | None,
    until: str | None,
) -> DeadLetterFilter:
    return DeadLetterFilter(
        destination=destination,
        source=source,
        type=type,
        event=event,
        outcome=outcome,
        http_status=http_status,
        status=status,
        since_ms=milliseconds("from", since),
        until_ms=milliseconds("to", until),
    )


def _listed(services: Services, wanted: DeadLetterFilter, limit: int, after: str | None) -> Listing[DeadLetter]:
    letters = list_reader(services).dead_letters.newest(limit + 1, number_after(after), wanted)
    page = [dead_letter_of(each) for each in letters[:limit]]
    return Listing(page, str(page[-1].id) if len(letters) > limit else None)


async def _discard(services: Services, wanted: DeadLetterFilter) -> Discarded:
    matched = sum((await list_thread(services).run(list_reader(services).dead_letters.count, wanted)).values())
    if not matched:
        note_unchanged()
        return Discarded(0, 0)
    action = ask_deliver(services, lambda store: store.discard(wanted, current_author()))
    target = f"dead-letters/{wanted.ids[0]}" if wanted.ids and len(wanted.ids) == 1 else "dead-letters"
    the_call().changed(target, AuditChange(target, "discarded", None, matched))
    for _ in range(int(DISCARD_SECONDS / POLL_SECONDS)):
        done = deliver_reader(services).dead_letters.discarded_by(action)
        if done is not None:
            return Discarded(matched, done)
        await asyncio.sleep(POLL_SECONDS)
    return Discarded(matched, None)


def _filter(services: Services, selection: DeadLetterSelection) -> DeadLetterFilter:
    """Return the selection among the letters that are there now, not those that come while it is carried out."""
    newest = deliver_reader(services).dead_letters.last_id()
    return DeadLetterFilter(
        destination=selection.destination,
        source=selection.source,
        type=selection.type,
        event=selection.event,
        outcome=selection.outcome,
        http_status=selection.http_status,
        status=selection.status,
        since_ms=None if selection.since is None else int(selection.since.timestamp() * 1000),
        until_ms=None if selection.until is None else int(selection.until.timestamp() * 1000),
        ids=selection.ids,
        last_id=newest if selection.last_id is None else min(newest, selection.last_id),
    )


def _letter(services: Services, dead_letter_id: str) -> DeadLetter:
    found = (
        deliver_reader(services).dead_letters.get(int(dead_letter_id))
        if dead_letter_id.isdecimal() and len(dead_letter_id) < 19
        else None
    )
    if found is None:
        raise not_found("dead letter", dead_letter_id)
    return dead_letter_of(found)
