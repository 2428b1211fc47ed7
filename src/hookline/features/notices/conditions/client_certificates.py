"""Client certificates of destinations: those that expire soon, and those that cannot be shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from hookline.deliver.send.client_certificate import fault_and_details
from hookline.deliver.send.port import Pair
from hookline.features.notices.conditions.finding import Finding, Moment
from hookline.settings import Settings

AHEAD = timedelta(days=30)
LOOK_MS = 60_000
"""From one look at the files to the next: they are read, and a notice may be so late."""


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
        if pairs != self._pairs or moment.now_ms - self._looked_at_ms >= LOOK_MS:
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
