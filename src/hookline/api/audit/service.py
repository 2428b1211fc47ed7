"""The record of who changed what, put together."""

from __future__ import annotations

from hookline.api.audit.log import AuditLog
from hookline.api.services import Services, control_database, part


@part
def audit_log(services: Services) -> AuditLog:
    """Return the audit log."""
    return AuditLog(control_database(services), steady_ms=services.store.steady_ms)
