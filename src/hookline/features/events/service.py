"""Put together the parts that find events, their statuses and their attempts, and stream them."""

from __future__ import annotations

from hookline.api.services import Services, part
from hookline.database.location import location_of
from hookline.features.events.live import LiveEvents
from hookline.features.events.log import EventLog
from hookline.outcomes.attempt_log import AttemptLog


@part
def event_log(services: Services) -> EventLog:
    """Return what finds events and their statuses."""
    return EventLog(services.settings)


@part
def live_events(services: Services) -> LiveEvents:
    """Return the streams of events as they come."""
    return LiveEvents(event_log(services))


@part
def attempt_log(services: Services) -> AttemptLog:
    """Return what finds attempts."""
    return AttemptLog(services.settings.data_path, location_of(services.settings, "deliver"))
