"""The filters of a destination as the builder begins with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from hookline.connections.model import FILTERS_MAX, Destination
from hookline.connections.state import Stored
from hookline.control.services import Services


class FiltersTab(NamedTuple):
    """``filters`` is the API's JSON."""

    filters: str
    filters_max: int


async def filters_tab(_: Services, stored: Stored[Destination], __: Mapping[str, str]) -> FiltersTab:
    """Return what the builder begins with."""
    return FiltersTab(msgspec.json.encode(stored.object.filters).decode(), FILTERS_MAX)
