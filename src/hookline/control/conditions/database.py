"""PostgreSQL: outages that are over. While one lasts nothing can be written down."""

from __future__ import annotations

from collections.abc import Sequence

from hookline.control.conditions.finding import Finding, Moment
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
