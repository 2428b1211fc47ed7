"""Makes the database of people once there is a first audience or computed trait, or somebody asks for a preview of one:
where it is, the profiles role runs."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from hookline.connections.store import Store
from hookline.database.location import Schema, location_of
from hookline.database.open import ensure
from hookline.database.sqlite import DatabaseError, DatabaseTooNew, engine
from hookline.people.previews.requests import PreviewRequests
from hookline.settings import Settings
from hookline.telemetry.log import logger

POLL_SECONDS = 0.5
MARK = "profiles.wanted"
"""The file that says so to the supervisor where the database is none."""


class DefinitionWatch:
    """Looks until there is one; what was made stays."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._location = location_of(settings, "profiles")
        self._mark = settings.data_path / MARK if isinstance(self._location, Schema) else self._location
        self._store = store
        self._previews = PreviewRequests(settings.data_path / "run")

    async def run_forever(self) -> None:
        """Look until it is there; it stays."""
        failed = False
        while not self._mark.exists():
            try:
                self.look()
            except (engine.Error, OSError, DatabaseError) as error:
                if not failed:
                    logger().warning(
                        "profiles_not_made", error=str(error), next_step="it is tried again until it works"
                    )
                failed = True
            await asyncio.sleep(POLL_SECONDS)
        if failed:
            logger().info("profiles_made")

    def look(self) -> None:
        """Make it if it is asked for."""
        if self._store.in_force("audience") or self._store.in_force("computedTrait") or self._is_preview_asked():
            with suppress(DatabaseTooNew):  # then it is made, and profiles stand by
                ensure(self._location, "profiles")
            self._mark.touch()

    def _is_preview_asked(self) -> bool:
        return bool(self._previews.asked(int(time.time() * 1000)))
