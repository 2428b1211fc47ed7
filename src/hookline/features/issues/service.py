"""Show issues in the words people use, with an example, what is left to retry, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from hookline.api.services import COUNTED_MAX, Services, deliver_reader, list_reader, part
from hookline.database.location import location_of
from hookline.events.timestamps import iso
from hookline.features.events.log import event_name
from hookline.features.events.service import event_log
from hookline.features.fleet.service import own_metrics
from hookline.features.insights.service import series_log
from hookline.features.issues.store import Because, Issue, IssueState, IssueStore, issue_id
from hookline.features.issues.watch import IssueWatch
from hookline.features.replays.service import replay_store
from hookline.outcomes.cause import cause_of
from hookline.outcomes.outcome import FINAL, Outcome, advice_on
from hookline.outcomes.reader import DeliverReader
from hookline.outcomes.rows import SavedAttempt, SavedDeadLetter
from hookline.replays.dead_letters import DeadLetterFilter
from hookline.replays.model import Replay

OTHER_ANSWERS = "many different answers"
NO_TEXT = "the text is no longer stored"

_WORDS: dict[str, str] = {
    Outcome.REFUSED: "Refusing",
    Outcome.SERVER_ERROR: "Erroring",
    Outcome.THROTTLED: "Throttling",
    Outcome.TIMED_OUT: "Timing out",
    Outcome.CONNECTION_FAILED: "Unreachable",
    Outcome.NAME_NOT_RESOLVED: "Name not resolved",
    Outcome.TLS_REFUSED: "TLS failing",
    Outcome.BLOCKED_ADDRESS: "Blocked address",
    Outcome.BAD_RESPONSE: "Invalid answer",
}


class IssueView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The failures of one cause at one destination. ``title`` is the cause in words and ``message`` what the receiver
    said of it, where what differs from event to event is ``…``. ``attempts`` and ``events`` count all failures, or with
    ``atLeast`` at least those; ``attemptsSince`` those since it was opened last, or since it was ignored.
    ``deadLetters`` are there now: in lists they are counted up to 1,000."""

    id: str
    destination: str
    outcome: str
    http_status: int | None
    title: str
    message: str | None
    state: IssueState
    first_seen_at: str
    last_seen_at: str
    opened_at: str
    times_opened: int
    attempts: int
    attempts_since: int
    events: int
    at_least: bool
    dead_letters: int
    resolved_at: str | None
    resolved_because: Because | None
    ignored_at: str | None
    ignored_by: str | None
    note: str | None
    note_by: str | None
    note_at: str | None


class IssueSample(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The newest stored attempt of an issue, without its event if that is no longer stored."""

    attempt: int
    at: str
    url: str
    answer: str | None
    message_id: str | None
    source: str | None
    type: str | None
    event: str | None


class IssueHour(msgspec.Struct, frozen=True):
    """The failed attempts of an hour; hours without one are left out."""

    at: str
    attempts: int


class IssueDetail(IssueView, frozen=True, kw_only=True, rename="camel"):
    """One issue with an example, its last five days by the hour, and what to do next. ``retrying`` counts all events of
    the destination that wait for a retry, 0 if the failures are final. ``replay`` is the replay that sends its dead
    letters now."""

    retrying: int
    sample: IssueSample | None
    hours: tuple[IssueHour, ...]
    next_step: str
    replay: str | None


def title_of(issue: Issue) -> str:
    """Return the cause in words."""
    words = _WORDS.get(issue.outcome, issue.outcome.replace("_", " ").capitalize())
    words += f" ({issue.http_status})" if issue.http_status is not None else ""
    said = OTHER_ANSWERS if issue.cause is None else NO_TEXT if issue.message is None else issue.message
    return f"{words}: {said}" if said else words


def next_step_of(issue: Issue, dead_letters: int, left_to_do: str) -> str:
    """Return what a person can do about it; ``left_to_do`` is about the events that have yet to arrive."""
    left = _counted(dead_letters)
    match issue.resolved_because:
        case "deleted":
            return "Nothing: the destination was deleted."
        case "disabled":
            return "The destination is disabled. Enable it" + (
                f", then retry {left}." if dead_letters else " to continue."
            )
        case "delivered" if dead_letters:
            return f"The cause is gone, but {left} did not arrive. Retry."
        case "delivered":
            return "Nothing: the cause is gone, and no event is missing. If it returns, the issue opens again."
    return f"{advice_on(issue.outcome, issue.http_status)} {left_to_do}".strip()


def _left_to_do(services: Services, issue: Issue, dead_letters: int, retrying: int, replay: Replay | None) -> str:
    """Return a sentence on the events that have yet to arrive, as they are now."""
    if replay is not None:
        return f"Replay {replay.id} is sending the dead letters."
    if dead_letters:
        waiting = "Hookline keeps retrying the events that wait. " if retrying else ""
        return f"{waiting}Once this is repaired, retry {_counted(dead_letters)}."
    if retrying:
        return "Hookline keeps retrying the events that wait."
    stored = services.store.destination(issue.destination)
    if stored is not None and stored.lane is not None and stored.lane.paused is not None:
        return "The destination is paused: its events are queued until you resume it."
    return "No event is left to retry."


def _counted(dead_letters: int) -> str:
    return "1 dead letter" if dead_letters == 1 else f"{dead_letters} dead letters"


def letters_of(services: Services, issue: Issue) -> DeadLetterFilter:
    """Return the filter for the dead letters of an issue."""
    if issue.cause is not None:
        return DeadLetterFilter(destination=issue.destination, cause=issue.cause)
    return DeadLetterFilter(
        destination=issue.destination,
        outcome=issue.outcome,
        http_status=issue.http_status,
        other_causes=issue_store(services).named_causes(issue),
    )


def view_of(services: Services, issue: Issue, counted_max: int | None = COUNTED_MAX) -> IssueView:
    """Show an issue; reads deliver's rows, so not on an event loop."""
    letters, wanted = list_reader(services).dead_letters, letters_of(services, issue)
    count = sum(letters.count(wanted).values()) if counted_max is None else letters.count_up_to(wanted, counted_max)
    return IssueView(
        id=issue.id,
        destination=issue.destination,
        outcome=issue.outcome,
        http_status=issue.http_status,
        title=title_of(issue),
        message=issue.message,
        state=issue.state,
        first_seen_at=iso(issue.first_seen),
        last_seen_at=iso(issue.last_seen),
        opened_at=iso(issue.opened_at),
        times_opened=issue.openings,
        attempts=issue.attempts,
        attempts_since=issue.attempts - issue.attempts_before,
        events=issue.events,
        at_least=bool(issue.at_least),
        dead_letters=count,
        resolved_at=_iso(issue.resolved_at),
        resolved_because=issue.resolved_because,
        ignored_at=_iso(issue.ignored_at),
        ignored_by=issue.ignored_by,
        note=issue.note,
        note_by=issue.note_by,
        note_at=_iso(issue.note_at),
    )


def views_of(services: Services, issues: Sequence[Issue]) -> list[IssueView]:
    """Show issues."""
    return [view_of(services, issue) for issue in issues]


class IssueLink(NamedTuple):
    """Say where an issue is found, and what it is called."""

    id: str
    title: str


def issue_of(services: Services, letter: SavedDeadLetter) -> IssueLink | None:
    """Return the issue that a dead letter belongs to; None where there is none of its own."""
    if letter.outcome is None:
        return None
    cause = cause_of(letter.outcome, letter.http_status, letter.error or "")
    issue = issue_store(services).get(issue_id(letter.destination, cause))
    return None if issue is None else IssueLink(issue.id, title_of(issue))


async def detail_of(services: Services, issue: Issue) -> IssueDetail:
    """Show one issue with everything known of it."""
    return await event_log(services).run(lambda: _detail(services, issue))


def _detail(services: Services, issue: Issue) -> IssueDetail:
    view = view_of(services, issue, None)
    hours = sorted(issue_store(services).hours(issue.id).items())
    replay, retrying = open_replay(services, issue), retrying_of(services, issue)
    left_to_do = _left_to_do(services, issue, view.dead_letters, retrying, replay)
    return IssueDetail(
        **msgspec.structs.asdict(view),
        retrying=retrying,
        sample=_sample(services, issue),
        hours=tuple(IssueHour(iso(at), attempts) for at, attempts in hours),
        next_step=next_step_of(issue, view.dead_letters, left_to_do),
        replay=None if replay is None else replay.id,
    )


def retrying_of(services: Services, issue: Issue) -> int:
    """Return how many events of the destination wait for another attempt.

    None while nothing may be sent, for failures that are not tried again, and for what is over: the others wait for
    something else.
    """
    if issue.outcome in FINAL or issue.state == "resolved":
        return 0
    stored = services.store.destination(issue.destination)
    if stored is None or stored.lane is None or stored.lane.paused is not None:
        return 0
    return deliver_reader(services).retry_count(stored.lane.number)


def open_replay(services: Services, issue: Issue) -> Replay | None:
    """Return the replay that sends the dead letters of an issue, until it has ended."""
    for replay in replay_store(services).open_ones():
        letters = replay.request.dead_letters
        if letters is None or letters.destination != issue.destination or replay.state == "cancelled":
            continue
        same = letters.outcome == issue.outcome and letters.http_status == issue.http_status
        if letters.cause == issue.cause if issue.cause is not None else letters.other_causes is not None and same:
            return replay
    return None


def _sample(services: Services, issue: Issue) -> IssueSample | None:
    """Look the example up where attempts and events are kept: whatever is erased there is not shown here either."""
    found = None if issue.sample is None else deliver_reader(services).attempts.get(issue.sample, issue.destination)
    if found is None or not _is_of(issue, found):
        return None
    record = event_log(services).record_at(found.partition, found.offset)
    if record is not None and record.erased:
        return None
    return IssueSample(
        attempt=found.id,
        at=iso(found.at_ms),
        url=found.url,
        answer=found.error or None,
        message_id=record.message_id if record else None,
        source=record.source if record else None,
        type=record.type if record else None,
        event=(event_name(record) or None) if record else None,
    )


def _is_of(issue: Issue, found: SavedAttempt) -> bool:
    """Check it: a file uses the ids of erased rows again."""
    if issue.cause is None:
        return (found.outcome, found.http_status) == (issue.outcome, issue.http_status)
    return cause_of(found.outcome, found.http_status, found.error or "") == issue.cause


def _iso(ms: int | None) -> str | None:
    return None if ms is None else iso(ms)


@part
def issue_store(services: Services) -> IssueStore:
    """Return the issues there are."""
    return IssueStore(location_of(services.settings, "control"))


@part
def issue_watch(services: Services) -> IssueWatch:
    """Return what gathers failed attempts into issues."""
    return IssueWatch(
        # Connections of its own: no call waits behind what it writes.
        IssueStore(location_of(services.settings, "control")),
        services.store,
        DeliverReader(location_of(services.settings, "deliver")),
        series_log(services),
        own_metrics(services),
        services.settings.deliver.retry_max,
        many_writers=services.settings.is_shared,
    )
