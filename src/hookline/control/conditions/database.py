"""Databases: outages of PostgreSQL that are over, for while one lasts nothing can be written down, and databases that
went back in time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hookline.control.conditions.finding import Finding, Moment
from hookline.database.commits import found_behind
from hookline.database.outages import OUTAGES, Outages


class DatabaseOutages:
    """Tells of each that control has seen, once."""

    kinds = ("database_was_away",)

    def __init__(self, outages: Outages = OUTAGES) -> None:
        self._outages = outages
        self._told = outages.ended

    def findings(self, moment: Moment) -> Sequence[Finding]:
        """The outages since the last look."""
        new, self._told = self._outages.ended - self._told, self._outages.ended
        if not new:
            return ()
        often = "" if new == 1 else f"{new} times, the last time "
        return [Finding("database_was_away", "PostgreSQL", f"{often}for {self._outages.last_seconds:.1f} s", new)]

    def close(self) -> None:
        """Nothing is held."""


class DatabasesWentBack:
    """Tells for a day of each that a role of this data folder found behind what it had committed."""

    kinds = ("database_went_back",)

    def __init__(self, data_path: Path) -> None:
        self._data_path = data_path

    def findings(self, moment: Moment) -> Sequence[Finding]:
        """One for each database."""
        found = found_behind(self._data_path, moment.now_ms / 1000)
        return [Finding("database_went_back", each.which, each.detail, each.commits) for each in found]

    def close(self) -> None:
        """Nothing is held."""
