"""Destinations that are held back: by a person, or by Hookline because every URL answered 410 (DESIGN 6.2)."""

from __future__ import annotations

from collections.abc import Sequence

from hookline.connections.model import Pause
from hookline.events.timestamps import iso
from hookline.features.notices.conditions.finding import Finding, Moment


class Pauses:
    """Reads nothing: a pause is part of the connections."""

    kinds = ("destination_paused", "destination_gone")

    def findings(self, moment: Moment) -> Sequence[Finding]:
        """Return every pause in force."""
        return [_finding(id, pause) for id, pause in moment.pauses.items()]

    def close(self) -> None:
        """Nothing is held."""


def _finding(id: str, pause: Pause) -> Finding:
    kind = "destination_gone" if pause.by == "hookline" else "destination_paused"
    because = f": {pause.reason}" if pause.reason else ""
    return Finding(kind, id, f"since {iso(pause.since)}{because}")
