"""The notices about one destination."""

from __future__ import annotations

from collections.abc import Mapping

from hookline.connections.model import Destination
from hookline.connections.state import Stored
from hookline.control.services import Services
from hookline.web.address import destination_href
from hookline.web.notices_page import NoticesPage, notices_page


async def notices_tab(services: Services, stored: Stored[Destination], query: Mapping[str, str]) -> NoticesPage:
    """Return the page of the list that the query asks for."""
    id = stored.object.id
    return notices_page(services, query, destination_href(id, "notices"), "all", subject=id)
