"""The processes: one that was started again, and one that has stopped reporting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from hookline.events.timestamps import iso
from hookline.features.notices.conditions.finding import Finding, Moment
from hookline.telemetry.metrics import PROCESS_STARTED

DOWN_MS = 30_000
"""No report for so long, and the role is taken for dead; a restart takes seconds."""
QUIET_MS = 3_600_000
"""A restart stays worth knowing for so long."""
SAME_START_SECONDS = 0.5


class Roles:
    """Compares when each role says it started. ``control_restarted``: this process itself is a second try. ``wanted``
    tells of the roles that ought to report, although they may never have."""

    kinds = ("role_restarted", "role_down")

    def __init__(self, control_restarted: bool = False, wanted: Callable[[], Iterable[str]] = tuple[str, ...]) -> None:
        self._wanted = wanted
        self._started: dict[str, float] = {}
        self._stale_since_ms: dict[str, int] = {}
        self._restarted = {"control"} if control_restarted else set[str]()

    def findings(self, moment: Moment) -> Sequence[Finding]:
        """Roles that ended and came back within the last hour, and roles that are away."""
        for role, report in moment.reports.items():
            if report.fresh:
                self._stale_since_ms.pop(role, None)
                self._note_start(role, report.number(PROCESS_STARTED))
            else:
                self._stale_since_ms.setdefault(role, moment.now_ms)
        for role in self._wanted():
            if role not in moment.reports:
                self._stale_since_ms.setdefault(role, moment.now_ms)
        found = [_down(role, since) for role, since in self._stale_since_ms.items() if moment.now_ms - since >= DOWN_MS]
        found += [_restarted(role, moment) for role in sorted(self._restarted)]
        found += [
            Finding("role_restarted", subject, "", weak=True)
            for (kind, subject), notice in moment.notices.items()
            if kind == "role_restarted" and moment.now_ms - notice.last_seen_at_ms < QUIET_MS
        ]
        self._restarted.clear()
        return found

    def close(self) -> None:
        """Nothing is held."""

    def _note_start(self, role: str, started: float) -> None:
        before = self._started.setdefault(role, started)
        if abs(before - started) > SAME_START_SECONDS:
            self._started[role] = started
            self._restarted.add(role)


def _down(role: str, since_ms: int) -> Finding:
    return Finding("role_down", role, f"no report since {iso(since_ms)}")


def _restarted(role: str, moment: Moment) -> Finding:
    notice = moment.notices.get(("role_restarted", role))
    count = 1 + (notice.count if notice else 0)
    return Finding("role_restarted", role, "once" if count == 1 else f"{count} times since this was noticed", count)
