"""The destinations that are told of a definition, as links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hookline.control.services import Services
from hookline.web.address import destination_href


class SyncedDestination(NamedTuple):
    """A destination and its page."""

    name: str
    href: str


def synced_destinations(services: Services, ids: Sequence[str]) -> list[SyncedDestination]:
    """Return the destinations with these ids."""
    found = [(id, services.store.destination(id)) for id in ids]
    return [
        SyncedDestination(id if stored is None else stored.object.name, destination_href(id)) for id, stored in found
    ]
