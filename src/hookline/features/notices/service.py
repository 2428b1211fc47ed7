"""Look at the system every few seconds, and open, refresh and resolve notices about it.

It runs in a thread, reads what the roles write down anyway, and costs no timer per destination.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hookline.api.services import Services, part
from hookline.beats import next_beat
from hookline.connections.notifications import enabled_rules
from hookline.connections.store import Store
from hookline.database.location import location_of
from hookline.database.sqlite import DatabaseAway
from hookline.database.sqlite import engine as sqlite
from hookline.features.fleet.metrics import OwnMetrics, RoleMetrics
from hookline.features.fleet.service import FleetLog, WholeMachine, fleet_log, own_metrics, role_metrics, whole_machine
from hookline.features.insights.service import series_log
from hookline.features.notices.conditions.destinations import (
    Breakers,
    ClientCertificates,
    DeadLetters,
    Deletions,
    Pauses,
)
from hookline.features.notices.conditions.finding import Condition, Finding, Moment, OpenNotice
from hookline.features.notices.conditions.journal import JournalBudget, JournalDamage, JournalLost, Partitions
from hookline.features.notices.conditions.machine import (
    DatabaseDamage,
    DatabaseOutages,
    DatabasesWentBack,
    DiskRoom,
    Roles,
    Sources,
    UnappliedFile,
)
from hookline.features.notices.conditions.retention import Retention
from hookline.features.notices.conditions.sinks import SchemaChanges
from hookline.features.notices.conditions.traffic import Backlog, FailedShare, Traffic
from hookline.features.notices.log import NoticeLog
from hookline.features.notices.webhooks import NoticeWebhooks
from hookline.features.notifications.log import FailingChannels, message_log
from hookline.features.privacy.service import delete_messages
from hookline.features.sources.service import SourceActivity, schema_watcher
from hookline.journal.port import JournalError
from hookline.settings import Settings
from hookline.telemetry.log import logger
from hookline.telemetry.notices import KINDS, OTHERS, sentence

POLL_SECONDS = 5.0
SUBJECTS_MAX = 100
"""Open notices of one kind; what is beyond is told by one notice for all of them."""
REFRESH_MS = 60_000
"""A notice that lasts without a change is written again after so long, to say when it was last seen."""

Key = tuple[str, str]


class NoticeWatch:
    """The one loop over all conditions."""

    def __init__(
        self,
        log: NoticeLog,
        store: Store,
        metrics: RoleMetrics,
        conditions: Sequence[Condition],
        own_metrics: OwnMetrics,
        webhooks: Sequence[str] = (),
        clock: Callable[[], float] = time.time,
        open_elsewhere: Callable[[], frozenset[str] | None] = lambda: None,
    ) -> None:
        """``open_elsewhere`` names the breakers that are open at processes of other machines, None where there are no
        such processes."""
        self._log = log
        self._store = store
        self._metrics = metrics
        self._conditions = conditions
        self._own_metrics = own_metrics
        self._webhooks = webhooks
        self._clock = clock
        self._open_elsewhere = open_elsewhere
        self._failing: set[str] = set()
        self._unwritten: dict[Condition, Mapping[Key, tuple[Finding, int]]] = {}
        """Holds findings that come only once and were not written, because the disk or the database refused them."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when something is to be sent."""

    async def run_forever(self) -> None:
        """Look every few seconds until cancelled."""
        while True:
            try:
                await asyncio.to_thread(self.run_once)
            except DatabaseAway:
                pass  # the pool has said so
            except (sqlite.Error, OSError) as error:  # the disk is full: it is looked again
                logger().warning("notices_not_written", error=str(error))
            except Exception:  # noqa: BLE001 - the loop's border: a fault of ours must not end all notices
                logger().error("notice_watch_failed", exc_info=True)
            await next_beat(POLL_SECONDS)

    def run_once(self) -> None:
        """One look at everything."""
        notices = self._log.open_ones()
        moment = Moment(
            int(self._clock() * 1000),
            self._metrics.reports(),
            self._store.destinations(),
            self._store.sources(),
            notices,
            self._open_elsewhere(),
            enabled_rules([stored.object for stored in self._store.in_force("notification")]),
        )
        for condition in self._conditions:
            mine = {key: notice for key, notice in notices.items() if key[0] in condition.kinds}
            if (kept := self._unwritten.get(condition)) is not None:
                # Nothing more is asked for before it is written: whoever finds it keeps it until then.
                self._settle({key: mine[key] for key in kept if key in mine}, kept, moment)
                del self._unwritten[condition]
            elif (looked := self._look(condition, moment)) is not None:
                found = bounded(looked, mine)
                if once := {key: each for key, each in found.items() if _is_found_once(each[0])}:
                    self._unwritten[condition] = once
                self._settle(mine, found, moment)
                self._unwritten.pop(condition, None)
        self._own_metrics.notices_open = Counter(kind for kind, _ in self._log.open_ones())

    def close(self) -> None:
        """Let go of what the conditions hold; idempotent."""
        for condition in self._conditions:
            condition.close()

    def _look(self, condition: Condition, moment: Moment) -> Sequence[Finding] | None:
        name = type(condition).__name__
        try:
            found = condition.findings(moment)
        except (sqlite.Error, OSError, JournalError) as error:
            if name not in self._failing:
                logger().warning("condition_failed", condition=name, error=str(error))
            self._failing.add(name)
            return None
        self._failing.discard(name)
        return found

    def _settle(self, notices: Mapping[Key, OpenNotice], found: Mapping[Key, tuple[Finding, int]], m: Moment) -> None:
        opened = [(finding, others) for key, (finding, others) in found.items() if key not in notices]
        resolved = [key for key in notices if key not in found]
        opened += [(each, 0) for each in recoveries(resolved, m)]
        seen = [
            (notices[key].id, finding, others)
            for key, (finding, others) in found.items()
            if key in notices and not finding.weak and _moved_on(notices[key], finding, others, m.now_ms)
        ]
        if not (opened or seen or resolved):
            return
        self._log.settle(opened, seen, [notices[key].id for key in resolved], m.now_ms, self._webhooks)
        for finding, others in opened:
            self._log_opened(finding, others)
        for kind, subject in resolved:
            logger().info("notice_resolved", kind=kind, subject=subject)
        if opened or resolved:
            self.on_change()

    def _log_opened(self, finding: Finding, others: int) -> None:
        kind = KINDS[finding.kind]
        self._own_metrics.notices_opened[finding.kind] += 1
        log: Any = logger().info if kind.severity == "info" else logger().warning
        message = sentence(finding.kind, finding.subject, finding.detail, others)
        log("notice_opened", kind=finding.kind, subject=finding.subject, message=message, next_step=kind.next_step)


def bounded(found: Iterable[Finding], notices: Mapping[Key, object]) -> dict[Key, tuple[Finding, int]]:
    """Findings by key with how many subjects each stands for: at most SUBJECTS_MAX of a kind by name, open ones first.

    Of several findings of one key a strong one wins over a weak one.
    """
    by_kind: dict[str, dict[Key, Finding]] = {}
    for finding in found:
        keyed = by_kind.setdefault(finding.kind, {})
        key = (finding.kind, finding.subject)
        if (key in notices or not finding.weak) and (key not in keyed or keyed[key].weak):
            keyed[key] = finding
    kept: dict[Key, tuple[Finding, int]] = {}
    for kind, keyed in by_kind.items():
        ordered = sorted(keyed, key=lambda key: key not in notices)
        kept.update({key: (keyed[key], 0) for key in ordered[:SUBJECTS_MAX]})
        rest = [keyed[key] for key in ordered[SUBJECTS_MAX:] if not keyed[key].weak]
        if rest:
            kept[kind, OTHERS] = (Finding(kind, OTHERS, f"for example {rest[0].subject}", len(rest)), len(rest))
    return kept


def recoveries(resolved: Iterable[Key], moment: Moment) -> list[Finding]:
    """Return what is worth telling of notices just resolved: their destination is still wanted, and is well again."""
    well: dict[Key, Finding] = {}
    for kind, subject in resolved:
        recovery = KINDS[kind].followed_by
        if recovery is not None and moment.is_well(subject):
            well[recovery, subject] = Finding(recovery, subject, "")
    return list(well.values())


def _is_found_once(finding: Finding) -> bool:
    """Return whether a condition says it once: a moment, or a restart; what lasts is found again with the next look."""
    return not finding.weak and (KINDS[finding.kind].passing or finding.kind == "role_restarted")


def _moved_on(notice: OpenNotice, finding: Finding, others: int, now_ms: int) -> bool:
    changed = notice.count != finding.count
    changed = changed or notice.message != sentence(finding.kind, finding.subject, finding.detail, others)
    return changed or now_ms - notice.last_seen_at_ms >= REFRESH_MS


@part
def notice_log(services: Services) -> NoticeLog:
    """Return the notices, open and over."""
    return NoticeLog(location_of(services.settings, "control"))


@part
def notice_webhooks(services: Services) -> NoticeWebhooks:
    """Return what sends notices on; raise InvalidNoticeWebhooks for an address that cannot be."""
    return NoticeWebhooks(
        services.settings,
        notice_log(services),
        own_metrics(services),
        clock=lambda: services.store.steady_ms() / 1000,
    )


@part
def notice_watch(services: Services) -> NoticeWatch:
    """Return what looks at every condition and opens and closes notices."""
    fleet = fleet_log(services)
    conditions = conditions_of(services.settings, services.store, fleet, whole_machine(services))
    watch = NoticeWatch(
        notice_log(services),
        services.store,
        role_metrics(services),
        [
            *conditions,
            Deletions(delete_messages(services)),
            SchemaChanges(
                location_of(services.settings, "deliver"), lambda: notice_log(services).last_ms(SchemaChanges.kinds[0])
            ),
            Traffic(schema_watcher(services).take_news, services.settings.notices.rejected_events),
            FailedShare(series_log(services).recent),
            FailingChannels(message_log(services)),
        ],
        own_metrics(services),
        services.settings.notices.webhooks,
        open_elsewhere=lambda: fleet.open_breakers,
    )
    watch.on_change = notice_webhooks(services).wake
    return watch


def conditions_of(settings: Settings, store: Store, fleet: FleetLog, whole: WholeMachine) -> list[Condition]:
    """Everything that is looked at for notices."""
    data, thresholds = settings.data_path, settings.notices
    deliver = location_of(settings, "deliver")
    shared: list[Condition] = []
    if settings.is_shared:
        topic = settings.journal.url.rpartition("/")[2]
        shared.append(Partitions(fleet, topic, thresholds.partition_unowned))
    return [
        Pauses(),
        Breakers(deliver, thresholds.breaker_open, settings),
        DeadLetters(deliver, thresholds.dead_letters),
        Backlog(data, deliver, thresholds.backlog_age, store.steady_ms),
        Retention(data, deliver, settings.retention, thresholds.retention_ahead, store.steady_ms),
        Sources(SourceActivity(location_of(settings, "control")), thresholds.source_silent),
        JournalBudget(settings.retention.bytes),
        JournalLost(data, deliver),
        DatabaseDamage(settings.data_path),
        JournalDamage(settings.data_path / "journal", location_of(settings, "deliver")),
        DiskRoom(data, thresholds.disk_free),
        Roles(store.restarted, whole.roles),
        UnappliedFile(lambda: store.unapplied_file),
        DatabaseOutages(),
        DatabasesWentBack(data),
        ClientCertificates(settings),
        *shared,
    ]
