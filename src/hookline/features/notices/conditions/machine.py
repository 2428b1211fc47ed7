"""Notices about this machine and what comes in: the disk, the roles, the database, and silent sources."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from hookline.connections.notifications import lowest_seconds
from hookline.database.commits import found_behind
from hookline.database.file_damage import how_to_mend, marked
from hookline.database.outages import OUTAGES, Outages
from hookline.events.timestamps import iso
from hookline.features.notices.conditions.finding import Finding, Moment
from hookline.features.sources.service import SourceActivity
from hookline.telemetry.metrics import PROCESS_STARTED

MARGIN = 1.1
"""So many times the threshold must be free again before a notice is resolved."""
SUBJECT = "data_dir"


def free_bytes(folder: Path) -> int:
    """Return what an ordinary user may still write."""
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


class DiskRoom:
    """One system call per look."""

    kinds = ("disk_nearly_full",)

    def __init__(self, data_path: Path, threshold_bytes: int, free: Callable[[Path], int] = free_bytes) -> None:
        self._folder = data_path
        self._threshold_bytes = threshold_bytes
        self._free = free

    def findings(self, moment: Moment) -> Sequence[Finding]:
        """Return the one finding there can be."""
        free = self._free(self._folder)
        if free >= self._threshold_bytes * MARGIN:
            return ()
        detail = f"{megabytes(free)} free, the threshold is {megabytes(self._threshold_bytes)}"
        return (Finding(self.kinds[0], SUBJECT, detail, weak=free >= self._threshold_bytes),)

    def close(self) -> None:
        """Nothing is held."""


def megabytes(count: int) -> str:
    """Bytes as people read them."""
    return f"{count / 1024**2:.0f} MB" if count < 10 * 1024**3 else f"{count / 1024**3:.0f} GB"


class UnappliedFile:
    """Says of the connections file that control could not apply when it started, until one is applied."""

    kinds = ("connections_file_not_applied",)

    def __init__(self, unapplied: Callable[[], tuple[str, str] | None]) -> None:
        """``unapplied`` returns the file and why it was not applied."""
        self._unapplied = unapplied

    def findings(self, moment: Moment) -> Sequence[Finding]:
        """Return the one finding there can be."""
        found = self._unapplied()
        return () if found is None else (Finding(self.kinds[0], found[0], found[1].rstrip(".")),)

    def close(self) -> None:
        """Nothing is held."""


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
                self._note_away(role, moment)
        wanted = self._wanted()
        for role in wanted:
            if role not in moment.reports:
                self._note_away(role, moment)
        for role in self._stale_since_ms.keys() - moment.reports.keys() - set(wanted):
            del self._stale_since_ms[role]  # its last report was removed: it is to run here no more
        found = [_down(role, since) for role, since in self._stale_since_ms.items() if _is_down(role, since, moment)]
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

    def _note_away(self, role: str, moment: Moment) -> None:
        known = moment.open_notice("role_down", role)  # of before control started again
        since_ms = None if known is None else known.since_ms
        self._stale_since_ms.setdefault(role, moment.now_ms if since_ms is None else since_ms)

    def _note_start(self, role: str, started: float) -> None:
        before = self._started.setdefault(role, started)
        if abs(before - started) > SAME_START_SECONDS:
            self._started[role] = started
            self._restarted.add(role)


def _is_down(role: str, since_ms: int, moment: Moment) -> bool:
    return moment.open_notice("role_down", role) is not None or moment.has_lasted(since_ms, DOWN_MS)


def _down(role: str, since_ms: int) -> Finding:
    return Finding("role_down", role, f"no report since {iso(since_ms)}", since_ms=since_ms)


def _restarted(role: str, moment: Moment) -> Finding:
    notice = moment.notices.get(("role_restarted", role))
    count = 1 + (notice.count if notice else 0)
    return Finding("role_restarted", role, "once" if count == 1 else f"{count} times since this was noticed", count)


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
        self._reported = outages.ended

    def findings(self, moment: Moment) -> Sequence[Finding]:
        """Return the outages since the last look, and the roles that are in trouble now."""
        found = [each for role in moment.reports for each in _unusable(role, moment)]
        new, self._reported = self._outages.ended - self._reported, self._outages.ended
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


SOURCE_LAST_EVENT = "hookline_collect_source_last_event_seconds"
SAVE_MS = 60_000
"""The remembered time of a source that goes on sending is at most so old."""
GRACE_MS_MAX = 600_000
"""Time that senders get to come back after collect was away."""


class Sources:
    """Compares collect's report with what is remembered."""

    kinds = ("source_silent",)

    def __init__(self, activity: SourceActivity, silent_seconds: float) -> None:
        self._activity = activity
        self._silent_seconds = silent_seconds
        self._saved_ms: dict[str, int] | None = None
        self._last_ms: dict[str, int] = {}
        self._reported_ms: dict[str, int] = {}

    def findings(self, moment: Moment) -> Sequence[Finding] | None:
        """Enabled sources without an event for longer than the threshold; None while collect does not report."""
        collect = moment.reports.get("collect")
        if collect is None or not collect.fresh:
            return None
        if self._saved_ms is None:
            self._saved_ms = self._activity.load()
            self._last_ms = dict(self._saved_ms)
        for id, seconds in collect.by_label(SOURCE_LAST_EVENT).items():
            self._note(id, int(seconds * 1000))
        self._save({stored.object.id for stored in moment.sources}, self._saved_ms)
        up_ms = moment.now_ms - collect.number(PROCESS_STARTED) * 1000
        rules = moment.waits_for("source_silent")
        enabled = [stored.object.id for stored in moment.sources if stored.object.enabled]
        setting = self._silent_seconds
        silent_ms = {
            id: (lowest_seconds(rules, "source_silent", id, setting) if rules else setting) * 1000 for id in enabled
        }
        thresholds = [each for each in silent_ms.values() if each]
        if not thresholds or up_ms < min(GRACE_MS_MAX, *thresholds):
            return None if thresholds else []
        return [self._finding(id) for id in enabled if self._is_silent(id, moment, silent_ms[id])]

    def close(self) -> None:
        """Let go of what is remembered; idempotent."""
        self._activity.close()

    def _note(self, id: str, at_ms: int) -> None:
        """Take a later time, or after the clock was set back any other one than before: there was an event."""
        is_new = at_ms != self._reported_ms.get(id, at_ms)
        self._reported_ms[id] = at_ms
        self._last_ms[id] = at_ms if is_new else max(at_ms, self._last_ms.get(id, 0))

    def _is_silent(self, id: str, moment: Moment, silent_ms: float) -> bool:
        if not silent_ms or id not in self._last_ms:
            return False
        known = moment.open_notice(self.kinds[0], id)
        if known is not None and known.since_ms is not None and 0 <= known.since_ms - self._last_ms[id] <= SAVE_MS:
            return True  # no event since: a clock that was set back ends no silence
        return moment.now_ms - self._last_ms[id] >= silent_ms

    def _finding(self, id: str) -> Finding:
        last_ms = self._last_ms[id]
        return Finding(self.kinds[0], id, f"its last event arrived at {iso(last_ms)}", since_ms=last_ms)

    def _save(self, known: set[str], saved_ms: dict[str, int]) -> None:
        """Remember what moved on, and forget sources that are no longer there."""
        gone = self._last_ms.keys() - known
        for id in gone:
            del self._last_ms[id]
            self._reported_ms.pop(id, None)
        moved = {id: at for id, at in self._last_ms.items() if at - saved_ms.get(id, 0) >= SAVE_MS}
        if moved or gone & saved_ms.keys():
            self._activity.save(moved, gone & saved_ms.keys())
            saved_ms.update(moved)
            for id in gone:
                saved_ms.pop(id, None)
