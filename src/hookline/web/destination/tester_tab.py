"""The event tester of a destination: what it may begin with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, get_args
from urllib.parse import urlencode

import msgspec

from hookline.connections.model import Destination
from hookline.connections.state import Stored
from hookline.control.services import Services
from hookline.control.tester.samples import SampleType, sample_event
from hookline.events.timestamps import iso
from hookline.web.verification import Verification, verifications_of

RECENT_EVENTS = 20


class TesterTab(NamedTuple):
    """``recent`` is where the script finds events to pick from; ``message_id`` the one that the address names."""

    samples: Sequence[str]
    samples_json: str
    recent: Sequence[str]
    message_id: str
    source: str
    verifications: Sequence[Verification]


async def tester_tab(services: Services, stored: Stored[Destination], query: Mapping[str, str]) -> TesterTab:
    """Return what the tester begins with."""
    sources = stored.object.sources[:3]
    now = iso(services.store.now_ms())
    samples = {each: msgspec.Raw(sample_event(each, now)) for each in get_args(SampleType)}
    return TesterTab(
        samples=sorted(samples, key=lambda each: each != "track"),
        samples_json=msgspec.json.encode(samples).decode(),
        recent=[f"/api/v1/events?{urlencode({'limit': RECENT_EVENTS, 'source': source})}" for source in sources],
        message_id=query.get("messageId", ""),
        source=query.get("source", ""),
        verifications=verifications_of(stored.object.settings),
    )
