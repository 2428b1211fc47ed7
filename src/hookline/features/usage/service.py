"""What usage is counted with, put together."""

from __future__ import annotations

from hookline.api.services import Services, part
from hookline.database.location import location_of
from hookline.features.usage.log import UsageLog


@part
def usage_log(services: Services) -> UsageLog:
    """Return what counts events by day."""
    return UsageLog(location_of(services.settings, "deliver"))
