"""``/healthz``, ``/readyz`` and ``/metrics``, answered without the framework: they are asked for first."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import msgspec

from hookline.api.calls import is_http
from hookline.api.problem import CODES, Problem, answer, log_fault
from hookline.api.services import Services
from hookline.database.outages import OUTAGES
from hookline.database.sqlite import DatabaseAway, engine
from hookline.features.destinations.figures import as_metrics, figures_log
from hookline.features.fleet.metrics import RoleReport
from hookline.features.fleet.service import WORKING, asks_for_all, role_metrics, whole_machine

if TYPE_CHECKING:
    from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send

PASSING = ("locked", "slow")
JSON = "application/json"


class Probes:
    """ASGI wrapper that answers the probes, whoever asks, and passes everything else on."""

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self._app = app
        self._services = services
        self._answers = {"/healthz": self._healthz, "/readyz": self._readyz, "/metrics": self._metrics}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request."""
        probe = self._answers.get(scope["path"]) if is_http(scope) else None
        if probe is None:
            await self._app(scope, receive, send)
            return
        method = cast("HTTPScope", scope)["method"]
        if method not in ("GET", "HEAD"):
            await answer(send, Problem(405, *CODES[405], headers={"Allow": "GET, HEAD"}), scope["path"])
        else:
            try:
                status, kind, body = await probe(scope["query_string"])
            except DatabaseAway:
                raise  # the gate around all answers says what that means
            except Exception as error:  # noqa: BLE001 - as for every other call
                await answer(send, Problem(500, *CODES[500]), log_fault(error, method))
                return
            headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": body, "more_body": False})

    async def _healthz(self, query: bytes) -> tuple[int, str, bytes]:
        """Say that the process is alive."""
        return 200, JSON, b'{"status":"ok"}'

    async def _readyz(self, query: bytes) -> tuple[int, str, bytes]:
        """Say whether start-up is finished, the connections file included, no stop has begun and the databases can be
        used; with ``?all`` whether every role of this machine works, and which does not.

        A lock, or a statement that took too long, is about some of what is asked for: the rest can be served.
        """
        met = sorted(OUTAGES.current(), key=lambda outage: outage.seen)  # the last one says most
        lasting = [outage.trouble.code for outage in met if outage.kind not in PASSING]
        status = "not_ready" if not self._services.ready else lasting[-1] if lasting else "ready"
        if asks_for_all(query):
            whole = whole_machine(self._services).look(WORKING if status == "ready" else status)
            return 200 if whole.is_ready else 503, JSON, msgspec.json.encode(whole)
        body = {"status": status}
        if status == "ready" and met:
            body["database"] = met[-1].trouble.code
        return 200 if status == "ready" else 503, JSON, msgspec.json.encode(body)

    async def _metrics(self, query: bytes) -> tuple[int, str, bytes]:
        """Return the counters of all roles in Prometheus' text format."""
        from hookline.features.fleet.exposition import CONTENT_TYPE, exposition  # only a scraped server pays for it

        reports = role_metrics(self._services).reports()
        own = reports.get("control", RoleReport("control", True, {}))
        try:
            figures = as_metrics(await asyncio.to_thread(figures_log(self._services).look))
        except (engine.Error, OSError):  # the other counters are wanted most while a database is away
            figures = {}
        reports["control"] = own._replace(values={**own.values, **figures})
        return 200, CONTENT_TYPE, exposition(reports)
