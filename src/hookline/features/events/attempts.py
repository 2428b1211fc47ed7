"""``/api/v1/destinations/{id}/attempts``: every request to a destination, newest first, and each as it was sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from litestar import Controller, get, post
from litestar.params import JSONBody, PathParameter, QueryParameter

from hookline.api.calls import current_author
from hookline.api.listing import TIME, After, Id, Limit, Listing, milliseconds
from hookline.api.problem import Problem, not_found
from hookline.api.services import FromServices, Services
from hookline.connections.old_secrets import is_removed
from hookline.features.dead_letters.service import dead_letter_log
from hookline.features.destinations.service import destination_past
from hookline.features.destinations.tester.request_writer import RequestWriter
from hookline.features.destinations.tester.shown_request import Header, ShownRequest, shown, without_signatures
from hookline.features.events.attempt_search import AttemptSearch, ShownAttempt
from hookline.features.events.service import attempt_log, event_log
from hookline.features.replays.service import replay_store
from hookline.outcomes.attempt_key import Key, attempt_key
from hookline.outcomes.attempt_log import AttemptFilter, LoggedAttempt
from hookline.outcomes.outcome import Outcome
from hookline.replays.dead_letters import RetryPlace

NEWEST: Key = (1 << 62, 0, 0, 0, 0)


class Answer(msgspec.Struct, frozen=True, rename="camel"):
    """What the receiver answered to a request that failed: the beginning of its head and of its body."""

    http_status: int
    headers: Sequence[Header]
    body: str


class AttemptDetail(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One attempt with its request, rendered again as it was sent then, and with the answer if it failed.

    ``request`` is null with a ``note`` when the event or the settings of then are no longer there, and without its
    signatures when the secrets of then were removed.
    """

    attempt: ShownAttempt
    request: ShownRequest | None
    note: str | None
    answer: Answer | None


class RetryNow(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Which event is to be tried again at once."""

    message_id: Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]
    source: Annotated[str, msgspec.Meta(max_length=64)] | None = None


class RetryAsked(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many waiting deliveries of the event are tried at once: one, and one for each replay of it that waits."""

    destination: str
    message_id: str
    asked: int


class Attempts(Controller):
    """Reading, but for the wish to try again; deliver writes."""

    path = "/destinations/{id:str}"

    @get("/attempts", needs="viewer")
    async def list_attempts(
        self,
        services: FromServices,
        object_id: Id,
        limit: Limit = 50,
        after: After = None,
        outcome: Annotated[Outcome | None, QueryParameter(description="Only attempts that ended so.")] = None,
        http_status: Annotated[
            int | None, QueryParameter(name="httpStatus", ge=100, le=599, description="Only attempts answered so.")
        ] = None,
        url: Annotated[str | None, QueryParameter(max_length=2_048, description="Only attempts at this URL.")] = None,
        from_: Annotated[
            str | None,
            QueryParameter(
                name="from",
                max_length=100,
                description="Only attempts that began at or after this time.",
                schema_extra=TIME,
            ),
        ] = None,
        to: Annotated[
            str | None,
            QueryParameter(max_length=100, description="Only attempts that began before this time.", schema_extra=TIME),
        ] = None,
    ) -> Listing[ShownAttempt]:
        """List the newest requests to a destination. A page may be short when the search took long; `after` goes on."""
        search = _search(services, object_id)
        wanted = AttemptFilter(outcome, http_status, milliseconds("from", from_), milliseconds("to", to))
        page = await event_log(services).run(lambda: search.page(wanted, url, limit, _cursor(after)))
        return Listing(page.attempts, page.after)

    @get("/attempts/{attempt:str}", needs="viewer")
    async def get_attempt(
        self, services: FromServices, object_id: Id, attempt_id: Annotated[str, PathParameter(name="attempt")]
    ) -> AttemptDetail:
        """Return one attempt: the request as it was sent, and what was kept of the answer if it failed."""
        search, key = _search(services, object_id), attempt_key(attempt_id)
        found = await event_log(services).run(lambda: search.get(key)) if key is not None else None
        if found is None:
            raise not_found("attempt", attempt_id)
        request, note = await event_log(services).run(lambda: _request(services, object_id, search, found))
        shown_attempt = await event_log(services).run(lambda: search.shown(found))
        return AttemptDetail(attempt=shown_attempt, request=request, note=note, answer=_answer(found))

    @post("/retry-now", status_code=202, needs="editor")
    async def retry_now(self, services: FromServices, object_id: Id, data: JSONBody[RetryNow]) -> RetryAsked:
        """Try an event that waits for another attempt at once; deliver does it within a moment."""
        search = _search(services, object_id)
        found = await event_log(services).find(data.message_id, data.source)
        places: list[RetryPlace] = []
        if found is not None:
            places = dead_letter_log(services).retries(found.partition, found.offset, search.lanes)
        if not places:
            detail = f"{data.message_id[:100]!r} does not wait for another attempt at {object_id}."
            raise Problem(409, "not_retrying", detail)
        for place in places:
            replay_store(services).retry_now(place, current_author())
        return RetryAsked(destination=object_id, message_id=data.message_id, asked=len(places))


def _search(services: Services, object_id: str) -> AttemptSearch:
    stored = services.store.destination(object_id)
    if stored is None:
        raise not_found("destination", object_id)
    return AttemptSearch(attempt_log(services), destination_past(services), event_log(services), object_id)


def _cursor(after: str | None) -> Key:
    if after is None:
        return NEWEST
    key = attempt_key(after)
    if key is None:
        raise Problem(400, "invalid_parameter", "Use the value of `after` exactly as the last answer gave it.")
    return key


def _request(
    services: Services, object_id: str, search: AttemptSearch, found: LoggedAttempt
) -> tuple[ShownRequest | None, str | None]:
    destination = destination_past(services).at(object_id, found.at_ms, found.lane)
    record = search.record(found)
    if record is None or record.erased:
        return None, "the event is no longer stored"
    if destination is None:
        return None, "the destination's settings of then are not known"
    try:
        replay = search.lanes.get(found.lane)
        written = RequestWriter(services.settings).requests(destination, record, found.at_ms, replay)
    except Problem as problem:
        return None, problem.detail
    url = search.url(found)
    mine = next((each for each in written if each.url == url), None)
    if mine is None:
        return None, "the URL was not among the destination's settings of then"
    request = shown(mine, destination, reveal=False)
    if is_removed(destination):
        return without_signatures(request), "its secrets of then are no longer kept, so its signatures are not shown"
    return request, None


def _answer(found: LoggedAttempt) -> Answer | None:
    if found.http_status is None or found.head is None:
        return None
    _, *lines = found.head.split("\r\n")
    headers = [Header(name, value.strip()) for name, _, value in (line.partition(":") for line in lines if line)]
    return Answer(found.http_status, headers, found.error or "")
