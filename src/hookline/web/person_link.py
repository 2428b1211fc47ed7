"""Whose an event is, as a link to the person's page."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from hookline.outcomes.event_status import EventStatus
from hookline.people.ingest.extraction import Scalar, text
from hookline.web.address import person_href


class PersonLink(NamedTuple):
    """The user id, or else the anonymous id, and the page of that person; both empty for an event of nobody."""

    id: str
    href: str


class _AnonymousId(msgspec.Struct):
    anonymousId: Scalar = None


_anonymous_id = msgspec.json.Decoder(_AnonymousId).decode


def person_link(event: EventStatus) -> PersonLink:
    """Return the person of an event."""
    if event.user_id:
        return PersonLink(event.user_id, person_href(event.user_id))
    try:
        id = text(_anonymous_id(event.event).anonymousId)
    except (msgspec.MsgspecError, RecursionError):
        id = ""
    return PersonLink(id, person_href(None, id) if id else "")
