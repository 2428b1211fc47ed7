"""Notices about destinations: breakers, dead letters, pauses, deletions that get stuck, certificates that end."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from hookline.connections.model import Pause
from hookline.connections.notifications import lowest_count, lowest_seconds
from hookline.connections.secrets import why_unusable
from hookline.database.location import DatabaseLocation
from hookline.deliver.send.client_certificate import fault_and_details
from hookline.deliver.send.port import Pair
from hookline.events.timestamps import iso
from hookline.features.notices.conditions.finding import Finding, Moment
from hookline.outcomes.reader import DeliverReader
from hookline.outcomes.rows import Failure
from hookline.privacy.model import Messages
from hookline.settings import Settings

ATTEMPTS_LOOKED_AT_MAX = 500
"""Failed attempts read, newest first, to say why breakers are open."""


class Breakers:
    """Reads deliver's report, and its database only when there is something to say."""

    kinds = ("destination_breaker_open",)

    def __init__(self, location: DatabaseLocation, open_seconds: float, settings: Settings) -> None:
        self._deliver = DeliverReader(location)
        self._open_seconds = open_seconds
        self._settings = settings
        self._since_ms: dict[str, int] = {}

    def findings(self, moment: Moment) -> Sequence[Finding] | None:
        """Breakers open for longer than the threshold; a pause is told otherwise."""
        if moment.open_breakers is None:
            return None
        is_open = moment.open_breakers - moment.pauses.keys()
        self._since_ms = {id: self._since_ms.get(id) or self._first_seen(id, moment) for id in is_open}
        rules = moment.waits_for("destination_failing")
        after_ms = {id: lowest_seconds(rules, "destination_failing", id, self._open_seconds) * 1000 for id in is_open}
        due = [id for id, after in after_ms.items() if after > 0 and self._is_due(id, after, moment)]
        if not due:
            return ()
        failures = self._deliver.attempts.latest_failures(ATTEMPTS_LOOKED_AT_MAX)
        last = {moment.lanes[lane]: _words(each) for lane, each in failures.items() if lane in moment.lanes}
        return [
            self._finding(id, self._unusable(moment, id) or last.get(id, "no attempt succeeded")) for id in sorted(due)
        ]

    def close(self) -> None:
        """Close the database; idempotent."""
        self._deliver.close()

    def _is_due(self, id: str, after_ms: float, moment: Moment) -> bool:
        return moment.open_notice(self.kinds[0], id) is not None or moment.has_lasted(self._since_ms[id], after_ms)

    def _first_seen(self, id: str, moment: Moment) -> int:
        known = moment.open_notice(self.kinds[0], id)
        if known is None:
            return moment.now_ms
        # A notice is opened when the breaker has been open for the threshold: a restart must not begin to count anew.
        return known.since_ms or known.opened_at_ms - int(self._open_seconds * 1000)

    def _unusable(self, moment: Moment, id: str) -> str | None:
        return why_unusable(moment.destinations[id].object, self._settings, moment.now_ms)

    def _finding(self, id: str, why: str) -> Finding:
        since_ms = self._since_ms[id]
        return Finding(self.kinds[0], id, f"{why}, since {iso(since_ms)}", since_ms=since_ms)


def _words(failure: Failure) -> str:
    return f"{failure.outcome.replace('_', ' ')} {failure.http_status or ''}".strip()


WINDOW_MS = 3_600_000
STEP_MS = 60_000
"""The hour is counted in minutes."""
FIRST_LOOK_ROWS_MAX = 200_000
"""Rows of the last hour read when control starts."""


class DeadLetters:
    """Reads only rows that are new since the last look."""

    kinds = ("dead_letters_growing",)

    def __init__(self, location: DatabaseLocation, threshold: int) -> None:
        self._deliver = DeliverReader(location)
        self._threshold = threshold
        self._last_id: int | None = None
        # Per destination: minute, lowest id of that minute, count.
        self._minutes: dict[str, deque[tuple[int, int, int]]] = {}

    def findings(self, moment: Moment) -> Sequence[Finding] | None:
        """Destinations with too many; half as many keep a notice open."""
        exists = self._deliver.exists
        rules = moment.waits_for("dead_letters")
        if not self._threshold and not rules:
            return ()
        if not exists:
            return None
        self._read(moment.now_ms)
        self._forget(moment.now_ms - WINDOW_MS)
        found = []
        for destination in sorted(self._minutes.keys() & moment.enabled):
            minutes = self._minutes[destination]
            threshold = lowest_count(rules, "dead_letters", destination, self._threshold)
            if not threshold or sum(count for _, _, count in minutes) * 2 < threshold:
                continue
            # What a breaker took back when it opened does not count.
            count = self._deliver.dead_letters.kept(destination, minutes[0][1])
            if count * 2 >= threshold:
                number = f"{count:,}".replace(",", "\u202f")
                detail = f"{number} {'event' if count == 1 else 'events'} not delivered in the last hour"
                found.append(Finding(self.kinds[0], destination, detail, count, weak=count < threshold))
        return found

    def close(self) -> None:
        """Close the database; idempotent."""
        self._deliver.close()

    def _read(self, now_ms: int) -> None:
        newest = self._deliver.dead_letters.last_id()
        after = max(0, newest - FIRST_LOOK_ROWS_MAX) if self._last_id is None else self._last_id
        self._last_id = max(newest, self._last_id or 0)
        if newest <= after:
            return
        steps = self._deliver.dead_letters.by_step(after, newest, now_ms - WINDOW_MS, STEP_MS)
        for destination, minute, first_id, count in steps:
            self._minutes.setdefault(destination, deque()).append((minute, first_id, count))

    def _forget(self, before_ms: int) -> None:
        for destination, minutes in list(self._minutes.items()):
            while minutes and minutes[0][0] * STEP_MS < before_ms:
                minutes.popleft()
            if not minutes:
                del self._minutes[destination]


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
    return Finding(kind, id, f"since {iso(pause.since)}{because}", since_ms=pause.since)


FAILED_SHOWN_MS = 7 * 86_400_000
"""How long a message that was not delivered is shown."""


class Deletions:
    """Asks for what was sent more than once."""

    kinds = ("deletion_not_acknowledged",)

    def __init__(self, messages: Messages) -> None:
        self._messages = messages

    def findings(self, moment: Moment) -> Sequence[Finding]:
        """Return every destination that some message was sent to again, or got none within the last week."""
        found = self._messages.unacknowledged(moment.now_ms - FAILED_SHOWN_MS)
        return [
            Finding(
                "deletion_not_acknowledged",
                each.destination,
                f"{each.messages} delete {'message' if each.messages == 1 else 'messages'}, since {iso(each.since_ms)}",
                each.messages,
                since_ms=each.since_ms,
            )
            for each in found
        ]

    def close(self) -> None:
        """Nothing is held."""


AHEAD = timedelta(days=30)
LOOK_MS = 60_000
"""From one look at the files to the next, either way the clock goes: they are read, and a notice may be so late."""


class ClientCertificates:
    """Reads each certificate that an enabled destination refers to, once a minute."""

    kinds = ("client_certificate_expiring", "client_certificate_unusable")

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._looked_at_ms = 0
        self._pairs: Mapping[str, Pair] = {}
        self._found: Sequence[Finding] = ()

    def findings(self, moment: Moment) -> Sequence[Finding]:
        """Those that expire within 30 days, have expired, or cannot be used."""
        pairs = moment.certificate_pairs
        if pairs != self._pairs or abs(moment.now_ms - self._looked_at_ms) >= LOOK_MS:
            self._pairs, self._looked_at_ms = pairs, moment.now_ms
            now = datetime.fromtimestamp(moment.now_ms / 1000, UTC)
            self._found = [found for id, pair in pairs.items() if (found := self._finding(id, pair, now)) is not None]
        return self._found

    def close(self) -> None:
        """Nothing is held."""

    def _finding(self, id: str, pair: Pair, now: datetime) -> Finding | None:
        fault, details = fault_and_details(pair, self._settings, now)
        if fault is not None:
            return Finding("client_certificate_unusable", id, fault)
        if details is None or details.expires_at > now + AHEAD:
            return None
        expiry = f"{details.subject} of {details.issuer}, valid until {details.expires_at:%Y-%m-%d %H:%M} UTC"
        return Finding("client_certificate_expiring", id, expiry)
