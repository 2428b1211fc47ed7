"""What audiences and traits are shown and synced with, put together."""

from __future__ import annotations

from hookline.api.services import Services, part
from hookline.features.audiences.member_counts import MemberCounts
from hookline.features.audiences.watch import DefinitionWatch
from hookline.features.people.service import profile_log
from hookline.people.previews.requests import PreviewRequests
from hookline.people.sync.results import SyncRequests


@part
def preview_requests(services: Services) -> PreviewRequests:
    """Return how previews are asked for."""
    return PreviewRequests(services.settings.data_path / "run")


@part
def sync_requests(services: Services) -> SyncRequests:
    """Return how syncs are asked for."""
    return SyncRequests(services.settings.data_path / "run")


@part
def member_counts(services: Services) -> MemberCounts:
    """Return how many members audiences have."""
    return MemberCounts(profile_log(services))


@part
def definition_watch(services: Services) -> DefinitionWatch:
    """Return what makes the database of people once it is needed."""
    return DefinitionWatch(services.settings, services.store)
