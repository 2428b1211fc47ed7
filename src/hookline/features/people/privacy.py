"""Whether nothing may be shown of a person: because their events are not stored, or because their data was erased."""

from __future__ import annotations

from typing import Literal, NamedTuple

from hookline.api.problem import Problem
from hookline.api.services import Services
from hookline.events.timestamps import iso
from hookline.features.privacy.service import deletion_requests, id_digests, suppressions
from hookline.people.timeline import Ownership
from hookline.privacy.model import request_id

REQUESTS_LOOKED_AT = 20
IDENTITIES_LOOKED_AT = 1_000
ERASING = ("looking", "erasing", "clearing")


class Withheld(NamedTuple):
    """Why, since when, and by which deletion request if by one."""

    state: Literal["suppressed", "erasing", "erased"]
    at: str
    request: str | None

    @property
    def says(self) -> str:
        """Return the sentence."""
        by = f" by the deletion request {self.request}" if self.request else ""
        if self.state == "suppressed":
            return f"This person is suppressed{by}: their events are not stored, and nothing is shown."
        if self.state == "erasing":
            return f"This person's data is being erased{by}; nothing is shown any more."
        return f"This person's data was erased{by}."


def refuse_withheld(services: Services, asked: str, owned: Ownership, is_known: bool) -> None:
    """Raise Problem when nothing may be shown of the person."""
    found = withheld(services, asked, owned, is_known)
    if found is not None and found.state == "suppressed":
        raise Problem(404, "person_suppressed", found.says)
    if found is not None:
        raise Problem(404, "person_erased", found.says)


def withheld(services: Services, asked: str, owned: Ownership | None, is_known: bool) -> Withheld | None:
    """Return whether nothing may be shown of the person that was asked for by one id; ``owned`` has all that are known.

    Of somebody with a user id that is what counts: an anonymous id may be on the list because it was another's too.
    Somebody whose data was erased and of whom something was stored since is a person like any other.
    """
    ids = (owned.users or owned.anonymous) if owned is not None else ()
    for id in [asked, *ids][:IDENTITIES_LOOKED_AT]:
        suppression = suppressions(services).get(id_digests(services).of(id))
        if suppression is not None:
            request = None if suppression.request is None else request_id(suppression.request)
            return Withheld("suppressed", iso(suppression.at_ms), request)
    for each in deletion_requests(services).newest(REQUESTS_LOOKED_AT, user_id=asked):
        if each.action == "suppress":
            continue
        if each.state in ERASING:
            return Withheld("erasing", iso(each.at_ms), request_id(each.number))
        if not is_known:
            return Withheld("erased", iso(each.done_ms or each.updated_ms), request_id(each.number))
    return None
