"""The replays of one destination, and the form that makes another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, get_args

from hookline.connections.model import Destination
from hookline.connections.state import Stored
from hookline.control.services import Services
from hookline.journal.record import MessageType
from hookline.web.address import destination_href
from hookline.web.replay_pages import ReplayList, replay_list


class ReplayTab(NamedTuple):
    """The form's choices, what the address fills in, and the list."""

    id: str
    enabled: bool
    message_id: str
    sources: list[tuple[str, str]]
    types: list[tuple[str, str]]
    replays: ReplayList


async def replay_tab(services: Services, stored: Stored[Destination], query: Mapping[str, str]) -> ReplayTab:
    """Return the form and the page of the list that the query asks for."""
    id = stored.object.id
    return ReplayTab(
        id=id,
        enabled=stored.lane is not None,
        message_id=query.get("messageId", ""),
        sources=[(each, each) for each in stored.object.sources],
        types=[(each, each) for each in get_args(MessageType)],
        replays=replay_list(services, query, destination_href(id, "replay"), id),
    )
