"""Put together the conditions that are looked at for notices, and what is done with them."""

from __future__ import annotations

from hookline.api.services import Services, part
from hookline.connections.store import Store
from hookline.database.location import location_of
from hookline.features.fleet.service import FleetLog, fleet_log, own_metrics, role_metrics, whole_machine
from hookline.features.fleet.whole import WholeMachine
from hookline.features.notices.conditions.destinations import (
    Breakers,
    ClientCertificates,
    DeadLetters,
    Deletions,
    Pauses,
)
from hookline.features.notices.conditions.finding import Condition
from hookline.features.notices.conditions.journal import JournalBudget, JournalDamage, JournalLost, Partitions
from hookline.features.notices.conditions.machine import (
    DatabaseDamage,
    DatabaseOutages,
    DatabasesWentBack,
    DiskRoom,
    Roles,
    Sources,
)
from hookline.features.notices.conditions.retention import Retention
from hookline.features.notices.log import NoticeLog
from hookline.features.notices.watch import NoticeWatch
from hookline.features.notices.webhooks import NoticeWebhooks
from hookline.features.privacy.service import delete_messages
from hookline.features.sources.service import SourceActivity
from hookline.settings import Settings


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
        [*conditions, Deletions(delete_messages(services))],
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
        Breakers(deliver, thresholds.breaker_open),
        DeadLetters(deliver, thresholds.dead_letters),
        Retention(data, deliver, settings.retention, thresholds.retention_ahead, store.steady_ms),
        Sources(SourceActivity(location_of(settings, "control")), thresholds.source_silent),
        JournalBudget(settings.retention.bytes),
        JournalLost(data, deliver),
        DatabaseDamage(settings.data_path),
        JournalDamage(settings.data_path / "journal", location_of(settings, "deliver")),
        DiskRoom(data, thresholds.disk_free),
        Roles(store.restarted, whole.roles),
        DatabaseOutages(),
        DatabasesWentBack(data),
        ClientCertificates(settings),
        *shared,
    ]
