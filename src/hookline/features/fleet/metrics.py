"""What control counts, and what the other roles do."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hookline.beats import next_beat
from hookline.database.outages import OUTAGES
from hookline.telemetry.metrics import Reporter, Role
from hookline.telemetry.notices import KINDS

if TYPE_CHECKING:
    from litestar.types import ASGIApp, Message, Receive, Scope, Send

REPORT_SECONDS = 1.0


class OwnMetrics:
    """Counts answers by status; ``report_forever`` writes them down once a second."""

    def __init__(self) -> None:
        self.answers: Counter[int] = Counter()
        self.notices_open: Counter[str] = Counter()
        self.notices_opened: Counter[str] = Counter()
        self.notice_webhooks: Counter[str] = Counter()
        self.notifications: Counter[str] = Counter()
        self.sign_ins: Counter[str] = Counter()
        self.connections_ended: Counter[str] = Counter()
        self.issues_open: Mapping[str, int] = {}

    def values(self) -> dict[str, Any]:
        """Return the report as it is written."""
        return {
            "hookline_control_requests_total": {
                "status": {str(status): count for status, count in self.answers.items()}
            },
            "hookline_control_database_trouble": OUTAGES.gauge(),
            "hookline_control_notices_open": {"kind": {kind: self.notices_open[kind] for kind in KINDS}},
            "hookline_control_notices_opened_total": {"kind": dict(self.notices_opened)},
            "hookline_control_issues_open": {"destination": dict(self.issues_open)},
            "hookline_control_sign_ins_total": {"outcome": dict(self.sign_ins)},
            "hookline_control_connections_ended_total": {"reason": dict(self.connections_ended)},
            "hookline_control_notice_webhooks_total": {"outcome": dict(self.notice_webhooks)},
            "hookline_control_notifications_total": {"outcome": dict(self.notifications)},
        }

    async def report_forever(self, run_folder: Path) -> None:
        """Write the report once a second until cancelled."""
        reporter = Reporter(run_folder, "control")
        while True:
            reporter.publish(self.values())
            await next_beat(REPORT_SECONDS)


class CountAnswers:
    """ASGI wrapper that counts every answer by its status."""

    def __init__(self, app: ASGIApp, metrics: OwnMetrics) -> None:
        self._app = app
        self._answers = metrics.answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request and count its answer."""

        async def counting(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._answers[message["status"]] += 1
            await send(message)

        await self._app(scope, receive, counting)


FRESH_SECONDS = 5.0
FILE_BYTES_MAX = 16 * 1024 * 1024


class RoleReport(NamedTuple):
    """The last report of one role; ``fresh`` is whether it is recent enough to say that the role runs."""

    role: str
    fresh: bool
    values: Mapping[str, Any]
    at_seconds: float = 0.0
    """When it was written, since the epoch."""

    def number(self, name: str) -> float:
        """Return a metric's value, summed over its label's values; 0 when it was not reported."""
        value = self.values.get(name, 0)
        if isinstance(value, dict):
            return sum(self.by_label(name).values())
        return value if isinstance(value, int | float) else 0

    def by_label(self, name: str) -> dict[str, float]:
        """Return the values of a metric with a label."""
        value = self.values.get(name)
        inner: dict[str, Any] = next(iter(value.values()), {}) if isinstance(value, dict) else {}
        return {key: each for key, each in inner.items() if isinstance(each, int | float)}


class RoleMetrics:
    """Reads the reports in the run folder."""

    def __init__(self, data_path: Path, clock: Callable[[], float] = time.time) -> None:
        self._folder = data_path / "run"
        self._clock = clock

    def reports(self) -> dict[str, RoleReport]:
        """Return every report there is and may be read, by role."""
        found: dict[str, RoleReport] = {}
        try:
            paths = sorted(self._folder.glob("metrics-*.json"))
        except PermissionError:  # another user's data folder
            return found
        for path in paths:
            report = self._read(path)
            if report is not None:
                found[report.role] = report
        return found

    def report(self, role: Role) -> RoleReport | None:
        """Return that of one role."""
        return self._read(self._folder / f"metrics-{role}.json")

    def _read(self, path: Path) -> RoleReport | None:
        try:
            at_seconds = path.stat().st_mtime
            with path.open("rb") as file:
                values = msgspec.json.decode(file.read(FILE_BYTES_MAX), type=dict[str, Any])
        except (OSError, msgspec.DecodeError):
            return None  # being replaced, or of a version that wrote it otherwise: the next second brings another
        # One of the future is of before the clock was set back: who still runs writes another within two seconds.
        is_fresh = abs(self._clock() - at_seconds) <= FRESH_SECONDS
        return RoleReport(path.stem.removeprefix("metrics-"), is_fresh, values, at_seconds)
