"""Operations on one person: what is known, and what they did."""

from __future__ import annotations

from hookline.control.listing import Listing
from hookline.control.openapi.operation import PAGE, Operation
from hookline.control.person_events import PersonEvent
from hookline.control.person_view import PersonView

PERSON_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "get",
        "/api/v1/people",
        "getPerson",
        "Return one person: identities, traits and groups with where they come from, audiences and computed traits as "
        "the last syncs left them. Give `userId` or `anonymousId`.",
        PersonView,
        query=("explainedUserId", "anonymousId"),
        problems=(400, 404),
    ),
    Operation(
        "get",
        "/api/v1/people/events",
        "listPersonEvents",
        "List the person's events of all identities, newest first. A page may be short when looking took long; `after` "
        "goes on.",
        Listing[PersonEvent],
        query=("explainedUserId", "anonymousId", *PAGE),
        problems=(400, 404),
    ),
)
