"""``/healthz``, ``/readyz`` and ``/metrics`` at the root of the control port, for probes and scrapers."""

from __future__ import annotations

import msgspec
from litestar import Response, get
from litestar.types import Scope

from hookline.control.services import FromServices
from hookline.control.whole import WORKING, asks_for_all
from hookline.database.outages import OUTAGES

JSON = "application/json"


@get("/healthz", sync_to_thread=False, needs="open")
def get_healthz() -> Response[bytes]:
    """Say that the process is alive."""
    return Response(b'{"status":"ok"}', media_type="application/json")


@get("/readyz", sync_to_thread=False, needs="open")
def get_readyz(services: FromServices, scope: Scope) -> Response[bytes]:
    """Say whether start-up is finished, the connections file included, no stop has begun and the database is there;
    with ``?all`` whether every role of this machine works, and which does not."""
    status = "not_ready" if not services.ready else "database_away" if OUTAGES.is_away else "ready"
    if asks_for_all(scope["query_string"]):
        whole = services.whole.look(WORKING if status == "ready" else status)
        return Response(msgspec.json.encode(whole), status_code=200 if whole.is_ready else 503, media_type=JSON)
    body = msgspec.json.encode({"status": status})
    return Response(body, status_code=200 if status == "ready" else 503, media_type=JSON)


@get("/metrics", needs="open")
async def get_metrics(services: FromServices) -> Response[bytes]:
    """Return the counters of all roles in Prometheus' text format."""
    from hookline.control.exposition import CONTENT_TYPE, exposition  # here: only a scraped server pays for it

    return Response(exposition(services.metrics.reports()), media_type=CONTENT_TYPE)
