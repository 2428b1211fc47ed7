"""Whether a role traces at all: what it takes to do so is imported only then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookline.settings import Settings

if TYPE_CHECKING:
    from hookline.telemetry.tracing import Tracing


def traces_of(settings: Settings, role: str) -> Tracing | None:
    """The traces of this role; None where the settings name no collector."""
    if not settings.tracing.endpoint:
        return None
    from hookline.telemetry.tracing import open_tracing

    return open_tracing(settings.tracing, role)
