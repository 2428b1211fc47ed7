"""What dead letters are read with, put together."""

from __future__ import annotations

from hookline.api.services import Services, part
from hookline.database.location import location_of
from hookline.features.dead_letters.log import DeadLetterLog


@part
def dead_letter_log(services: Services) -> DeadLetterLog:
    """Return what finds dead letters."""
    return DeadLetterLog(location_of(services.settings, "deliver"))
