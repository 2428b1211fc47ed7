"""Gather failed attempts into issues, and resolve the issues whose cause is gone.

It reads on from where it stood, in a thread of the lowest priority, and rests long enough after each step to use about
a fiftieth of a core. Whatever it does not manage to count is said: the counts are then "at least".
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from hookline.beats import seconds_to_beat
from hookline.connections.store import Store
from hookline.database.sqlite import DatabaseAway, DatabaseUnreadable
from hookline.database.sqlite import engine as sqlite
from hookline.features.fleet.metrics import OwnMetrics
from hookline.features.issues.store import Because, Issue, IssueStore, first_hour_kept
from hookline.features.sources.service import lowest_priority
from hookline.insights.series import SeriesLog
from hookline.outcomes.cause import words_of
from hookline.outcomes.outcome import refuses_event
from hookline.outcomes.reader import DeliverReader
from hookline.outcomes.rows import CauseCount
from hookline.replays.dead_letters import DeadLetterFilter
from hookline.telemetry.log import logger

POLL_SECONDS = 2.0
SHARE = 1 / 50
"""Of a core, that it uses at most on average."""
ROWS_PER_STEP = 2_000
BACKLOG_ROWS_MAX = 200_000
"""Attempts that it still reads after it was away; older ones are left out, and the counts say "at least"."""
JUDGE_SECONDS = 10.0
TEND_SECONDS = 15.0
"""The words of a receiver that named an erased person are gone so soon after the attempts."""
TENDED_PER_STEP = 1_000
LOOKED_BACK_ROWS = 2_000
"""Attempts looked at for another sample, or for where to go on after the newest rows were erased."""
QUIET_SECONDS = 15 * 60.0
"""So long a cause must not have been seen: an event waits for its next try for 10 minutes at most, unless
``deliver.retry_max`` says otherwise."""
QUIET_SECONDS_MAX = 86_400.0
RETRIES_WAITED_FOR = 1.5
GAPS_WAITED_FOR = 3
"""What is refused now and then is over after so many times the usual time between two refusals."""


class IssueWatch:
    """The one loop over attempts."""

    def __init__(
        self,
        store: IssueStore,
        connections: Store,
        deliver: DeliverReader,
        series: SeriesLog,
        metrics: OwnMetrics,
        retry_max_seconds: float,
        *,
        many_writers: bool = False,
        quiet_seconds: float = QUIET_SECONDS,
    ) -> None:
        """``many_writers``: deliver is many processes, so that a row may appear after one with a higher id."""
        self._store = store
        self._connections = connections
        self._deliver = deliver
        self._series = series
        self._metrics = metrics
        self._many_writers = many_writers
        self._quiet_seconds = max(quiet_seconds, RETRIES_WAITED_FOR * retry_max_seconds)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="issues", initializer=lowest_priority)
        self._settled_id = 0
        self._missed = False
        self._tended_id = ""
        self._due = {self._judge: 0.0, self._tend: 0.0}
        self.open: Mapping[str, int] = {}
        """How many issues are open, by destination."""

    async def run_forever(self) -> None:
        """Look every few seconds until cancelled."""
        loop = asyncio.get_running_loop()
        failing = False
        while True:
            rest = POLL_SECONDS
            try:
                failing, rest = False, await loop.run_in_executor(self._thread, self._look)
            except (sqlite.Error, OSError) as error:
                # Of a database that is away the pool says so.
                if not failing and (isinstance(error, DatabaseUnreadable) or not isinstance(error, DatabaseAway)):
                    logger().warning("issues_not_followed", error=str(error), next_step="it is tried again")
                failing = True
            except Exception:  # noqa: BLE001 - the loop's border: a fault of ours must not end all issues
                logger().error("issue_watch_failed", exc_info=True)
            await asyncio.sleep(seconds_to_beat(rest) if rest == POLL_SECONDS else rest)

    def _look(self) -> float:
        """Do one step; return how long to rest then."""
        began = time.thread_time()
        more = self.read()
        now = time.monotonic()
        for work, due in self._due.items():
            if now >= due and not (more and work == self._judge):  # what was not read yet may be such a failure
                work()
                self._due[work] = now + (JUDGE_SECONDS if work == self._judge else TEND_SECONDS)
        rest = (time.thread_time() - began) * (1 / SHARE - 1)
        return rest if more else max(POLL_SECONDS, rest)

    def run_once(self) -> None:
        """Read to the end, and judge and tend every issue."""
        while self.read():
            pass
        self._judge()
        while not self._tend():
            pass

    def close(self) -> None:
        """Stop the thread and close what it used; idempotent."""
        self._thread.shutdown()
        with suppress(sqlite.Error, OSError):
            self._store.close()
            self._deliver.close()

    # Reading

    def read(self) -> bool:
        """Add the next attempts to their issues; return whether there are more."""
        attempts = self._deliver.attempts
        newest = attempts.last_id()
        # Rows of transactions that are still open have ids below those of others; by the next look they are there.
        until, self._settled_id = (self._settled_id if self._many_writers else newest), newest
        before = self._store.reader() or self._begin(newest)
        if newest < before[0]:
            before = self._went_back(before, newest)
        elif newest - before[0] > BACKLOG_ROWS_MAX:
            before = self._skip(before, newest)
        last = attempts.last_id_of(before[0], until, ROWS_PER_STEP)
        if not last:
            return False
        counts = attempts.cause_counts(before[0], last)
        after = last, max((each.last_ms for each in counts), default=before[1])
        noted_at = self._connections.steady_ms()
        opened = self._store.add(counts, self._words(counts), before, after, noted_at, self._missed)
        for issue in opened:
            self._notify("issue_opened" if issue.openings == 1 else "issue_opened_again", issue)
        if opened:
            self.count_open()
        self._missed = self._missed and last < until
        return last < until

    def _begin(self, newest: int) -> tuple[int, int]:
        start = max(0, newest - BACKLOG_ROWS_MAX), 0
        self._store.move_reader(start, missed=False)
        return start

    def _skip(self, before: tuple[int, int], newest: int) -> tuple[int, int]:
        after = newest - BACKLOG_ROWS_MAX // 2, before[1]
        self._missed = True
        self._store.move_reader(after, missed=True)
        logger().warning("issues_skipped_attempts", attempts=after[0] - before[0], next_step="counts say at least")
        return after

    def _went_back(self, before: tuple[int, int], newest: int) -> tuple[int, int]:
        """Go on where the newest row that was read is now: erasure and retention take rows, and a file then uses their
        ids again. Rather too late than too early: nothing counts twice."""
        found = self._deliver.attempts.last_id_until(before[1], LOOKED_BACK_ROWS)
        after = max(found, newest - LOOKED_BACK_ROWS, 0), before[1]
        self._store.move_reader(after, missed=False)
        return after

    def _words(self, counts: Sequence[CauseCount]) -> Callable[[CauseCount], str | None]:
        """Return what looks the words of a cause up, if somebody asks."""

        def words(count: CauseCount) -> str | None:
            found = self._deliver.attempts.samples([count.last_id])
            return words_of(found[0].error or "", count.http_status) if found else None

        return words

    # Resolving

    def _judge(self) -> None:
        """Resolve what is over."""
        now_ms = self._connections.now_ms()
        steady_ms = self._connections.steady_ms()
        lanes = {stored.object.id: stored.lane for stored in self._connections.destinations()}
        resolved: dict[str, Because] = {}
        quiet: list[Issue] = []
        issues = {issue.id: issue for issue in self._store.open_ones()}
        for issue in issues.values():
            if issue.destination not in lanes:
                resolved[issue.id] = "deleted"
            elif issue.state == "open" and lanes[issue.destination] is None:
                resolved[issue.id] = "disabled"
            elif issue.state == "open" and self._is_quiet(issue, steady_ms):
                quiet.append(issue)
        delivered = self._series.last_delivered(now_ms // 1000) if quiet else {}
        for issue in quiet:
            if delivered.get(issue.destination, 0) * 1000 > issue.last_seen:
                resolved[issue.id] = "delivered"
        if resolved:
            self._store.resolve(resolved, {id: issues[id].last_seen for id in resolved}, now_ms)
            for id in resolved:
                self._notify("issue_resolved", issues[id])
        self.count_open()

    def _is_quiet(self, issue: Issue, steady_ms: int) -> bool:
        return steady_ms - issue.noted_at >= self.quiet_seconds(issue) * 1000

    def quiet_seconds(self, issue: Issue) -> float:
        """Return for how long a cause must not be seen before its issue is resolved."""
        since = issue.attempts - issue.attempts_before
        # Of a receiver that is away any other request tells. What is wrong with some events only such events can tell.
        if not refuses_event(issue.http_status) or since < 2:
            return self._quiet_seconds
        gap_seconds = (issue.last_seen - issue.opened_at) / 1000 / (since - 1)
        return min(max(self._quiet_seconds, GAPS_WAITED_FOR * gap_seconds), QUIET_SECONDS_MAX)

    def count_open(self) -> None:
        """Count the open issues anew."""
        self.open = self._metrics.issues_open = self._store.open_by_destination()

    def _notify(self, what: str, issue: Issue) -> None:
        logger().info(
            what, issue=issue.id, destination=issue.destination, outcome=issue.outcome, http_status=issue.http_status
        )

    # Tending

    def _tend(self) -> bool:
        """Look after some issues: words that no attempt and no dead letter says any more are not kept, and what is
        resolved is forgotten with them. Return whether these were the last."""
        page = self._store.page(self._tended_id, TENDED_PER_STEP)
        kept = {
            (each.id, each.destination, each.cause)
            for each in self._deliver.attempts.samples([issue.sample for issue in page if issue.sample is not None])
        }
        samples: dict[str, int] = {}
        silent: list[str] = []
        gone: list[str] = []
        for issue in page:
            if issue.cause is None or (issue.sample, issue.destination, issue.cause) in kept:
                continue
            other = self._deliver.attempts.newest_of_cause(issue.destination, issue.cause, LOOKED_BACK_ROWS)
            if other is not None:
                samples[issue.id] = other
            elif not self._has_dead_letters(issue):
                (gone if issue.state == "resolved" else silent).append(issue.id)
        self._store.keep_only(samples, silent, gone, first_hour_kept(self._connections.now_ms()))
        done = len(page) < TENDED_PER_STEP
        self._tended_id = "" if done else page[-1].id
        return done

    def _has_dead_letters(self, issue: Issue) -> bool:
        wanted = DeadLetterFilter(destination=issue.destination, cause=issue.cause)
        return self._deliver.dead_letters.count_up_to(wanted, 1) > 0
