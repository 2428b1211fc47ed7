"""What the handlers of the admin API and of the pages work with; made once per process by ``app.build``."""

from __future__ import annotations

from collections.abc import Mapping

from litestar.di import NamedDependency

from hookline.connections.model import WebhookSettings
from hookline.connections.past import Past
from hookline.connections.store import Store
from hookline.control.accounts.accounts import Accounts
from hookline.control.accounts.admin_token import AdminToken
from hookline.control.accounts.login_throttle import LoginThrottle
from hookline.control.accounts.one_time_link import OneTimeLink
from hookline.control.accounts.passwords import Passwords
from hookline.control.accounts.sessions import Sessions
from hookline.control.accounts.tokens import Tokens
from hookline.control.audit.audit_log import AuditLog
from hookline.control.conditions.breakers import Breakers
from hookline.control.conditions.client_certificates import ClientCertificates
from hookline.control.conditions.database import DatabaseDamage, DatabaseOutages, DatabasesWentBack
from hookline.control.conditions.dead_letters import DeadLetters
from hookline.control.conditions.deletions import Deletions
from hookline.control.conditions.disk import DiskRoom
from hookline.control.conditions.finding import Condition
from hookline.control.conditions.journal_budget import JournalBudget
from hookline.control.conditions.journal_damage import JournalDamage
from hookline.control.conditions.journal_lost import JournalLost
from hookline.control.conditions.partitions import Partitions
from hookline.control.conditions.pauses import Pauses
from hookline.control.conditions.retention import Retention
from hookline.control.conditions.roles import Roles
from hookline.control.conditions.sources import Sources
from hookline.control.dead_letters.log import DeadLetterLog
from hookline.control.definitions.member_counts import MemberCounts
from hookline.control.destinations.health import DestinationHealth, FailureCauses
from hookline.control.destinations.lane_watch import LaneWatch
from hookline.control.destinations.past import DestinationPast
from hookline.control.events.live import LiveEvents
from hookline.control.events.log import EventLog
from hookline.control.http.call import current_call, may_refer, note_version
from hookline.control.idempotency.kept_answers import KeptAnswers
from hookline.control.notices.log import NoticeLog
from hookline.control.notices.watch import NoticeWatch
from hookline.control.notices.webhooks import NoticeWebhooks
from hookline.control.persons.log import PersonLog, ProfileLog
from hookline.control.privacy.forgetting import Forgetting
from hookline.control.privacy.messages import DeletionMessages
from hookline.control.privacy.suppressed_usage import SuppressedUsage
from hookline.control.privacy.watch import DeletionWatch
from hookline.control.replays.planner import Planner
from hookline.control.replays.progress import ReplayProgress
from hookline.control.replays.watch import ReplayWatch
from hookline.control.running.fleet import FleetLog
from hookline.control.running.machine import machine_of
from hookline.control.running.metrics import OwnMetrics, RoleMetrics
from hookline.control.running.whole import WholeMachine
from hookline.control.series.watch import SeriesWatch
from hookline.control.sources.activity import SourceActivity
from hookline.control.sources.schema_watch import SchemaWatch
from hookline.control.usage.log import UsageLog
from hookline.database.location import location_of
from hookline.database.shared import Shared
from hookline.deliver.send.client_certificate import fault_of
from hookline.insights.schema_log import SchemaLog
from hookline.insights.schema_store import SchemaStore
from hookline.insights.series_log import SeriesLog
from hookline.insights.series_store import SeriesStore
from hookline.journal.remote import RemoteAppender
from hookline.listening import has_successor
from hookline.outcomes.attempt_log import AttemptLog
from hookline.people.previews.requests import PreviewRequests
from hookline.people.sync.requests import SyncRequests
from hookline.privacy import shared_key
from hookline.privacy.messages import Messages
from hookline.privacy.requests import Requests
from hookline.privacy.store import PrivacyStore
from hookline.privacy.suppressions import Suppressions
from hookline.replays.store import ReplayStore
from hookline.settings import Settings


class Services:
    """The parts, and the order in which they are put away."""

    def __init__(self, settings: Settings, store: Store, token: AdminToken) -> None:
        self.settings = settings
        self.origins: Mapping[str, str] = {}
        """Where each setting came from, by key, where that is known."""
        self.store = store
        self.token = token
        store.on_version, store.may_refer = note_version, may_refer
        store.certificate_fault = self._certificate_fault
        control = location_of(settings, "control")
        deliver = location_of(settings, "deliver")
        self.people = Shared(control)
        self.accounts = Accounts(self.people)
        self.passwords = Passwords()
        secure = (settings.control.public_url or "").startswith("https://")
        self.sessions = Sessions(self.people, token.mark, secure)
        self.tokens = Tokens(self.people)
        self.audit = AuditLog(self.people, steady_ms=store.steady_ms)
        self.kept_answers = KeptAnswers(self.people, store.steady_ms)
        self.throttle = LoginThrottle()
        self.link = OneTimeLink(settings.data_path)
        self.events = EventLog(settings)
        self.live = LiveEvents(self.events)
        self.profiles = ProfileLog(settings)
        self.person_log = PersonLog(settings)
        self.preview_wishes = PreviewRequests(settings.data_path / "run")
        self.sync_wishes = SyncRequests(settings.data_path / "run")
        self.dead_letters = DeadLetterLog(deliver)
        self.health = DestinationHealth(deliver)
        self.member_counts = MemberCounts(self.profiles)
        self.destination_past = DestinationPast(control)
        self.attempt_log = AttemptLog(settings.data_path, deliver)
        self.lane_watch = LaneWatch(settings, store)
        self.usage = UsageLog(deliver)
        self.replays = ReplayStore(control, steady_ms=store.steady_ms)
        self.planner = Planner(settings, self.replays)
        self.replay_progress = ReplayProgress(deliver)
        self.replay_watch = ReplayWatch(
            settings, store, self.replays, self.planner, self.replay_progress, store.steady_ms
        )
        self.metrics = RoleMetrics(settings.data_path)
        self.whole = WholeMachine(settings.data_path, self.metrics)
        self.fleet = FleetLog(settings, self.metrics)
        self.own_metrics = OwnMetrics()
        insights = location_of(settings, "insights")
        self.series_store = SeriesStore(insights, machine_of(settings))
        self.series = SeriesLog(insights)
        self.schema_store = SchemaStore(insights)
        self.schemas = SchemaLog(insights)
        self.schema_watch = SchemaWatch(settings.data_path, self.schema_store)
        self.causes = FailureCauses(deliver)
        self.series_watch = SeriesWatch(settings.data_path, self.series_store, self.metrics)
        self.past = Past(control)
        privacy = location_of(settings, "privacy")
        self.privacy = PrivacyStore(privacy)
        digests = shared_key.load(privacy, self.privacy.database, settings.data_path)
        self.suppressions = Suppressions(self.privacy, digests)
        self.suppressed_usage = SuppressedUsage(self.privacy, self.metrics)
        self.deletion_requests = Requests(self.privacy, digests, self.suppressions)
        self.delete_messages = Messages(self.privacy, store.steady_ms)
        journal = RemoteAppender(settings.socket_path("collect.sock"))
        self.deletion_watch = DeletionWatch(
            settings,
            store,
            self.deletion_requests,
            DeletionMessages(
                settings.data_path,
                self.delete_messages,
                self.deletion_requests,
                journal,
                self.events,
                store.steady_ms,
            ),
            journal,
            Forgetting(self.people, self.replays),
            self.suppressed_usage,
        )
        self.digests = digests
        """Keyed hashes of people's ids."""
        self.activity = SourceActivity(control)
        self.notices = NoticeLog(control)
        self.notice_webhooks = NoticeWebhooks(
            settings, self.notices, self.own_metrics, clock=lambda: store.steady_ms() / 1000
        )
        self.notice_watch = NoticeWatch(
            self.notices,
            store,
            self.metrics,
            [*conditions_of(settings, store, self.fleet, self.whole), Deletions(self.delete_messages)],
            self.own_metrics,
            settings.notices.webhooks,
            open_elsewhere=lambda: self.fleet.open_breakers,
        )
        self.notice_watch.on_change = self.notice_webhooks.wake
        self.tests_running = 0
        """Event tests that wait for receivers."""
        self.ready = False

    def _certificate_fault(self, wanted: WebhookSettings) -> str | None:
        """Judge what a request wants saved; what no request asked for must not keep the service from starting."""
        pair = wanted.certificate_pair
        return fault_of(pair, self.settings) if pair is not None and current_call() is not None else None

    def stop_streams(self) -> None:
        """End what would keep the server from stopping; requests go on being served.

        Whose sockets another one takes over stays ready: no balancer needs to send its calls elsewhere.
        """
        self.ready = self.ready and has_successor()
        self.live.close()

    def close(self) -> None:
        """Give everything back; idempotent."""
        self.stop_streams()
        self.link.discard()
        self.events.close()
        self.profiles.close()
        self.person_log.close()
        self.dead_letters.close()
        self.health.close()
        self.destination_past.close()
        self.attempt_log.close()
        self.lane_watch.close()
        self.usage.close()
        self.series.close()
        self.schema_watch.close()
        self.schemas.close()
        self.schema_store.close()
        self.causes.close()
        self.series_store.close()
        self.notice_watch.close()
        self.fleet.close()
        self.activity.close()
        self.notices.close()
        self.past.close()
        self.planner.close()
        self.replay_progress.close()
        self.replays.close()
        self.deletion_watch.close()
        self.privacy.close()
        self.audit.flush()
        self.people.close()


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


FromServices = NamedDependency[Services]
"""What a handler writes to be given them."""
