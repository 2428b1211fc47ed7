"""The databases: outages of PostgreSQL that are over, as nothing can be written down while one lasts, roles that reach
a database and cannot use it, files that are damaged, and databases that went back in time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hookline.database.commits import found_behind
from hookline.database.file_damage import how_to_mend, marked
from hookline.database.outages import OUTAGES, Outages
from hookline.features.notices.conditions.finding import Finding, Moment

MARKED_SECONDS = 300.0
"""A role that cannot work with a file starts again and meets it again, sooner than this."""


class DatabaseDamage:
    """Tells of files that a role has ended for."""

    kinds = ("database_damaged",)

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def findings(self, moment: Moment) -> Sequence[Finding]:
        """Return each file that a role has met lately."""
        found = marked(self._folder, MARKED_SECONDS)
        return [Finding(self.kinds[0], name, f"{reason}. Next: {how_to_mend(Path(name))}") for name, reason in found]

    def close(self) -> None:
        """Nothing is held."""


class DatabaseOutages:
    """Tells of each that control has seen, once, and of what roles report as long as they do."""

    kinds = ("database_was_away", "database_unusable")

    def __init__(self, outages: Outages = OUTAGES) -> None:
        self._outages = outages
        self._told = outages.ended

    def findings(self, moment: Moment) -> Sequence[Finding]:
        """Return the outages since the last look, and the roles that are in trouble now."""
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


class DatabasesWentBack:
    """Tells for a day of each that a role of this data folder found behind what it had committed."""

    kinds = ("database_went_back",)

    def __init__(self, data_path: Path) -> None:
        self._data_path = data_path

    def findings(self, moment: Moment) -> Sequence[Finding]:
        """Return one for each database."""
        found = found_behind(self._data_path, moment.now_ms / 1000)
        return [Finding("database_went_back", each.which, each.detail, each.commits) for each in found]

    def close(self) -> None:
        """Nothing is held."""
