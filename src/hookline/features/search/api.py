"""``/api/v1/search``: anything that has a page, by id, name or beginning."""

from __future__ import annotations

from typing import Annotated

from litestar import get
from litestar.params import QueryParameter

from hookline.api.calls import the_caller
from hookline.api.handlers import FromServices
from hookline.features.search.service import SearchResults, search

TEXT_CHARACTERS_MAX = 200


@get("/search", needs="viewer")
async def search_everything(
    services: FromServices,
    q: Annotated[
        str,
        QueryParameter(max_length=TEXT_CHARACTERS_MAX, description="Search text: an id, or the beginning of a name."),
    ] = "",
) -> SearchResults:
    """Find pages, actions, sources, destinations, audiences, computed traits, event names, people, the event, replay,
    dead letter, issue or deletion request with this id, and documentation. Each group has a few results, exact ids
    first. `href` is the page in this service. Results that the caller may not see are left out."""
    return await search(services, the_caller(), q)
