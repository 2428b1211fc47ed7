"""``/healthz``, ``/readyz`` and ``/metrics`` at the root of the control port, for probes and scrapers."""

from __future__ import annotations

import msgspec
from litestar import Response, get

from hookline.control.services import FromServices
from hookline.database.outages import OUTAGES

PASSING = ("locked", "slow")


@get("/healthz", sync_to_thread=False, needs="open")
def get_healthz() -> Response[bytes]:
    """Say that the process is alive."""
    return Response(b'{"status":"ok"}', media_type="application/json")


@get("/readyz", sync_to_thread=False, needs="open")
def get_readyz(services: FromServices) -> Response[bytes]:
    """Say whether start-up is finished, the connections file included, no stop has begun and its databases can be used.

    A lock, or a statement that took too long, is about some of what is asked for: the rest can be served.
    """
    met = sorted(OUTAGES.current(), key=lambda outage: outage.seen)  # the last one says most
    lasting = [outage.trouble.code for outage in met if outage.kind not in PASSING]
    if services.ready and lasting:
        return Response(msgspec.json.encode({"status": lasting[-1]}), status_code=503, media_type="application/json")
    if services.ready and met:
        body = {"status": "ready", "database": met[-1].trouble.code}
        return Response(msgspec.json.encode(body), media_type="application/json")
    if services.ready:
        return Response(b'{"status":"ready"}', media_type="application/json")
    return Response(b'{"status":"not_ready"}', status_code=503, media_type="application/json")


@get("/metrics", needs="open")
async def get_metrics(services: FromServices) -> Response[bytes]:
    """Return the counters of all roles in Prometheus' text format."""
    from hookline.control.exposition import CONTENT_TYPE, exposition  # here: only a scraped server pays for it

    return Response(exposition(services.metrics.reports()), media_type=CONTENT_TYPE)
