"""``/api/v1/issues``: failures gathered by destination and cause; retry all of one, ignore it, write a note."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from litestar import Controller, get, post
from litestar.params import JSONBody, QueryParameter

from hookline.api.audit.log import AuditChange
from hookline.api.calls import current_author, list_thread, note_unchanged, the_call
from hookline.api.handlers import FromServices
from hookline.api.listing import After, Id, Limit, Listing, OfDestination
from hookline.api.problem import Problem, not_found
from hookline.api.services import Services, deliver_reader, list_reader
from hookline.features.dead_letters.api import begin_retries
from hookline.features.events.attempt_search import last_ending
from hookline.features.issues.service import (
    IssueDetail,
    IssueView,
    detail_of,
    issue_store,
    issue_watch,
    letters_of,
    open_replay,
    retrying_of,
    views_of,
)
from hookline.features.issues.store import NOTE_CHARACTERS_MAX, Issue, IssueState
from hookline.features.replays.service import ReplayView, ask_deliver, view_of
from hookline.replays.model import Rate, ReplayRequest

CURSOR_DIGITS_MAX = 18
ID_CHARACTERS = 16


class IssueRetry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """With `dryRun` nothing is sent, only counted. `rate` is the most events per second for the dead letters."""

    dry_run: bool = False
    rate: Rate | None = None


class IssueRetried(msgspec.Struct, frozen=True, rename="camel"):
    """The events that are sent again: `deadLetters` of the issue by a replay, and `retrying` events of its destination,
    which are tried now. `replay` is null for a dry run and if there are no dead letters."""

    dead_letters: int
    retrying: int
    replay: ReplayView | None


class IssueIgnore(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`ignored` false opens the issue again."""

    ignored: bool = True


class IssueNote(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An empty note removes it."""

    note: Annotated[str, msgspec.Meta(max_length=NOTE_CHARACTERS_MAX)]


class Issues(Controller):
    """Control opens and resolves them, from what deliver writes down."""

    path = "/issues"

    @get(needs="viewer")
    async def list_issues(
        self,
        services: FromServices,
        limit: Limit = 50,
        after: After = None,
        destination: OfDestination = None,
        state_: Annotated[
            IssueState | None,
            QueryParameter(name="state", description="Only issues that are open, ignored, or resolved."),
        ] = None,
    ) -> Listing[IssueView]:
        """List the issues, last seen first."""
        before = None if after is None else _cursor(after)

        def look() -> tuple[list[Issue], list[IssueView]]:
            found = issue_store(services).newest(limit + 1, before, state_, destination)
            return found, views_of(services, found[:limit])

        found, page = await list_thread(services).run(look)
        return Listing(page, cursor_of(found[limit - 1]) if len(found) > limit else None)

    @get("/{id:str}", needs="viewer")
    async def get_issue(self, services: FromServices, issue_id: Id) -> IssueDetail:
        """Return one issue with an example, its last five days, and what to do next."""
        return await detail_of(services, await _issue(services, issue_id))

    @post("/{id:str}/retry", status_code=200, needs="editor")
    async def retry_issue(
        self, services: FromServices, issue_id: Id, data: JSONBody[IssueRetry | None] = None
    ) -> IssueRetried:
        """Send all dead letters of an issue again as one replay, and try its waiting retries now."""
        asked, issue = data or IssueRetry(), await _issue(services, issue_id)
        last_id = deliver_reader(services).dead_letters.last_id()
        wanted = msgspec.structs.replace(letters_of(services, issue), last_id=last_id)
        letters, retrying = await list_thread(services).run(
            lambda: (
                sum(list_reader(services).dead_letters.count(wanted).values()),
                retrying_of(services, issue),
            )
        )
        if asked.dry_run:
            the_call().only_looked = True
            return IssueRetried(letters, retrying, None)
        if not letters and not retrying:
            detail = f"This issue has no dead letters, and no event of {issue.destination} waits for a retry."
            ending = await last_ending(services, issue.destination)
            raise Problem(409, "nothing_to_retry", f"{detail} {ending}".rstrip())
        if letters and (running := open_replay(services, issue)) is not None:
            detail = (
                f"Replay {running.id} sends the dead letters of issue {issue.id} already; wait for it or cancel it."
            )
            raise Problem(409, "already_retried", detail)
        stored = services.store.destination(issue.destination)
        if retrying and stored is not None and stored.lane is not None:
            lane = stored.lane.number  # tried first: where this is refused, no replay has begun
            ask_deliver(services, lambda store: store.try_lane(lane, current_author()))
            _changed(issue, "tried", None, retrying)
        replay = None
        if letters:
            request = ReplayRequest(destination=issue.destination, rate=asked.rate, dead_letters=wanted)
            (made,) = await begin_retries(services, [request])
            replay = view_of(services, made)
            _changed(issue, "retried", None, letters)
        return IssueRetried(letters, retrying, replay)

    @post("/{id:str}/ignore", status_code=200, needs="editor")
    async def ignore_issue(
        self, services: FromServices, issue_id: Id, data: JSONBody[IssueIgnore | None] = None
    ) -> IssueDetail:
        """Ignore an issue until a person opens it again. Hookline keeps counting it."""
        ignored, before = (data or IssueIgnore()).ignored, await _issue(services, issue_id)
        now_ms, author = services.store.now_ms(), current_author()
        issue = await asyncio.to_thread(issue_store(services).ignore, issue_id, ignored, author, now_ms)
        if issue is None:
            raise not_found("issue", issue_id)
        if issue.state != before.state:
            _changed(issue, "state", before.state, issue.state)
            await asyncio.to_thread(issue_watch(services).count_open)
        else:
            note_unchanged()
        return await detail_of(services, issue)

    @post("/{id:str}/note", status_code=200, needs="editor")
    async def note_issue(self, services: FromServices, issue_id: Id, data: JSONBody[IssueNote]) -> IssueDetail:
        """Write a note for teammates. It replaces the earlier one."""
        before, now_ms = await _issue(services, issue_id), services.store.now_ms()
        issue = await asyncio.to_thread(
            issue_store(services).note, issue_id, data.note.strip(), current_author(), now_ms
        )
        if issue is None:
            raise not_found("issue", issue_id)
        if issue.note != before.note:
            _changed(issue, "note", before.note, issue.note)
        else:
            note_unchanged()
        return await detail_of(services, issue)


def cursor_of(issue: Issue) -> str:
    """Return the place of an issue in a list."""
    return f"{issue.last_seen}-{issue.id}"


def parse_cursor(after: str) -> tuple[int, str] | None:
    """Return the place that ``cursor_of`` wrote; None for anything else."""
    at, _, id = after.partition("-")
    good = at.isascii() and at.isdecimal() and len(at) <= CURSOR_DIGITS_MAX and len(id) == ID_CHARACTERS
    return (int(at), id) if good else None


def _cursor(after: str) -> tuple[int, str]:
    place = parse_cursor(after)
    if place is None:
        raise Problem(400, "invalid_parameter", "Use the value of `after` exactly as the last answer gave it.")
    return place


async def _issue(services: Services, id: str) -> Issue:
    found = await asyncio.to_thread(issue_store(services).get, id) if len(id) == ID_CHARACTERS else None
    if found is None:
        raise not_found("issue", id)
    return found


def _changed(issue: Issue, what: str, before: object, after: object) -> None:
    target = f"issues/{issue.id}"
    the_call().changed(target, AuditChange(target, what, before, after))
