"""What is known of sources, put together."""

from __future__ import annotations

from hookline.api.services import Services, part
from hookline.database.location import location_of
from hookline.features.sources.activity import SourceActivity
from hookline.features.sources.schema_watch import SchemaWatch
from hookline.insights.schema import SchemaLog, SchemaStore


@part
def source_activity(services: Services) -> SourceActivity:
    """Return when each source was last seen."""
    return SourceActivity(location_of(services.settings, "control"))


@part
def schema_store(services: Services) -> SchemaStore:
    """Return where schemas are written."""
    return SchemaStore(location_of(services.settings, "insights"))


@part
def schema_log(services: Services) -> SchemaLog:
    """Return what reads schemas."""
    return SchemaLog(location_of(services.settings, "insights"))


@part
def schema_watcher(services: Services) -> SchemaWatch:
    """Return what writes schemas from what collect saw."""
    return SchemaWatch(services.settings.data_path, schema_store(services))
