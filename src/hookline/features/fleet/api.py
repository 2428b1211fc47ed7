"""``/api/v1/workers``: the deliver processes over all machines, and who delivers which partition."""

from __future__ import annotations

import asyncio

import msgspec
from litestar import Response, get
from litestar.types import Scope

from hookline.api.services import FromServices
from hookline.database.outages import OUTAGES
from hookline.database.sqlite import engine
from hookline.features.destinations.figures import as_metrics, figures_log
from hookline.features.fleet.metrics import RoleReport
from hookline.features.fleet.service import WORKING, Fleet, asks_for_all, fleet_log, role_metrics, whole_machine


@get("/workers", needs="viewer")
async def get_workers(services: FromServices) -> Fleet:
    """Return the deliver processes, the partitions of each, and how far behind each partition is."""
    return await asyncio.to_thread(fleet_log(services).look)


PASSING = ("locked", "slow")
JSON = "application/json"


@get("/healthz", sync_to_thread=False, needs="open")
def get_healthz() -> Response[bytes]:
    """Say that the process is alive."""
    return Response(b'{"status":"ok"}', media_type="application/json")


@get("/readyz", sync_to_thread=False, needs="open")
def get_readyz(services: FromServices, scope: Scope) -> Response[bytes]:
    """Say whether start-up is finished, the connections file included, no stop has begun and the databases can be used;
    with ``?all`` whether every role of this machine works, and which does not.

    A lock, or a statement that took too long, is about some of what is asked for: the rest can be served.
    """
    met = sorted(OUTAGES.current(), key=lambda outage: outage.seen)  # the last one says most
    lasting = [outage.trouble.code for outage in met if outage.kind not in PASSING]
    status = "not_ready" if not services.ready else lasting[-1] if lasting else "ready"
    if asks_for_all(scope["query_string"]):
        whole = whole_machine(services).look(WORKING if status == "ready" else status)
        return Response(msgspec.json.encode(whole), status_code=200 if whole.is_ready else 503, media_type=JSON)
    body = {"status": status}
    if status == "ready" and met:
        body["database"] = met[-1].trouble.code
    return Response(msgspec.json.encode(body), status_code=200 if status == "ready" else 503, media_type=JSON)


@get("/metrics", needs="open")
async def get_metrics(services: FromServices) -> Response[bytes]:
    """Return the counters of all roles in Prometheus' text format."""
    from hookline.features.fleet.exposition import CONTENT_TYPE, exposition  # here: only a scraped server pays for it

    reports = role_metrics(services).reports()
    own = reports.get("control", RoleReport("control", True, {}))
    try:
        figures = as_metrics(await asyncio.to_thread(figures_log(services).look))
    except (engine.Error, OSError):  # the other counters are wanted most while a database is away
        figures = {}
    reports["control"] = own._replace(values={**own.values, **figures})
    return Response(exposition(reports), media_type=CONTENT_TYPE)
