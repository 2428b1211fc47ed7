"""When sources were last heard: what collect reports since it started, and what is remembered from before."""

from __future__ import annotations

from collections.abc import Sequence

from hookline.control.conditions.sources import SOURCE_LAST_EVENT
from hookline.control.services import Services
from hookline.web.rendering import iso_seconds


def last_heard(services: Services, ids: Sequence[str]) -> dict[str, str]:
    """ISO times by source; a source that was never heard is missing."""
    heard = {id: at / 1000 for id, at in services.activity.of(ids).items()}
    collect = services.metrics.reports().get("collect")
    reported = collect.by_label(SOURCE_LAST_EVENT) if collect else {}
    for id in ids:
        if id in reported:
            heard[id] = max(heard.get(id, 0), reported[id])
    return {id: iso_seconds(at) for id, at in heard.items()}
