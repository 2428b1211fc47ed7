"""Makes ``profiles.db`` once there is a first audience or computed trait, or somebody asks for a preview of one: where
it is, the profiles role runs."""

from __future__ import annotations

import asyncio
import time

from hookline.connections.store import Store
from hookline.database.open import DatabaseError, ensure
from hookline.database.sqlite import engine
from hookline.profiles.preview_wishes import PreviewWishes
from hookline.settings import Settings
from hookline.telemetry.log import logger

LOOK_SECONDS = 0.5


class DefinitionWatch:
    """Looks until there is one; what was made stays."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._path = settings.data_path / "profiles.db"
        self._store = store
        self._previews = PreviewWishes(settings.data_path / "run")

    async def run(self) -> None:
        """Return once there is a ``profiles.db``."""
        while not self._path.exists():
            try:
                self.look()
            except (engine.Error, OSError, DatabaseError) as error:
                logger().warning("profiles_not_made", error=str(error), next_step="it is tried again")
            await asyncio.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """Make it if it is asked for."""
        if self._store.in_force("audience") or self._store.in_force("computedTrait") or self._is_preview_asked():
            ensure(self._path, "profiles")

    def _is_preview_asked(self) -> bool:
        return bool(self._previews.asked(int(time.time() * 1000)))
