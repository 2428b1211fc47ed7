"""``/deletion-requests`` and ``/deletion-requests/{id}``: what was asked for, how far it has come, and the evidence."""

from __future__ import annotations

import asyncio
from typing import Any

from litestar import Controller, Request, Response, get
from litestar.params import FromPath

from hookline.api.handlers import FromServices
from hookline.api.listing import After, id_number, number_after
from hookline.features.privacy.api import PREFIX, view_of
from hookline.features.privacy.evidence import BY_HAND, OPEN, evidence_of
from hookline.features.privacy.service import deletion_requests, deletion_watch, suppressions
from hookline.privacy.model import request_id
from hookline.web.rendering import MARKS, Screens, Stop, screen, unknown

ROWS_ON_A_PAGE = 50
STATES = {
    "looking": ("wait", "◔", "finding events"),
    "erasing": ("wait", "◔", "erasing"),
    "clearing": ("wait", "◔", "erasing"),
    "waiting": ("warn", "▲", "waiting for a receiver"),
    "done": ("good", "●", "done"),
}
STATUSES = {
    "delivered": MARKS["delivered"],
    OPEN: ("wait", "◔", "waiting"),
    "not_delivered": ("dead", "■", "not delivered"),
    BY_HAND: ("warn", "▲", "nothing sent"),
}
"""The words for the statuses of the evidence; where one differs (``filtered``), the page says so above the table."""
ACTIONS = (
    ("both", "Erase, and store no more events"),
    ("delete", "Erase stored events"),
    ("suppress", "Store no more events"),
)
PEOPLE_SHOWN = 100
"""On the page of one request; the JSON has them all."""


class DeletionScreens(Controller):
    """Looking only; a request is made through the admin API."""

    path = "/deletion-requests"

    @get(needs="viewer")
    async def show_deletion_requests(
        self, request: Request[Any, Any, Any], services: FromServices, after: After = None
    ) -> Response[str]:
        """List the requests, newest first."""
        found = deletion_requests(services).newest(ROWS_ON_A_PAGE + 1, number_after(after, PREFIX))
        page = found[:ROWS_ON_A_PAGE]
        return screen(
            request,
            "deletion_requests.html",
            "deletion",
            requests=[view_of(services, each) for each in page],
            states=STATES,
            actions=ACTIONS,
            suppressed=suppressions(services).count(),
            first="/deletion-requests" if after else "",
            after=f"/deletion-requests?after={request_id(page[-1].number)}" if len(found) > len(page) else "",
        )

    @get("/{id:str}", needs="viewer")
    async def show_deletion_request(
        self, request: Request[Any, Any, Any], services: FromServices, id: FromPath[str]
    ) -> Response[str]:
        """Show one request with its evidence, to be printed."""
        number = id_number(id, PREFIX)
        found = None if number is None else deletion_requests(services).get(number)
        if found is None:
            hint = "It was never created here. Requests are kept forever."
            return unknown(request, "deletion", "Deletion request", "There is no such deletion request", id, hint)
        report = await asyncio.to_thread(evidence_of, services, found)
        return screen(
            request,
            "deletion_request.html",
            "deletion",
            report=report,
            delay=deletion_watch(services).delay(found.number),
            people=report.people[:PEOPLE_SHOWN],
            more=max(0, len(report.people) - PEOPLE_SHOWN),
            mark=STATES[report.state],
            statuses=STATUSES,
        )


SCREENS = Screens(
    (DeletionScreens,),
    (Stop("deletion", "Deletion", "/deletion-requests", "x", "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13"),),
    docs={"deletion": "explanation/privacy"},
)
