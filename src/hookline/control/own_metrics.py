"""What control itself counts, and its report beside those of the other roles."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

from litestar.types import ASGIApp, Message, Receive, Scope, Send

from hookline.database.outages import OUTAGES
from hookline.telemetry.metrics import publish
from hookline.telemetry.notices import KINDS

REPORT_SECONDS = 1.0


class OwnMetrics:
    """Counts answers by status; ``report_forever`` writes them down once a second."""

    def __init__(self) -> None:
        self.answers: Counter[int] = Counter()
        self.notices_open: Counter[str] = Counter()
        self.notices_opened: Counter[str] = Counter()
        self.notice_webhooks: Counter[str] = Counter()
        self.sign_ins: Counter[str] = Counter()
        self.connections_ended: Counter[str] = Counter()

    def values(self) -> dict[str, Any]:
        """Return the report as it is written."""
        return {
            "hookline_control_requests_total": {
                "status": {str(status): count for status, count in self.answers.items()}
            },
            "hookline_control_database_trouble": OUTAGES.gauge(),
            "hookline_control_notices_open": {"kind": {kind: self.notices_open[kind] for kind in KINDS}},
            "hookline_control_notices_opened_total": {"kind": dict(self.notices_opened)},
            "hookline_control_sign_ins_total": {"outcome": dict(self.sign_ins)},
            "hookline_control_connections_ended_total": {"reason": dict(self.connections_ended)},
            "hookline_control_notice_webhooks_total": {"outcome": dict(self.notice_webhooks)},
        }

    async def report_forever(self, run_folder: Path) -> None:
        """Write the report once a second until cancelled."""
        while True:
            publish(run_folder, "control", self.values())
            await asyncio.sleep(REPORT_SECONDS)


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
