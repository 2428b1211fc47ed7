"""Tell how destinations stand, as deliver wrote it down: what their receivers do, since when, when they are tried next,
and what fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from hookline.api.services import Services, deliver_reader
from hookline.connections.model import Destination
from hookline.connections.secrets import why_unusable
from hookline.connections.state import Stored
from hookline.events.timestamps import iso
from hookline.features.destinations.figures import Figures, Progress, figures_log
from hookline.features.fleet.service import role_metrics
from hookline.features.insights.service import series_log
from hookline.features.notices.conditions.finding import NEXT_PROBE
from hookline.insights.series import Recent
from hookline.outcomes.reader import DeliverReader

WINDOW_SECONDS = 300
FAILING_SHARE = 0.1
FAILURES_MIN = 3
"""A destination is degraded when as many of its requests in the window have failed, and such a share of them."""
TOO_MANY_REQUESTS = 429
SERVER_ERRORS = 500
ERROR_CHARACTERS = 500

State = Literal[
    "healthy",
    "degraded",
    "unreachable",
    "erroring",
    "refusing",
    "throttling",
    "catching_up",
    "pausing",
    "paused",
    "gone",
    "draining",
    "disabled",
]
"""``degraded`` is judged over some minutes, not by the last answer. The four after it name what a receiver does that
accepts nothing. ``catching_up``: it gets older events before new ones. ``pausing``: a pause that
deliver has not heard of yet. ``gone``: every URL answered 410. ``draining``: disabled, and still getting what was
accepted before."""

TROUBLED: frozenset[State] = frozenset(("degraded", "unreachable", "erroring", "refusing", "throttling", "gone"))
ACCEPTS_NOTHING: frozenset[State] = frozenset(("unreachable", "erroring", "refusing", "throttling", "gone"))
"""What a receiver does that accepts nothing."""


class Problem(msgspec.Struct, frozen=True, rename="camel"):
    """The latest failed attempt of a destination with failures."""

    outcome: str
    http_status: int | None
    error: str | None
    at: str


class PausedSince(msgspec.Struct, frozen=True):
    """Since when a destination is paused, by whom, and why."""

    since: str
    by: Literal["person", "hookline"]
    reason: str


class NextTry(msgspec.Struct, frozen=True):
    """The next request to a receiver that failed, and when it is sent (null if that is not known).

    ``probe``: one event, to see whether the receiver accepts again. ``retry``: the first event that failed.
    """

    what: Literal["probe", "retry"]
    at: str | None


class DestinationState(msgspec.Struct, frozen=True, rename="camel"):
    """The state of a destination and its figures.

    ``since``: since when the receiver has accepted nothing, or since when the destination is paused. ``failingShare``:
    the share of requests that failed over the last five minutes. ``unusable``: why nothing can be sent, such as which
    secret is missing; the state is then ``unreachable``.
    """

    id: str
    state: State
    since: str | None
    failing_share: float
    problem: Problem | None
    paused: PausedSince | None
    next_try: NextTry | None
    figures: Figures
    unusable: str | None = None


def state_of(services: Services, stored: Stored[Destination], fresh: bool = False) -> DestinationState:
    """Look one up; reads the journal where something waits, so not on an event loop. ``fresh`` is for whoever has just
    changed something."""
    (found,) = states_of(services, [stored], fresh)
    return found


def states_of(services: Services, wanted: Sequence[Stored[Destination]], fresh: bool = False) -> list[DestinationState]:
    """Look some up, all of one moment."""
    snapshot = figures_log(services).look(fresh)
    now_seconds = services.store.now_ms() // 1000
    only = wanted[0].object.id if len(wanted) == 1 else None
    recent = series_log(services).recent(WINDOW_SECONDS, now_seconds, only)
    probes = next_probes(services)
    nothing = Figures(snapshot.as_of)
    found: list[DestinationState] = []
    for each in wanted:
        id = each.object.id
        figures, progress = snapshot.figures.get(id, nothing), snapshot.progress.get(id, Progress())
        found.append(_state_of(services, each, figures, progress, recent.get(id, Recent()), probes))
    return found


def usual_states(services: Services) -> dict[str, State]:
    """Return the state of every destination; a receiver that nothing is sent to is ``unreachable`` here, whatever it
    answers."""
    snapshot = figures_log(services).look()
    recent = series_log(services).recent(WINDOW_SECONDS, services.store.now_ms() // 1000)
    nothing = Figures(snapshot.as_of)
    return {
        (id := each.object.id): _usual_state(
            each, snapshot.progress.get(id, Progress()), recent.get(id, Recent()), snapshot.figures.get(id, nothing)
        )
        for each in services.store.destinations()
    }


def is_halted(state: DestinationState) -> bool:
    """Return whether nothing is sent to a receiver but one event now and then, to see whether it accepts again.

    A receiver that refuses each event for itself (422) accepts nothing and is still sent everything.
    """
    return state.next_try is not None and state.next_try.what == "probe"


def next_probes(services: Services) -> dict[str, str]:
    """Return when each receiver with an open breaker is asked next, as far as the deliver process here knows."""
    deliver = role_metrics(services).reports().get("deliver")
    found = deliver.by_label(NEXT_PROBE) if deliver is not None else {}
    return {id: iso(int(seconds * 1000)) for id, seconds in found.items()}


def is_degraded(recent: Recent, retrying: int) -> bool:
    """Return whether a destination that does not get everything gets too little of it."""
    if not retrying and recent.not_delivered <= 0:
        return False
    # Events that wait for a retry have failed, and are known at once: the series learn of requests some seconds later.
    failures = max(recent.failures, retrying)
    return not recent.delivered or failures >= max(FAILURES_MIN, FAILING_SHARE * (recent.delivered + failures))


def _state_of(
    services: Services,
    stored: Stored[Destination],
    figures: Figures,
    progress: Progress,
    recent: Recent,
    probes: Mapping[str, str],
) -> DestinationState:
    id, lane = stored.object.id, stored.lane
    state = _usual_state(stored, progress, recent, figures)
    if lane is None:
        return DestinationState(id, state, None, 0.0, None, None, None, figures)
    deliver = deliver_reader(services)
    paused = None
    if lane.paused is not None:
        paused = PausedSince(iso(lane.paused.since), lane.paused.by, lane.paused.reason)
    problem = None
    if state in TROUBLED or figures.retrying:
        latest = deliver.attempts.latest_failure(id)
        if latest is not None:
            error = latest.error[:ERROR_CHARACTERS] if latest.error else None
            problem = Problem(latest.outcome, latest.http_status, error, iso(latest.at_ms))
    unusable = None
    if state == "unreachable":
        unusable = why_unusable(stored.object, services.settings, services.store.now_ms())
    halted = state in ACCEPTS_NOTHING
    accepts_nothing = halted or (state == "degraded" and not recent.delivered and recent.failures >= FAILURES_MIN)
    answer = None if problem is None or unusable is not None else problem.http_status
    if accepts_nothing and state != "gone" and answer is not None:
        state = _receiver_state(answer)
    next_try = None
    if halted:
        next_try = NextTry("probe", probes.get(id))
    elif figures.retrying:
        due_ms = deliver.next_retry_ms(lane.number)
        at_ms = None if due_ms is None else due_ms - services.store.steady_ms() + services.store.now_ms()
        next_try = NextTry("retry", None if at_ms is None else iso(at_ms))
    since = paused.since if paused is not None else _since(services, deliver, id) if state in ACCEPTS_NOTHING else None
    share = recent.failures / max(1, recent.delivered + recent.failures)
    return DestinationState(id, state, since, round(share, 3), problem, paused, next_try, figures, unusable)


def _usual_state(stored: Stored[Destination], progress: Progress, recent: Recent, figures: Figures) -> State:
    lane = stored.lane
    if lane is None:
        return "disabled"
    if lane.until is not None:
        return "draining"
    if lane.paused is not None:
        return "paused" if "paused" in progress.states else "pausing"
    if "gone" in progress.states:
        return "gone"
    if "open" in progress.states:
        return "unreachable"
    if is_degraded(recent, figures.retrying):
        return "degraded"
    return "catching_up" if progress.is_behind else "healthy"


def _receiver_state(http_status: int) -> State:
    """Name what a receiver does that answers with this status."""
    if http_status == TOO_MANY_REQUESTS:
        return "throttling"
    return "erroring" if http_status >= SERVER_ERRORS else "refusing"


def _since(services: Services, deliver: DeliverReader, destination: str) -> str | None:
    """Return when the first attempt failed after the last success."""
    last_success = series_log(services).delivered_until(destination)
    first_ms = deliver.attempts.first_failure_ms(destination, last_success * 1000)
    return None if first_ms is None else iso(first_ms)


ATTEMPTS_MAX = 10_000
"""Failed requests looked at, the newest ones; where there are more, counts are of these."""
CAUSES_MAX = 50
EXAMPLE_CHARACTERS = 500


class FailureCause(msgspec.Struct, frozen=True, rename="camel"):
    """Failed requests with the same cause. ``example`` is the newest answer, or why there was none."""

    outcome: str
    http_status: int | None
    count: int
    example: str | None
    url: str | None
    first_at: str
    last_at: str


class Causes(NamedTuple):
    """The causes, most frequent first, and whether every failure of the time was looked at."""

    causes: list[FailureCause]
    complete: bool


def causes_of(deliver: DeliverReader, destination: str, since_ms: int) -> Causes:
    """Return the causes of what failed from a time on."""
    groups = deliver.attempts.failure_groups(destination, since_ms, ATTEMPTS_MAX)
    causes: list[FailureCause] = []
    for group in groups[:CAUSES_MAX]:
        # Looked up by itself: reading every answer, only to show one of them, would take most of the time.
        example, url = deliver.attempts.example(destination, group, EXAMPLE_CHARACTERS)
        first_at, last_at = iso(group.first_ms), iso(group.last_ms)
        cause = FailureCause(group.outcome, group.http_status, group.failures, example or None, url, first_at, last_at)
        causes.append(cause)
    return Causes(causes, sum(group.failures for group in groups) < ATTEMPTS_MAX)
