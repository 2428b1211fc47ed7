"""What the processes of this installation say of themselves, put together."""

from __future__ import annotations

from hookline.api.services import Services, part
from hookline.features.fleet.fleet import FleetLog
from hookline.features.fleet.metrics import OwnMetrics, RoleMetrics
from hookline.features.fleet.whole import WholeMachine


@part
def own_metrics(services: Services) -> OwnMetrics:
    """Return the metrics of control itself."""
    return OwnMetrics()


@part
def role_metrics(services: Services) -> RoleMetrics:
    """Return what the roles of this machine report."""
    return RoleMetrics(services.settings.data_path)


@part
def whole_machine(services: Services) -> WholeMachine:
    """Return whether all roles of this machine work."""
    return WholeMachine(services.settings.data_path, role_metrics(services))


@part
def fleet_log(services: Services) -> FleetLog:
    """Return what all machines report."""
    return FleetLog(services.settings, role_metrics(services))
