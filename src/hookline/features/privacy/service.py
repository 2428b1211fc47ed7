"""Put together the parts by which people are erased and suppressed."""

from __future__ import annotations

from hookline.api.services import Services, control_database, part
from hookline.database.location import location_of
from hookline.features.events.service import event_log
from hookline.features.fleet.service import role_metrics
from hookline.features.privacy.forgetting import Forgetting
from hookline.features.privacy.messages import DeletionMessages
from hookline.features.privacy.suppressed_usage import SuppressedUsage
from hookline.features.privacy.watch import DeletionWatch
from hookline.features.replays.service import replay_store
from hookline.journal.remote import RemoteAppender
from hookline.privacy import shared_key
from hookline.privacy.id_digest import IdDigests
from hookline.privacy.messages import Messages
from hookline.privacy.requests import Requests
from hookline.privacy.store import PrivacyStore
from hookline.privacy.suppressions import Suppressions


@part
def privacy_store(services: Services) -> PrivacyStore:
    """Return ``privacy.db``."""
    return PrivacyStore(location_of(services.settings, "privacy"))


@part
def id_digests(services: Services) -> IdDigests:
    """Return the keyed hashes of people's ids; raise PrivacyKeyError when the key is not the installation's."""
    location = location_of(services.settings, "privacy")
    return shared_key.load(location, privacy_store(services).database, services.settings.data_path)


@part
def suppressions(services: Services) -> Suppressions:
    """Return who is suppressed."""
    return Suppressions(privacy_store(services), id_digests(services))


@part
def suppressed_usage(services: Services) -> SuppressedUsage:
    """Return how much came in of suppressed people."""
    return SuppressedUsage(privacy_store(services), role_metrics(services))


@part
def deletion_requests(services: Services) -> Requests:
    """Return the deletion requests."""
    return Requests(privacy_store(services), id_digests(services), suppressions(services))


@part
def delete_messages(services: Services) -> Messages:
    """Return the delete messages that were sent."""
    return Messages(privacy_store(services), services.store.steady_ms)


@part
def deletion_watch(services: Services) -> DeletionWatch:
    """Return what carries out deletion requests."""
    settings, store = services.settings, services.store
    requests, journal = deletion_requests(services), RemoteAppender(settings.socket_path("collect.sock"))
    messages = DeletionMessages(
        settings.data_path, delete_messages(services), requests, journal, event_log(services), store.steady_ms
    )
    forgetting = Forgetting(control_database(services), replay_store(services))
    return DeletionWatch(settings, store, requests, messages, journal, forgetting, suppressed_usage(services))
