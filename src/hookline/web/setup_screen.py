"""``/setup``: from a source to an enabled destination, one step at a time."""

from __future__ import annotations

from typing import Annotated, Any, get_args

from litestar import Request, Response, get
from litestar.params import FromQuery, QueryParameter

from hookline.control.services import FromServices
from hookline.control.tester.samples import SampleType
from hookline.web.screen import screen
from hookline.web.setup_page import StepName, setup_page

Named = Annotated[str, QueryParameter(max_length=64)]


@get("/setup", needs="viewer")
async def show_setup(
    request: Request[Any, Any, Any],
    services: FromServices,
    source: Named = "",
    destination: Named = "",
    kind: Named = "",
    step: FromQuery[StepName | None] = None,
) -> Response[str]:
    """Show the step that is next, or the one that is asked for."""
    view = await setup_page(services, source, destination, kind, step)
    return screen(request, "setup.html", "setup", view=view, samples=get_args(SampleType))
