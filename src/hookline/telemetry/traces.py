"""Opens a role's traces where the settings name a collector: what it takes to trace is imported only then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookline.extras import install_extra
from hookline.settings import Settings
from hookline.telemetry.log import logger

if TYPE_CHECKING:
    from hookline.telemetry.tracing import Tracing


def traces_of(settings: Settings, role: str) -> Tracing | None:
    """Return the traces of this role; None, with a line in the log, where the extra is not installed."""
    endpoint = settings.tracing.endpoint
    if not endpoint:
        return None
    try:
        from hookline.telemetry.span_export import OtlpExporter
    except ImportError:
        logger().warning("tracing_unavailable", next_step=f"{install_extra('otel')}; or unset tracing.endpoint")
        return None
    from hookline.telemetry.tracing import Tracing

    return Tracing(OtlpExporter(endpoint, f"hookline-{role}"), settings.tracing.ratio)
