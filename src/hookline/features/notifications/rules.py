"""When a rule speaks: which notices it is about, which thresholds they must reach, and when its quiet hours are."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from hookline.connections.notifications import DAYS, Notification, QuietHours, clock_of
from hookline.features.notices.log import Notice
from hookline.telemetry.notices import KINDS, OTHERS, TRIGGER_OF, TRIGGERS

SHARE_KIND = "destination_degraded"
"""The one kind that a share of failed requests opens: one notice for all rules, which have shares of their own."""


def is_about(rule: Notification, kind: str, subject: str) -> bool:
    """Return whether a rule is about a notice at all; about itself it never speaks."""
    trigger = TRIGGER_OF.get(kind)
    if trigger is None or not rule.covers(trigger, subject, OTHERS):
        return False
    if kind == SHARE_KIND and (rule.threshold is None or rule.threshold.failed_share is None):
        return False
    return not (kind == "notification_failing" and subject == rule.id)


def reaches(rule: Notification, notice: Notice, since_ms: int, now_ms: int) -> bool:
    """Return whether a notice that the rule is about reaches the rule's thresholds."""
    threshold = rule.threshold
    if threshold is None:
        return True
    names = TRIGGERS[TRIGGER_OF[notice.kind]].thresholds
    if "failedShare" in names and threshold.failed_share is not None:
        # `for` is the time over which the share is judged, not how long to wait.
        return True
    if threshold.count is not None and "count" in names and notice.count < threshold.count:
        return False
    seconds = rule.lasting_seconds if "for" in names and not KINDS[notice.kind].passing else None
    return seconds is None or is_past(since_ms, now_ms, int(seconds * 1000))


def is_past(since_ms: int, now_ms: int, wait_ms: int) -> bool:
    """Return whether something is so long ago, or the clock was set back by so much since: nobody waits until it has
    come so far again."""
    return abs(now_ms - since_ms) >= wait_ms


def is_quiet(quiet: QuietHours | None, now_ms: int) -> bool:
    """Return whether it is a quiet hour by the clock of its time zone, as it is set there then."""
    if quiet is None:
        return False
    now = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(ZoneInfo(quiet.time_zone))
    start, end, day = clock_of(quiet.start), clock_of(quiet.end), now.weekday()
    at = now.time()
    if start < end:
        is_in = start <= at < end
    elif at >= start:
        is_in = True
    else:  # after midnight it is the quiet of the day before
        is_in, day = at < end, (day - 1) % 7
    return is_in and (not quiet.days or DAYS[day] in quiet.days)
