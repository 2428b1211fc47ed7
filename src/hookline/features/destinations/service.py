"""What tells how destinations are, put together."""

from __future__ import annotations

from hookline.api.services import Services, part
from hookline.database.location import location_of
from hookline.features.destinations.health import DestinationHealth, FailureCauses
from hookline.features.destinations.lane_watch import LaneWatch
from hookline.features.destinations.past import DestinationPast


@part
def destination_health(services: Services) -> DestinationHealth:
    """Return what waits for a destination and what it did not get."""
    return DestinationHealth(location_of(services.settings, "deliver"))


@part
def failure_causes(services: Services) -> FailureCauses:
    """Return why deliveries failed."""
    return FailureCauses(location_of(services.settings, "deliver"))


@part
def destination_past(services: Services) -> DestinationPast:
    """Return destinations as they were."""
    return DestinationPast(location_of(services.settings, "control"))


@part
def lane_watch(services: Services) -> LaneWatch:
    """Return what watches lanes that are to end."""
    return LaneWatch(services.settings, services.store)
