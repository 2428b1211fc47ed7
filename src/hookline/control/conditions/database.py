"""The databases: outages of PostgreSQL that are over, as nothing can be written down while one lasts, and roles that
reach a database and cannot use it."""

from __future__ import annotations

from collections.abc import Sequence

from hookline.control.conditions.finding import Finding, Moment
from hookline.database.outages import OUTAGES, Outages


class DatabaseOutages:
    """Tells of each that control has seen, once, and of what roles report as long as they do."""

    kinds = ("database_was_away", "database_unusable")

    def __init__(self, outages: Outages = OUTAGES) -> None:
        self._outages = outages
        self._told = outages.ended

    def findings(self, moment: Moment) -> Sequence[Finding]:
        """The outages since the last look, and the roles that are in trouble now."""
        found = [each for role in moment.reports for each in _unusable(role, moment)]
        new, self._told = self._outages.ended - self._told, self._outages.ended
        if new:
            often = "" if new == 1 else f"{new} times, the last time "
            seconds = f"{often}for {self._outages.last_seconds:.1f} s"
            found.append(Finding("database_was_away", "PostgreSQL", seconds, new))
        return found

    def close(self) -> None:
        """Nothing is held."""


def _unusable(role: str, moment: Moment) -> Sequence[Finding]:
    report = moment.reports[role]
    kinds = report.by_label(f"hookline_{role}_database_trouble") if report.fresh else {}
    named = [kind.replace("_", "-") for kind in kinds if kind != "away"]
    return [Finding("database_unusable", role, ", ".join(named))] if named else []
